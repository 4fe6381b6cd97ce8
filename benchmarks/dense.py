"""FairSAD written down plainly: every pair of linked nodes, every channel in turn, every n × n matrix of distances.

The judge of the kernels in the tests, and what they are measured against: it reads the same weights and computes the
same equations, in memory that grows with links × features and with the square of the training nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from fairsad.losses.classification import classification_loss

if TYPE_CHECKING:
    from fairsad.methods.fairsad import FairSAD, FairSADModel
    from fairsad.nn.assigner import NeighbourAssigner
    from fairsad.nn.discriminator import ChannelDiscriminator
    from fairsad.nn.encoder import DisentangledEncoder


def with_self_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Links (u, v), target first, with every node linked to itself."""
    loops = torch.arange(num_nodes).expand(2, -1)
    return torch.cat([edge_index, loops], dim=1)


def shares(assigner: NeighbourAssigner, x: Tensor, links: Tensor) -> Tensor:
    """Eq. (2) on the matrix of pairs: [m, K]."""
    pairs = torch.cat([x[links[0]], x[links[1]]], dim=1)
    hidden = assigner.pair(pairs)
    if assigner.activation == "relu":
        hidden = hidden.relu()
    return torch.softmax(assigner.score(hidden), dim=1)


def channels(encoder: DisentangledEncoder, x: Tensor, links: Tensor) -> Tensor:
    """Eq. (3), channel by channel: [n, K, q]."""
    num_channels, width = encoder.num_channels, encoder.channel_dim
    if encoder.assigner is None:
        weights = torch.full((links.size(1), num_channels), 1 / num_channels, dtype=x.dtype)
    else:
        weights = shares(encoder.assigner, x, links)
    before: list[Tensor] = []
    for index in range(len(encoder.layers)):
        layer = encoder.layer(index)
        after = []
        for k in range(num_channels):
            if index == 0 or len(encoder.reductions) > 1:
                reduction = encoder.reduction(index)
                rows = slice(k * width, (k + 1) * width)
                source = x if index == 0 else torch.cat(before, dim=1)
                z = functional.linear(source, reduction.weight[rows], reduction.bias[rows])
            else:
                z = before[k]
            messages = weights[:, k : k + 1] * (z @ layer.weight[k].T)[links[1]]
            total = torch.zeros(len(x), width, dtype=x.dtype).index_add(0, links[0], messages) + layer.bias[k]
            z = functional.normalize(total, dim=1, eps=1e-12)
            after.append(functional.dropout(z, encoder.dropout, encoder.training))
        before = after
    return torch.stack(before, dim=1)


def centred_distances(column: Tensor) -> Tensor:
    """A of the appendix's Eq. (12): [n, n]."""
    distances = (column[:, None] - column[None, :]).abs()
    return distances - distances.mean(dim=0) - distances.mean(dim=1, keepdim=True) + distances.mean()


def distance_correlation_loss(z: Tensor, ratio: str) -> Tensor:
    """Eq. (7) with Eq. (11): a pair of channels and a pair of columns at a time; dCov² is the mean of A · B."""
    _, num_channels, width = z.shape
    total = z.new_zeros(())
    for k in range(num_channels):
        for other in range(k + 1, num_channels):
            covariances = []
            for j in range(width):
                a, b = centred_distances(z[:, k, j]), centred_distances(z[:, other, j])
                covariances.append(torch.stack([(a * b).mean(), (a * a).mean(), (b * b).mean()]))
            cross, first, second = torch.stack(covariances, dim=1)
            if ratio == "per_column":
                total = total + (cross / torch.sqrt(first * second + 1e-9)).sum()
            else:
                total = total + cross.sum() / torch.sqrt(first.sum() * second.sum())
    return total


def covariance_loss(columns: Tensor, sensitive: Tensor) -> Tensor:
    """Eq. (6) for one attribute with two groups: a column at a time."""
    s = sensitive.to(columns.dtype)
    total = columns.new_zeros(())
    for column in columns.T:
        total = total + ((s - s.mean()) * (column - column.mean())).mean().abs()
    return total


def total_loss(
    method: FairSAD,
    model: FairSADModel,
    discriminator: ChannelDiscriminator,
    x: Tensor,
    links: Tensor,
    labels: Tensor,
    sensitive: Tensor,
    train_nodes: Tensor,
) -> dict[str, Tensor]:
    """Eq. (9) and its parts, on the whole graph."""
    columns = model.masked(channels(model.encoder, x, links))
    trained = columns[train_nodes]
    parts = {"classification": classification_loss(model.classify(trained), labels[train_nodes])}
    loss = parts["classification"]
    if method.use_independence and method.num_channels > 1:
        everywhere = columns.view(len(columns), method.num_channels, -1)
        for_distance = everywhere if method.distance_nodes == "all" else everywhere[train_nodes]
        for_channel = everywhere if method.channel_loss_nodes == "all" else everywhere[train_nodes]
        parts["distance"] = distance_correlation_loss(for_distance, method.distance_ratio)
        scores = discriminator(for_channel)
        parts["channel"] = torch.stack(
            [functional.cross_entropy(scores[:, k], torch.full((len(scores),), k)) for k in range(method.num_channels)]
        ).sum()
        loss = loss + method.alpha * (parts["distance"] + parts["channel"])
    if method.use_mask:
        parts["covariance"] = covariance_loss(trained, sensitive[train_nodes])
        loss = loss + method.beta * parts["covariance"]
    return {"loss": loss, **parts}
