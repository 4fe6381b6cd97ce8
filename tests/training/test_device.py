from __future__ import annotations

import pytest
import torch

from fairsad.errors import ProtocolError
from fairsad.training.device import on_device, resolve_device
from tests.graphs import toy_graph


def test_auto_is_a_device_that_works() -> None:
    assert torch.ones(2, device=resolve_device("auto")).sum().item() == 2
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta:x"])
def test_a_device_that_is_not_here(name: str) -> None:
    with pytest.raises(ProtocolError, match=f"device '{name}' cannot be used here .*Use 'auto' or 'cpu'"):
        resolve_device(name)


def test_a_graph_goes_there_and_the_given_one_stays() -> None:
    graph = toy_graph()
    assert on_device(graph, torch.device("cpu")) is graph
    there = on_device(graph, torch.device("meta"))
    assert (there.x.device.type, there.edge_index.device.type) == ("meta", "meta")
    assert graph.x.device.type == "cpu"
