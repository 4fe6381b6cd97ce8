from __future__ import annotations

import pytest
import torch

from fairsad.testing.graphs import toy_graph


def test_it_is_as_it_says() -> None:
    graph = toy_graph(num_groups=3, num_attributes=2, num_classes=3)
    assert graph.sensitive_names == ("s", "t")
    assert (graph.sensitive.amin(), graph.sensitive.amax()) == (0, 2)
    assert set(graph.y.tolist()) == {0, 1, 2}
    assert torch.equal(graph.x[:, 1], graph.sensitive[:, 0].float())
    assert graph.sensitive_columns == ((1,), ())
    assert not bool((graph.edge_index == 0).any())
    assert [int(graph.mask(split).sum()) for split in ("train", "val", "test")] == [20, 20, 20]
    means = torch.stack([graph.x[graph.y == label, 0].mean() for label in range(3)])
    assert bool((means.diff() > 2).all())


def test_the_same_seed_makes_the_same_graph() -> None:
    assert toy_graph(seed=3).fingerprint == toy_graph(seed=3).fingerprint
    assert toy_graph(seed=3).fingerprint != toy_graph(seed=4).fingerprint


@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_a_share_of_the_sensitive_values_is_unknown(unknown: float) -> None:
    graph = toy_graph(3000, unknown=unknown)
    assert float((graph.sensitive < 0).float().mean()) == pytest.approx(unknown, abs=0.03)
