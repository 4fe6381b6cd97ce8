from __future__ import annotations

import math

import numpy as np
import pytest

from fairsad.experiments.memory import peak_mb, reset_peak


def test_the_peak_is_that_since_the_reset() -> None:
    reset_peak()
    before = peak_mb()
    if math.isnan(before):
        pytest.skip("this system does not tell the peak memory of a process")
    block = np.ones(16_000_000)  # 122 MiB
    assert peak_mb() > before + 100
    del block
    assert peak_mb() > before + 100, "the peak stays when the memory is given back"
    reset_peak()
    assert peak_mb() < before + 100
