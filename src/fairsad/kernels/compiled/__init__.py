"""Compiled CPU loops: how they are compiled, cached, announced and started.

Each loop is specialised by sizes that are constants to the compiler (channels, widths), so it is made by a factory
function when those sizes are first seen. The machine code is cached on disk where Numba keeps it: beside the package,
or in the user's cache folder where that is not writable, or in ``NUMBA_CACHE_DIR``.

Threads: loops run on as many threads as PyTorch uses (``torch.set_num_threads``), so trials in parallel processes share
the machine as they would without them. On Linux Numba's OpenMP layer and PyTorch end up in the same OpenMP library and
share its threads; a thread pool of our own would instead wait for the core on which PyTorch's idle thread still spins.
As with PyTorch itself, other processes have to be spawned: OpenMP does not survive a fork once it has started threads.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import torch
from numba.core import event

from fairsad.kernels.compiled import simd

logger = logging.getLogger("fairsad")

Loop = Callable[..., None]

# Numba refreshes a cached loop when the file with the loop changes, but does not see the vector operations that went
# into it; with their hash in its name it is another loop.
_SIMD_HASH = hashlib.sha256(Path(simd.__file__).read_bytes()).hexdigest()[:8]

# One loop at a time: each takes all threads anyway, and Numba's "workqueue" layer (used where there is neither OpenMP
# nor TBB) ends the process when two Python threads start a loop at once.
_running = threading.Lock()

# As many threads as Numba can start: the machine's cores, or NUMBA_NUM_THREADS.
_MOST_THREADS: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


def _start_threads() -> None:
    """Start Numba's threads now, and give PyTorch its number of threads back.

    Numba sets OpenMP's number when it starts, and where the two share OpenMP that is PyTorch's number as well: a trial
    that was told to use one thread would go on with all of them.
    """
    threads = torch.get_num_threads()
    numba.get_num_threads()
    torch.set_num_threads(threads)


_start_threads()

_announced: set[str] = set()


class _Announcement(event.Listener):
    """Says once what is being compiled; stays silent when the code comes from the cache."""

    def __init__(self, function: Loop, purpose: str) -> None:
        self.function = function
        self.purpose = purpose

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func is self.function and self.purpose not in _announced:
            _announced.add(self.purpose)
            logger.info("compiling the CPU kernels for %s, once per machine; a few seconds", self.purpose)

    def on_end(self, event: Any) -> None:
        pass


def compile_loop(function: Loop, signature: Any, *, name: str, purpose: str, fastmath: bool = True) -> Loop:
    """Compile a parallel loop for one signature, or load it from the cache.

    Args:
        function: A closure over the sizes it is specialised by. It must use no other compiled function through its
            closure: those have no identity from one process to the next, and nothing would be found in the cache.
        signature: Numba types of its arguments.
        name: Tells this specialisation from all others. It goes into the name of the cache file, so that processes
            that compile different specialisations at the same time never write the same file.
        purpose: What the log line says the loop is for.
        fastmath: Whether sums may be reordered; infinities and NaN keep their meaning either way.
    """
    function.__name__ = function.__qualname__ = f"{name}_{_SIMD_HASH}"
    options: dict[str, Any] = {
        "parallel": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(simd.FASTMATH) if fastmath else False,
    }
    with event.install_listener("numba:compile", _Announcement(function, purpose)):
        try:
            return numba.njit(signature, cache=True, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            logger.info("no writable folder for compiled kernels; set NUMBA_CACHE_DIR to one to compile only once")
            return numba.njit(signature, **options)(function)  # type: ignore[no-any-return]


def run(loop: Loop, steps: int, *arguments: Any) -> None:
    """Run a loop on as many threads as PyTorch uses, or fewer where there is too little to do.

    Args:
        loop: What ``compile_loop`` made.
        steps: About how many times ten nanoseconds it takes. A thread is started for each tenth of a millisecond:
            threads that wait for each other lose little on an idle machine, but milliseconds on a busy one.
        arguments: Arrays and numbers, of the loop's signature.
    """
    worthwhile = 1 + steps // 10_000
    with _running:
        usual = numba.get_num_threads()
        numba.set_num_threads(min(torch.get_num_threads(), _MOST_THREADS, worthwhile))
        try:
            loop(*arguments)
        finally:
            numba.set_num_threads(usual)
