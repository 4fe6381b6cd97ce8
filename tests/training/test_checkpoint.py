from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.optim import Adam

from fairsad.errors import DataError
from fairsad.training.checkpoint import load_state, random_state, restore_random_state, save_state


def test_nested_state_comes_back_the_same(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    state = {
        "epoch": 3,
        "score": -math.inf,
        "weights": {"a": shared, "view": shared.view(2, 3), "t": shared.view(2, 3).T, "empty": torch.zeros(0)},
        "rows": [{"loss": 0.1 + 0.2}, {"loss": math.nan}],
        "by_number": {0: torch.tensor(True), 1: {"step": torch.tensor(2, dtype=torch.int64)}},
        "nothing": None,
    }
    save_state(state, tmp_path / "deep" / "state.safetensors")
    loaded = load_state(tmp_path / "deep" / "state.safetensors")
    assert loaded["epoch"] == 3
    assert loaded["score"] == -math.inf
    assert loaded["rows"][0]["loss"] == 0.1 + 0.2  # to the last bit
    assert math.isnan(loaded["rows"][1]["loss"])
    assert loaded["nothing"] is None
    for name, tensor in state["weights"].items():  # type: ignore[union-attr]
        assert torch.equal(loaded["weights"][name], tensor)
    assert loaded["by_number"][0].dtype == torch.bool
    assert loaded["by_number"][1]["step"] == 2


def test_an_optimiser_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def step(weight: torch.Tensor, optimiser: Adam) -> None:
        (weight**2).sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    weight = torch.ones(3, requires_grad=True)
    optimiser = Adam([weight], lr=0.1)
    step(weight, optimiser)
    save_state({"weight": weight, "optimiser": optimiser.state_dict()}, tmp_path / "s")
    step(weight, optimiser)

    state = load_state(tmp_path / "s")
    again = state["weight"].requires_grad_()
    other = Adam([again], lr=0.5)
    other.load_state_dict(state["optimiser"])
    step(again, other)
    assert torch.equal(again, weight)


def test_the_random_stream_goes_on_where_it_stood(tmp_path: Path) -> None:
    save_state(random_state(), tmp_path / "s")
    first = torch.rand(5)
    restore_random_state(load_state(tmp_path / "s"))
    assert torch.equal(torch.rand(5), first)


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"half a file")
    with pytest.raises(DataError, match="cannot be read"):
        load_state(tmp_path / "s")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "s")
    with pytest.raises(DataError, match="not a checkpoint of this version"):
        load_state(tmp_path / "s")
