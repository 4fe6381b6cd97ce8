from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairsad.nn import augmenter
from fairsad.nn.augmenter import Augmenter, Convolutions, DrawnLinks, draw_link_list, draw_links, draw_mask, perceptron
from tests.judges import random_links

BLOCKS = pytest.mark.parametrize("pairs", [1, 40, 1 << 20], ids=["a row at a time", "a few rows", "all at once"])


def pattern_of(number: int) -> Tensor:
    """A + I, the first node without links."""
    pattern = torch.eye(number, dtype=torch.bool)
    source, target = random_links(number, 2 * number)
    pattern[source, target] = True
    return pattern


def scored(number: int, width: int = 4, seed: int = 0) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(number, width, generator=chance, dtype=torch.float64).requires_grad_()


def noise_of_blocks(number: int, pairs: int) -> Tensor:
    """The noise of each pair, drawn as the links of these blocks of rows draw theirs."""
    noise = torch.zeros(number, number, dtype=torch.float64)
    step = max(1, pairs // number)
    for start in range(0, number, step):
        stop = min(start + step, number)
        noise[start:stop, start:] = torch.empty(stop - start, number - start).double().uniform_(2.0**-23, 1)
    return noise


def relaxed_links(z: Tensor, pattern: Tensor, noise: Tensor) -> Tensor:
    """The relaxed sample of every pair: logistic noise on the logit of its probability, ones on the diagonal."""
    upper = ((z @ z.t()).sigmoid() + pattern) / 2
    upper = (upper.logit() + noise.logit()).sigmoid().triu(1)
    return upper + upper.t() + torch.eye(len(z), dtype=z.dtype)


def dense_propagation(links: Tensor) -> Tensor:
    scale = torch.diag(links.sum(dim=1) ** -0.5)
    return scale @ links @ scale


# --- links --------------------------------------------------------------------------------------------------------


@BLOCKS
def test_links_are_zeros_and_ones_symmetric_with_a_loop_at_every_node(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(augmenter, "_PAIRS_AT_A_TIME", pairs)
    torch.manual_seed(0)
    for number in (1, 2, 19):
        links = draw_links(scored(number), pattern_of(number))
        assert links.shape == (number, number)
        assert links.dtype == torch.float64
        assert ((links == 0) | (links == 1)).all()
        assert torch.equal(links, links.t())
        assert (links.diagonal() == 1).all()
        assert links.sum() > number or number < 3


@BLOCKS
def test_links_and_their_gradient_are_those_of_the_relaxed_sample(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmenter, "_PAIRS_AT_A_TIME", pairs)
    z, pattern, direction = scored(19), pattern_of(19), scored(19, 19, seed=1).detach()  # not symmetric
    for seed in range(5):
        torch.manual_seed(seed)
        found = draw_links(z, pattern)
        torch.manual_seed(seed)
        relaxed = relaxed_links(z, pattern, noise_of_blocks(19, pairs))
        assert torch.equal(found, (relaxed > 0.5).double())
        for mine, judged in zip(
            torch.autograd.grad((found * direction).sum(), z),
            torch.autograd.grad((relaxed * direction).sum(), z),
            strict=True,
        ):
            torch.testing.assert_close(mine, judged, rtol=1e-8, atol=1e-10)


def test_gradcheck_of_the_relaxed_sample() -> None:
    """The judge of the gradient is judged by differences."""
    noise, pattern = torch.rand(6, 6, dtype=torch.float64), pattern_of(6)
    assert torch.autograd.gradcheck(lambda z: relaxed_links(z, pattern, noise), scored(6, 2))


def test_the_gradient_passes_straight_through_links_and_degrees() -> None:
    z, pattern, h = scored(15), pattern_of(15), scored(15, 3, seed=1)
    direction = scored(15, 3, seed=2).detach()
    torch.manual_seed(0)
    found = DrawnLinks(draw_links(z, pattern)).propagate(h)
    torch.manual_seed(0)
    relaxed = relaxed_links(z, pattern, noise_of_blocks(15, 1 << 20))
    judged = dense_propagation((relaxed > 0.5).double() + relaxed - relaxed.detach()) @ h
    torch.testing.assert_close(found, judged)
    for mine, its in zip(
        torch.autograd.grad((found * direction).sum(), (z, h)),
        torch.autograd.grad((judged * direction).sum(), (z, h)),
        strict=True,
    ):
        torch.testing.assert_close(mine, its, rtol=1e-8, atol=1e-10)


def test_each_pair_is_linked_with_its_probability_and_on_its_own() -> None:
    z, pattern, rounds = scored(40).detach(), pattern_of(40), 400
    torch.manual_seed(0)
    draws = torch.stack([draw_links(z.float(), pattern) for _ in range(rounds)])
    probability = ((z @ z.t()).sigmoid() + pattern) / 2
    upper = torch.ones(40, 40).triu(1).bool()
    found, expected = draws.mean(dim=0)[upper], probability[upper]
    spread = (expected * (1 - expected) / rounds).sqrt()
    assert ((found - expected).abs() < 5 * spread + 1e-6).all()
    assert (found[pattern[upper]] > 0.5 - 5 * spread[pattern[upper]]).all()
    assert (found[~pattern[upper]] < 0.5 + 5 * spread[~pattern[upper]]).all()
    numbers = draws[:, upper].sum(dim=1)
    assert numbers.var().item() == pytest.approx((expected * (1 - expected)).sum().item(), rel=0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_links_always_stay_and_impossible_ones_never_come(dtype: torch.dtype) -> None:
    sides = torch.where(torch.arange(200) % 2 == 0, 100.0, -100.0).to(dtype).unsqueeze(1)
    alike = sides @ sides.t() > 0
    torch.manual_seed(0)
    for _ in range(5):
        assert torch.equal(draw_links(sides, alike), alike.to(dtype))
    against = draw_links(sides.requires_grad_(), ~alike | torch.eye(200, dtype=torch.bool))  # scores say the contrary
    assert against.triu(1).sum().item() == pytest.approx(200 * 199 / 4, rel=0.05)
    against.sum().backward()
    assert sides.grad is not None
    assert sides.grad.isfinite().all()


@BLOCKS
def test_the_list_of_links_is_the_same_draw(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmenter, "_PAIRS_AT_A_TIME", pairs)
    z, pattern = scored(23).detach(), pattern_of(23)
    entries = pattern.nonzero().t()
    mixed = entries[:, torch.randperm(entries.size(1))]
    for seed in range(3):
        torch.manual_seed(seed)
        links = draw_links(z, pattern)
        torch.manual_seed(seed)
        listed = torch.cat([*draw_link_list(z, *mixed)], dim=1)
        assert torch.equal(listed, links.triu(1).nonzero().t())


def test_links_propagate_as_the_dense_matrix_does_and_detached_they_are_the_same() -> None:
    links = draw_links(scored(12), pattern_of(12))
    h, drawn = scored(12, 3), DrawnLinks(links)
    torch.testing.assert_close(drawn.propagate(h), dense_propagation(links) @ h)
    fixed = drawn.detached()
    assert torch.equal(fixed.propagate(h), drawn.propagate(h))
    assert not fixed.propagate(h.detach()).requires_grad
    assert drawn.propagate(h.detach()).requires_grad


# --- the mask of features -----------------------------------------------------------------------------------------


def test_a_mask_keeps_features_or_takes_them_away_with_their_probability() -> None:
    scores = torch.linspace(-3, 3, 12).repeat(20_000, 1)
    torch.manual_seed(0)
    mask = draw_mask(scores)
    assert ((mask == 0) | (mask == 1)).all()
    torch.testing.assert_close(mask.mean(dim=0), scores[0].sigmoid(), atol=5 * 0.5 / math.sqrt(20_000), rtol=0)
    x = torch.randn_like(scores)
    assert torch.equal((x * mask)[mask == 1], x[mask == 1])
    assert not (x * mask)[mask == 0].any()
    certain = draw_mask(torch.tensor([100.0, -100.0]).repeat(5000, 1))
    assert torch.equal(certain, torch.tensor([1.0, 0.0]).repeat(5000, 1))


def test_the_mask_s_gradient_is_that_of_the_relaxed_sample() -> None:
    scores, direction = scored(30), scored(30, seed=1).detach()
    torch.manual_seed(0)
    mask = draw_mask(scores)
    torch.manual_seed(0)
    noise = torch.empty(30, 4).double().uniform_(2.0**-23, 1)
    relaxed = (scores + (noise / (1 - noise)).log()).sigmoid()
    assert torch.equal(mask, (relaxed > 0.5).double())
    (found,) = torch.autograd.grad((mask * direction).sum(), scores)
    torch.testing.assert_close(found, relaxed.detach() * (1 - relaxed.detach()) * direction)


# --- modules ------------------------------------------------------------------------------------------------------


def test_convolutions_end_in_relu_and_drop_between_layers_only() -> None:
    torch.manual_seed(0)
    module, matrix = Convolutions((5, 8, 6), dropout=0.5), dense_propagation(pattern_of(10).double()).float()
    for layer in module.layers:
        assert isinstance(layer, nn.Linear)
        nn.init.normal_(layer.bias)
    (w1, b1), (w2, b2) = ((layer.weight, layer.bias) for layer in module.layers)  # type: ignore[misc]
    x = torch.randn(10, 5)

    def by_hand(dropped: float) -> Tensor:
        h = functional.dropout((matrix @ x @ w1.t() + b1).relu(), dropped)
        return (matrix @ h @ w2.t() + b2).relu()

    def propagate(h: Tensor) -> Tensor:
        return matrix @ h

    torch.testing.assert_close(module.eval()(propagate(x), propagate), by_hand(0.0), rtol=1e-4, atol=1e-5)
    torch.manual_seed(1)
    found = module.train()(propagate(x), propagate)
    torch.manual_seed(1)
    torch.testing.assert_close(found, by_hand(0.5), rtol=1e-4, atol=1e-5)
    assert (found == 0).any()


def test_the_augmenter_scores_links_and_features_from_one_representation() -> None:
    torch.manual_seed(0)
    module, matrix = Augmenter(5, 8, dropout=0.1).eval(), dense_propagation(pattern_of(10).double()).float()
    x = torch.randn(10, 5)

    def propagate(h: Tensor) -> Tensor:
        return matrix @ h

    z, scores = module(propagate(x), propagate)
    h = module.convolutions(propagate(x), propagate)
    assert h.shape == (10, 8)
    for found, head in ((z, module.link_head), (scores, module.feature_head)):
        first, _, last = head
        assert found.shape == (10, 5)
        torch.testing.assert_close(found, (h @ first.weight.t()).relu() @ last.weight.t())
    assert not torch.equal(z, scores)


def test_a_perceptron_s_first_layer_is_as_wide_as_its_input() -> None:
    first, activation, last = perceptron(6, 3, nn.ELU())
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    assert (first.weight.shape, last.weight.shape) == ((6, 6), (3, 6))
    assert isinstance(activation, nn.ELU)
    assert not first.bias.any()
    assert not last.bias.any()
