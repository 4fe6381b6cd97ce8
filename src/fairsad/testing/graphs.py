"""Small graphs to test methods on."""

from __future__ import annotations

from typing import Any

import torch

from fairsad.graph import FairGraph


def toy_graph(
    num_nodes: int = 60,
    *,
    num_groups: int = 2,
    num_attributes: int = 1,
    num_classes: int = 2,
    unknown: float = 0.0,
    seed: int = 0,
    **changes: Any,
) -> FairGraph:
    """A graph whose label follows the first feature, whose second feature is the first sensitive attribute.

    The first node has no links; a third of the nodes trains, a third validates, a third tests.

    Args:
        num_nodes: Nodes.
        num_groups: Values of each sensitive attribute.
        num_attributes: Sensitive attributes, at most three: s, t, u.
        num_classes: Classes.
        unknown: Share of sensitive values that are not known.
        seed: Of everything that is drawn.
        **changes: Given to ``FairGraph.build`` in place of what would be made here.

    Example:
        >>> toy_graph(train_mask=None).mask("train").any()
        tensor(False)
    """
    chance = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % num_classes
    sensitive = torch.randint(num_groups, (num_nodes, num_attributes), generator=chance)
    x = torch.randn(num_nodes, 5, generator=chance)
    x[:, 0] += 3.0 * y
    x[:, 1] = sensitive[:, 0].float()
    if unknown:
        sensitive[torch.rand(sensitive.shape, generator=chance) < unknown] = -1
    part = torch.randperm(num_nodes, generator=chance) % 3
    settings: dict[str, Any] = {
        "x": x,
        "edge_index": torch.randint(1, num_nodes, (2, 3 * num_nodes), generator=chance),
        "y": y,
        "sensitive": sensitive,
        "sensitive_names": ["s", "t", "u"][:num_attributes],
        "sensitive_values": [[str(value) for value in range(num_groups)]] * num_attributes,
        "feature_names": ["signal", "s", "a", "b", "c"],
        "train_mask": part == 0,
        "val_mask": part == 1,
        "test_mask": part == 2,
        "name": "toy",
    }
    return FairGraph.build(**(settings | changes))
