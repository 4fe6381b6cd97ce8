"""How loops are compiled, announced, cached and started."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numba.core import caching

from fairsad.kernels import compiled
from fairsad.kernels.compiled import compile_loop, run

FIRST_USE = """
import logging, sys, torch
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import Assignment, aggregate
graph = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
messages = torch.ones(2, 2, 3, requires_grad=True)
aggregate(graph, messages, Assignment(torch.ones(2, 2), torch.ones(2, 2))).sum().backward()
print(messages.grad.sum().item())
"""


def test_compiled_once_per_machine_with_a_line_that_says_so(tmp_path: Path) -> None:
    def output() -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", FIRST_USE], env=environment, capture_output=True, text=True, check=True
        ).stdout

    line = "compiling the CPU kernels for 2 channels of width 3, once per machine; a few seconds\n"
    assert output() == f"{line}12.0\n"
    cached = {path.name for path in tmp_path.rglob("*.nb*")}
    assert any("linear_forward_2_3_float32" in name for name in cached)
    assert output() == "12.0\n"
    assert {path.name for path in tmp_path.rglob("*.nb*")} == cached


def doubling() -> Any:
    def loop(values: Any, result: Any) -> None:
        for index in numba.prange(len(values)):
            result[index] = 2 * values[index]

    return loop


SIGNATURE = numba.void(numba.float64[::1], numba.float64[::1])


def test_without_a_folder_to_write_to_loops_run_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    with caplog.at_level(logging.INFO, logger="fairsad"):
        loop = compile_loop(doubling(), SIGNATURE, name="homeless", purpose="a test without a home")
    assert "set NUMBA_CACHE_DIR" in caplog.text
    assert caplog.text.count("compiling the CPU kernels for a test without a home") == 1
    values, result = np.arange(5.0), np.empty(5)
    run(loop, 5, values, result)
    assert result.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_other_failures_of_the_compiler_are_not_hidden() -> None:
    def loop(values: Any, result: Any) -> None:
        result[0] = values.nonsense

    with pytest.raises(numba.TypingError):
        compile_loop(loop, SIGNATURE, name="nonsense", purpose="nonsense")


def test_the_name_tells_specialisations_and_vector_operations_apart() -> None:
    loop = doubling()
    compile_loop(loop, SIGNATURE, name="doubling_4", purpose="a test")
    assert loop.__qualname__ == f"doubling_4_{compiled._SIMD_HASH}"


@pytest.mark.parametrize(("steps", "threads"), [(0, 1), (9_999, 1), (10_000, 2), (10**9, 2)])
def test_threads_are_those_of_torch_but_not_more_than_there_is_work(steps: int, threads: int) -> None:
    seen = []
    usual = torch.get_num_threads()
    numba.set_num_threads(compiled._MOST_THREADS)
    torch.set_num_threads(min(2, compiled._MOST_THREADS))
    try:
        run(lambda: seen.append(numba.get_num_threads()), steps)
        torch.set_num_threads(1)
        run(lambda: seen.append(numba.get_num_threads()), steps)
    finally:
        torch.set_num_threads(usual)
    assert seen == [min(threads, compiled._MOST_THREADS), 1]
    assert numba.get_num_threads() == compiled._MOST_THREADS


def test_starting_does_not_change_the_number_of_threads_of_torch() -> None:
    code = (
        "import torch; torch.set_num_threads(1);"
        "from fairsad.kernels.adjacency import Adjacency; from fairsad.kernels.aggregate import aggregate;"
        "graph = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2);"
        "aggregate(graph, torch.ones(2, 1, 1));"
        "assert torch.get_num_threads() == 1, torch.get_num_threads()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_of_python_take_turns() -> None:
    inside, most = [0], [0]

    def loop() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.002)
        inside[0] -= 1

    workers = [threading.Thread(target=run, args=(loop, 0)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == [1]


def test_a_loop_that_fails_leaves_the_way_free() -> None:
    def loop() -> None:
        raise ValueError("broken")

    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            run(loop, 10**9)
