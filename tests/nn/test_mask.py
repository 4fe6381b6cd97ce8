from __future__ import annotations

import torch

from fairsad.nn.mask import ColumnMask

COLUMNS = torch.randn(5, 3)


def mask(**options: object) -> ColumnMask:
    torch.manual_seed(1)
    return ColumnMask(3, **options)  # type: ignore[arg-type]


def test_eq_5_columns_are_scaled_by_the_probability_at_evaluation() -> None:
    module = mask().eval()
    expected = module.scores.exp()[:, 0] / module.scores.exp().sum(dim=1)
    torch.testing.assert_close(module(COLUMNS), COLUMNS * expected)
    assert torch.equal(module(COLUMNS), module(COLUMNS))


def test_one_draw_is_shared_by_all_nodes_and_each_pass_draws_anew() -> None:
    module = mask().train()
    ratio = module(COLUMNS) / COLUMNS
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert ((ratio > 0) & (ratio < 1)).all()
    assert not torch.allclose(module(COLUMNS) / COLUMNS, ratio)


def test_the_mean_of_hard_draws_is_the_probability() -> None:
    module = mask(hard=True).train()
    draws = torch.stack([module.sample() for _ in range(4000)])
    assert set(draws.unique().tolist()) <= {0.0, 1.0}
    torch.testing.assert_close(draws.mean(dim=0), module.probabilities(), atol=0.03, rtol=0)
    module.sample().sum().backward()
    assert module.scores.grad is not None
    assert module.scores.grad.abs().sum() > 0


def test_a_draw_for_evaluation_is_kept_until_the_next_and_saved_with_the_weights() -> None:
    module = mask(draw_at_evaluation=True).eval()
    module.draw()
    first = module(COLUMNS)
    assert torch.equal(module(COLUMNS), first)
    other = mask(draw_at_evaluation=True).eval()
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(COLUMNS), first)
    torch.manual_seed(2)
    module.draw()
    assert not torch.equal(module(COLUMNS), first)


def test_without_that_option_drawing_changes_nothing() -> None:
    module = mask().eval()
    before = module(COLUMNS)
    module.draw()
    assert torch.equal(module(COLUMNS), before)
    assert set(module.state_dict()) == {"scores"}
