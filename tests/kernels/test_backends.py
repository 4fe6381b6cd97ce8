"""Which form of a kernel runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from fairsad.errors import DataError
from fairsad.kernels import describe_backend, exact_dtype, use_backend, uses_numba


def test_cpu_tensors_go_to_numba_and_others_do_not() -> None:
    assert uses_numba(torch.zeros(2))
    assert uses_numba(torch.zeros(2, dtype=torch.float64))
    assert not uses_numba(torch.zeros(2, dtype=torch.float16))
    assert not uses_numba(torch.zeros(2, device="meta"))


def test_the_choice_holds_inside_its_block_only() -> None:
    with use_backend("torch"):
        assert not uses_numba(torch.zeros(2))
        with use_backend("numba"):
            assert uses_numba(torch.zeros(2))
        assert not uses_numba(torch.zeros(2))
    assert uses_numba(torch.zeros(2))


def test_asking_for_the_impossible_says_so() -> None:
    with use_backend("numba"), pytest.raises(DataError, match=r"torch.float16 tensor on cpu.*Use use_backend"):
        uses_numba(torch.zeros(2, dtype=torch.float16))
    with pytest.raises(DataError, match="'fortran'; expected"), use_backend("fortran"):  # type: ignore[arg-type]
        pass


def test_description_names_what_runs() -> None:
    assert describe_backend("cpu").startswith("compiled loops (Numba ")
    assert describe_backend("cuda:1") == "plain PyTorch on cuda:1"
    with use_backend("torch"):
        assert describe_backend("cpu") == "plain PyTorch on cpu"


def test_sums_are_as_wide_as_the_device_allows() -> None:
    assert exact_dtype(torch.device("cuda")) == torch.float64
    assert exact_dtype(torch.device("mps")) == torch.float32


def test_numba_is_imported_only_when_a_loop_runs() -> None:
    code = (
        "import sys, torch, fairsad.losses.distance_correlation, fairsad.kernels.aggregate as a;"
        "from fairsad.kernels.adjacency import Adjacency;"
        "graph = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2);"
        "assert 'numba' not in sys.modules;"
        "a.aggregate(graph, torch.ones(2, 1, 1));"
        "assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
