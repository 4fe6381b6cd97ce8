from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairsad.errors import DataError
from fairsad.losses.covariance import centred_indicators, covariance_loss
from tests.judges import covariance


def loss_of(columns: Tensor, sensitive: Tensor) -> Tensor:
    return covariance_loss(columns, centred_indicators(sensitive, columns.dtype))


def columns_of(num_rows: int, width: int = 5) -> Tensor:
    return torch.randn(num_rows, width, dtype=torch.float64)


def test_eq_6_mask_covariance_by_plain_loops() -> None:
    columns, s = columns_of(40), torch.arange(40) % 3 % 2
    by_hand = sum(abs(covariance(s.tolist(), column)) for column in columns.t().tolist())
    assert loss_of(columns, s.unsqueeze(1)).item() == pytest.approx(by_hand, rel=1e-12)
    # the biased estimate, as NumPy has it
    numpy = sum(abs(np.cov(s, column, ddof=0)[0, 1]) for column in columns.t().numpy())
    assert by_hand == pytest.approx(numpy, rel=1e-12)


def test_more_groups_count_half_the_sum_over_their_indicators() -> None:
    columns, s = columns_of(50), torch.randint(4, (50,))
    by_hand = sum(
        abs(covariance([float(value == g) for value in s.tolist()], column)) / 2
        for g in range(4)
        for column in columns.t().tolist()
    )
    assert loss_of(columns, s.unsqueeze(1)).item() == pytest.approx(by_hand, rel=1e-12)


def test_attributes_are_added_and_unknown_values_stay_out() -> None:
    columns = columns_of(60)
    sensitive = torch.stack([torch.randint(-1, 2, (60,)), torch.randint(-1, 3, (60,))], dim=1)
    by_hand = 0.0
    for values in sensitive.t():
        known = values >= 0
        by_hand += loss_of(columns[known], values[known].unsqueeze(1)).item()
    assert loss_of(columns, sensitive).item() == pytest.approx(by_hand, rel=1e-12)

    columns.requires_grad_()
    loss_of(columns, sensitive[:, :1]).backward()
    assert columns.grad is not None
    assert not columns.grad[sensitive[:, 0] < 0].any()
    assert columns.grad[sensitive[:, 0] >= 0].all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=12), st.permutations(range(4)))
def test_names_of_groups_do_not_matter(values: list[int], renamed: list[int]) -> None:
    columns = columns_of(len(values))
    other = [value if value < 0 else renamed[value] for value in values]
    losses = [loss_of(columns, torch.tensor(v).unsqueeze(1)).item() for v in (values, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("values", [[0, 0, 0, 0], [2, -1, 2, 2], [-1, -1, -1, -1], [1, -1, -1, -1]])
def test_one_known_group_or_none_contributes_nothing(values: list[int]) -> None:
    columns = columns_of(4).requires_grad_()
    loss = loss_of(columns, torch.tensor(values).unsqueeze(1))
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-15)
    assert columns.grad is not None
    torch.testing.assert_close(columns.grad, torch.zeros_like(columns.grad), atol=1e-15, rtol=0)


def test_no_attribute_is_no_loss() -> None:
    assert loss_of(columns_of(4), torch.zeros(4, 0, dtype=torch.int64)).item() == 0.0


def test_a_shift_of_a_column_changes_nothing() -> None:
    columns, sensitive = columns_of(30), torch.randint(2, (30, 1))
    shifted = loss_of(columns + 100, sensitive)
    torch.testing.assert_close(shifted, loss_of(columns, sensitive))


def test_gradcheck() -> None:
    columns, sensitive = columns_of(9, 3).requires_grad_(), torch.randint(-1, 3, (9, 2))
    assert torch.autograd.gradcheck(lambda c: loss_of(c, sensitive), columns)


def test_other_nodes_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(5, 3\) and centred indicators \(2, 4\); expected .* the same t nodes"):
        loss_of(torch.zeros(5, 3), torch.tensor([[0], [1], [1], [0]]))
    with pytest.raises(DataError, match=r"sensitive values have shape \(5,\)"):
        loss_of(torch.zeros(5, 3), torch.zeros(5, dtype=torch.int64))
