"""Slow and obvious: the equations in plain loops and dense matrices, to judge the kernels and losses by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from fairsad.kernels.aggregate import Assignment


def random_links(num_nodes: int, num_links: int, seed: int = 0, isolated: Sequence[int] = (0,)) -> Tensor:
    """Both directions of random links, sorted, with some nodes left alone: int64 [2, m]."""
    chance = np.random.default_rng(seed)
    pattern = np.zeros((num_nodes, num_nodes), dtype=bool)
    ends = chance.integers(num_nodes, size=(2, num_links))
    pattern[ends[0], ends[1]] = True
    pattern[list(isolated)] = False
    pattern[:, list(isolated)] = False
    np.fill_diagonal(pattern, False)
    return torch.from_numpy(np.stack(np.nonzero(pattern | pattern.T)).astype(np.int64))


def neighbours(edge_index: Tensor, num_nodes: int) -> list[list[int]]:
    """Of each node, itself included."""
    around = [[node] for node in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        around[source].append(target)
    return [sorted(nodes) for nodes in around]


def softmax(logits: Sequence[float]) -> list[float]:
    """One list at a time."""
    highest = max(logits)
    powers = [math.exp(logit - highest) for logit in logits]
    return [power / sum(powers) for power in powers]


def eq_2_weights(assignment: Assignment, target: int, source: int) -> list[float]:
    """Weights w_uv of one link in all channels, number by number."""
    hidden = [
        p + q for p, q in zip(assignment.target[target].tolist(), assignment.source[source].tolist(), strict=True)
    ]
    if assignment.head is None:
        return softmax(hidden)
    hidden = [max(unit, 0.0) for unit in hidden]
    weight, bias = (part.tolist() for part in assignment.head)
    return softmax(
        [b + sum(w * unit for w, unit in zip(row, hidden, strict=True)) for row, b in zip(weight, bias, strict=True)]
    )


def eq_3_sums(edge_index: Tensor, messages: Tensor, assignment: Assignment | None) -> Tensor:
    """Weighted sums over neighbours, node by node and channel by channel."""
    num_nodes, num_channels, width = messages.shape
    result = torch.zeros(messages.shape, dtype=torch.float64)
    values = messages.tolist()
    for node, around in enumerate(neighbours(edge_index, num_nodes)):
        for other in around:
            weights = [1 / num_channels] * num_channels
            if assignment is not None:
                weights = eq_2_weights(assignment, node, other)
            for k in range(num_channels):
                for j in range(width):
                    result[node, k, j] += weights[k] * values[other][k][j]
    return result


def dense_sums(edge_index: Tensor, messages: Tensor, assignment: Assignment | None) -> Tensor:
    """The same with [n, n, K] weights, differentiable."""
    num_nodes, num_channels, _ = messages.shape
    pattern = torch.eye(num_nodes, dtype=messages.dtype)
    pattern[edge_index[0], edge_index[1]] = 1
    if assignment is None:
        weights = torch.full((num_nodes, num_nodes, num_channels), 1 / num_channels, dtype=messages.dtype)
    else:
        logits = assignment.target[:, None] + assignment.source[None]
        if assignment.head is not None:
            logits = torch.nn.functional.linear(logits.relu(), *assignment.head)
        weights = logits.softmax(dim=2)
    return torch.einsum("uvk,vkq->ukq", weights * pattern[:, :, None], messages)


def signed_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """D(x; y)_i = sum_j sgn(x_i - x_j) |y_i - y_j|, row by row."""
    return np.array([(np.sign(x[i] - x) * np.abs(y[i] - y)).sum() for i in range(len(x))])


def eq_12_centred(column: Sequence[float]) -> list[list[float]]:
    """A of one column, entry by entry."""
    n = len(column)
    a = [[abs(p - q) for q in column] for p in column]
    row = [sum(line) / n for line in a]
    grand = sum(row) / n
    return [[a[i][j] - row[i] - row[j] + grand for j in range(n)] for i in range(n)]


def eq_11_covariance(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """dCov² of two channels, given column by column, summed as the appendix does."""
    total = 0.0
    for x, y in zip(first, second, strict=True):
        a, b = eq_12_centred(x), eq_12_centred(y)
        total += sum(a[i][j] * b[i][j] for i in range(len(a)) for j in range(len(a)))
    return total


def dense_gamma(channels: Tensor) -> Tensor:
    """Γ of columns with the same index in any two channels, [K, K, q], differentiable."""
    distances = (channels[:, None] - channels[None]).abs()
    centred = distances - distances.mean(0, keepdim=True) - distances.mean(1, keepdim=True)
    centred = centred + distances.mean((0, 1), keepdim=True)
    return torch.einsum("xykj,xylj->klj", centred, centred) / len(channels) ** 2


def dense_distance_correlation(channels: Tensor, ratio: str) -> Tensor:
    """Eq. (7) from dense matrices; constant channels contribute nothing."""
    gamma = dense_gamma(channels)
    total = (0 * channels).sum()
    for k, other in channel_pairs(channels.size(1)):
        own, theirs = gamma[k, k], gamma[other, other]
        if ratio == "per_column":
            total = total + (gamma[k, other] / (own * theirs + 1e-9).sqrt()).sum()
        elif own.sum() > 0 and theirs.sum() > 0:
            total = total + gamma[k, other].sum() / (own.sum() * theirs.sum()).sqrt()
    return total


def channel_pairs(num_channels: int) -> Iterator[tuple[int, int]]:
    """Pairs k < l."""
    return ((k, other) for k in range(num_channels) for other in range(k + 1, num_channels))


def covariance(first: Sequence[float], second: Sequence[float]) -> float:
    """Biased, number by number."""
    mean, other_mean = sum(first) / len(first), sum(second) / len(second)
    return sum((p - mean) * (q - other_mean) for p, q in zip(first, second, strict=True)) / len(first)
