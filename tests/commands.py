"""The command line, called from tests."""

from __future__ import annotations

import pytest

from fairsad.cli import main


def fairsad(*arguments: object) -> int:
    """Run a command; gives its exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code
