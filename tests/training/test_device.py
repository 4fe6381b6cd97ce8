from __future__ import annotations

import pytest
import torch

from fairsad.errors import ProtocolError
from fairsad.training.device import resolve_device


def test_auto_is_a_device_that_works() -> None:
    assert torch.ones(2, device=resolve_device("auto")).sum().item() == 2
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta:x"])
def test_a_device_that_is_not_here(name: str) -> None:
    with pytest.raises(ProtocolError, match=f"device '{name}' cannot be used here .*Use 'auto' or 'cpu'"):
        resolve_device(name)
