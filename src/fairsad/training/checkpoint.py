"""Everything a run needs to go on as if it had never stopped, in one file without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairsad.errors import DataError
from fairsad.files import whole_file

FORMAT = "fairsad-checkpoint-1"
FILE_NAME = "checkpoint.safetensors"


def save_state(state: Mapping[str, Any], path: Path) -> None:
    """Write a nested dict of tensors and JSON values; atomic, so a killed run leaves the last whole checkpoint."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    skeleton = _take_tensors(state, tensors)
    with whole_file(path) as partial:
        save_file(tensors, partial, metadata={"format": FORMAT, "state": json.dumps(skeleton)})


def load_state(path: Path) -> dict[str, Any]:
    """Read what ``save_state`` wrote; tensors come on the CPU."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise DataError(f"{path} is not a checkpoint of this version. Train again without --resume.")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # not a dict
    except SafetensorError as error:
        raise DataError(f"{path} cannot be read ({error}). Remove it and train again without --resume.") from None
    state = _put_tensors(json.loads(metadata["state"]), tensors)
    assert isinstance(state, dict)
    return state


# JSON has no integer keys, which optimiser states use, so a dict is written as a list of pairs.


def _take_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"{len(tensors):05d}"
        # a copy of its own: two states may share memory, which the file format refuses
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"dict": [[key, _take_tensors(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_take_tensors(item, tensors) for item in value]}
    return value


def _put_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _put_tensors(item, tensors) for key, item in content}
    return [_put_tensors(item, tensors) for item in content]


def random_state() -> dict[str, Any]:
    """Where the random streams stand."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Put the random streams back to where they stood."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
