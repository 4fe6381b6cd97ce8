from __future__ import annotations

import os

import pytest

from fairsad.machine import memory_bytes


def test_the_memory_of_the_machine_is_known() -> None:
    there = memory_bytes()
    assert there is None or there > 2**28


def test_a_system_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert memory_bytes() is None
