from __future__ import annotations

import json
import platform
from importlib.metadata import version

from fairsad.experiments.protocol import host, provenance, source_state, versions


def test_everything_that_may_change_a_number_is_told() -> None:
    told = provenance()
    assert told["versions"]["torch"] == version("torch")
    assert told["versions"]["python"] == platform.python_version()
    assert "unknown" not in versions().values()
    assert host()["cores"] >= 1
    json.dumps(told)


def test_the_host_is_described_and_not_named() -> None:
    assert platform.node() not in json.dumps(host())


def test_the_source_is_a_commit_or_an_installed_package() -> None:
    state = source_state()
    assert state is None or (len(state["commit"]) == 40 and isinstance(state["changed"], bool))
