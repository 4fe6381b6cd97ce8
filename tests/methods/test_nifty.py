from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from fairsad import load_graph
from fairsad.errors import ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts
from fairsad.methods.gcn import GCN
from fairsad.methods.nifty import NIFTY, Disturbance, NIFTYTraining, Views, WholeView, bernoulli_positions
from fairsad.training.checkpoint import FILE_NAME
from fairsad.training.selection import Validator
from tests.graphs import toy_graph

NOTHING = torch.zeros(0, dtype=torch.int64)


def training(method: NIFTY, graph: FairGraph, seed: int = 3) -> NIFTYTraining:
    torch.manual_seed(seed)
    model = method._build(GraphFacts.of(graph))
    return method._procedure(model, graph, Validator(graph, "auc"))


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def dense_propagation(graph: FairGraph, dropped: Tensor) -> Tensor:
    """The convolution's matrix without the dropped entries, by rows that receive; loops are always there."""
    links = torch.eye(graph.num_nodes, dtype=torch.float64)
    links[graph.edge_index[0], graph.edge_index[1]] = 1.0
    links[graph.edge_index[0, dropped], graph.edge_index[1, dropped]] = 0.0
    scale = links.sum(1).rsqrt()
    return scale[:, None] * links * scale[None, :]


def effective_weights(module: nn.Module) -> list[Tensor]:
    return [part.weight.detach() for part in module.modules() if is_parametrized(part, "weight")]


# --- views --------------------------------------------------------------------------------------------------------


def test_a_flipped_view_differs_in_the_sensitive_column_only_and_flipping_twice_restores_it() -> None:
    graph = toy_graph()
    flip = Disturbance(NOTHING, torch.zeros(5), flipped=1)
    flipped = flip.features(graph.x)
    others = [0, 2, 3, 4]
    assert torch.equal(flipped[:, others], graph.x[:, others])
    assert torch.equal(flipped[:, 1], 1 - graph.x[:, 1])
    assert torch.equal(flip.features(flipped), graph.x)


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_noise_is_one_number_for_all_shifted_columns_and_spares_the_sensitive_one(rate: float) -> None:
    graph = toy_graph(x=torch.cat([toy_graph().x[:, :2], torch.randn(60, 38)], 1), feature_names=_names(40))
    views = Views(NIFTY(feature_noise_rate=rate), graph)
    torch.manual_seed(0)
    for flip in (False, True):
        drawn = views.disturbance(flip)
        shifted = drawn.shift[drawn.shift != 0]
        assert drawn.shift[1] == 0.0
        assert len(shifted.unique()) == 1
        assert len(shifted) == 39 if rate == 1.0 else 8 < len(shifted) < 31
        assert drawn.flipped == (1 if flip else None)
        torch.testing.assert_close(
            drawn.features(graph.x)[:, 2:] - graph.x[:, 2:], drawn.shift[2:].expand(60, -1), atol=1e-5, rtol=0
        )


def _names(number: int) -> list[str]:
    return ["signal", "s", *(f"f{column}" for column in range(2, number))]


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.3, 0.9])
def test_each_position_comes_up_with_the_probability_asked_for(rate: float) -> None:
    torch.manual_seed(0)
    number, rounds = 2000, 200
    count = torch.zeros(number)
    for _ in range(rounds):
        positions = bernoulli_positions(number, rate)
        assert len(positions.unique()) == len(positions)
        count[positions] += 1
    spread = math.sqrt(rate * (1 - rate) / (number * rounds))
    assert count.mean() / rounds == pytest.approx(rate, abs=4 * spread)
    for part in (count[:20], count[-20:]):  # the ends are as likely as the rest
        assert part.mean() / rounds == pytest.approx(rate, abs=4 * math.sqrt(rate * (1 - rate) / (20 * rounds)))
    # independent of each other: the numbers of draws scatter as those of a binomial do
    assert count.var() == pytest.approx(rounds * rate * (1 - rate), rel=0.2, abs=1e-9)


def test_whole_links_are_dropped_or_single_directions() -> None:
    graph = toy_graph(200)
    for kind, symmetric in (("undirected", True), ("directed", False)):
        views = Views(NIFTY(edge_drop=kind, edge_drop_rate=0.3), graph)  # type: ignore[arg-type]
        torch.manual_seed(1)
        dropped = views.disturbance(False).dropped
        pairs = set(map(tuple, graph.edge_index[:, dropped].t().tolist()))
        assert len(pairs) == len(dropped) > 100
        assert (pairs == {(target, source) for source, target in pairs}) == symmetric


@pytest.mark.parametrize("kind", ["undirected", "directed"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.6])
def test_a_propagated_view_is_message_passing_on_the_disturbed_graph(kind: str, flip: bool, rate: float) -> None:
    """Judged by dense matrices in float64; gradients too, and some rows only."""
    graph = toy_graph()
    method = NIFTY(edge_drop=kind, edge_drop_rate=rate, feature_noise_rate=0.5)  # type: ignore[arg-type]
    ours = training(method, graph)
    torch.manual_seed(5)
    drawn = ours.views.disturbance(flip)
    view = ours.views.view(drawn)
    backbone = ours.model.eval().backbone
    layer = backbone.layers[0]
    matrix = dense_propagation(graph, drawn.dropped)
    weight = layer.weight.detach().double().requires_grad_()
    judged = matrix @ drawn.features(graph.x).double() @ weight.t() + layer.bias.detach()
    found = view(backbone)
    torch.testing.assert_close(found, judged.float(), atol=1e-5, rtol=1e-5)
    nodes = torch.tensor([7, 0, 59])
    torch.testing.assert_close(view.at(nodes)(backbone), found[nodes])

    # the same again as a gradient of the effective weight
    plain = training(NIFTY(spectral_norm=False), graph).model.backbone
    with torch.no_grad():
        plain.layers[0].weight.copy_(weight)
    direction = torch.randn(60, 16)
    (view(plain) * direction).sum().backward()
    (judged * direction).sum().backward()
    torch.testing.assert_close(plain.layers[0].weight.grad, weight.grad.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_a_view_as_a_graph_of_its_own_is_the_same_view(rate: float) -> None:
    graph = toy_graph()
    before = graph.fingerprint
    ours = training(NIFTY(edge_drop_rate=rate, feature_noise_rate=0.5), graph)
    drawn = ours.views.disturbance(True)
    backbone = ours.model.eval().backbone
    whole = WholeView.of(graph, drawn)
    torch.testing.assert_close(whole(backbone), ours.views.view(drawn)(backbone), atol=1e-5, rtol=1e-5)
    assert FairGraph.validate(whole.graph) is whole.graph
    nodes = torch.tensor([3, 1])
    torch.testing.assert_close(whole.at(nodes)(backbone), whole(backbone)[nodes])
    assert graph.fingerprint == before


# --- losses and steps ---------------------------------------------------------------------------------------------


def test_both_losses_and_the_criterion_by_hand() -> None:
    """On the disturbed graphs in full, with layers applied one after the other."""
    graph = toy_graph()
    method = NIFTY(sim_coeff=0.3, feature_noise_rate=0.5, edge_drop_rate=0.2, learning_rate=0.0, weight_decay=0.0)
    ours = training(method, graph)
    judged = training(method, graph)
    torch.manual_seed(9)
    parts = ours.train_epoch()
    torch.manual_seed(9)
    views = [WholeView.of(graph, judged.views.disturbance(flip)) for flip in (False, True)]
    model, projector, predictor = judged.model.train(), judged.projector.train(), judged.predictor.train()
    train = graph.mask("train")
    z = [view(model.backbone) for view in views]
    p = [projector(each) for each in z]
    h = [predictor(each) for each in p]
    similarity = 0.0
    for node in train.nonzero().flatten().tolist():
        for mine, other in ((h[0][node], p[1][node]), (h[1][node], p[0][node])):
            similarity -= (mine @ other / mine.norm() / other.norm()).item() / 2 / int(train.sum())
    assert parts["similarity"].item() == pytest.approx(similarity, abs=1e-5)
    classification = 0.0
    for view in views:
        scores = model.classify(view(model.backbone))[train]
        classification += functional.binary_cross_entropy_with_logits(scores, graph.y[train].float()).item() / 2
    assert parts["classification"].item() == pytest.approx(classification, abs=1e-5)
    assert parts["loss"].item() == pytest.approx(0.3 * similarity + 0.7 * classification, abs=1e-5)

    validation = graph.mask("val")
    for criterion, weight in (("full", 1.0), ("training", 0.7)):
        ours.method.set_params(criterion=criterion)
        generator = torch.Generator().manual_seed((1 << 40) + method.seed)
        views = [WholeView.of(graph, ours.views.disturbance(flip, generator)) for flip in (False, True)]
        measured = ours.validate()["views"]
        z = [view(ours.model.backbone)[validation] for view in views]
        p = [ours.projector(each) for each in z]
        h = [ours.predictor(each) for each in p]
        likeness = sum(functional.cosine_similarity(a, b).mean() for a, b in ((h[0], p[1]), (h[1], p[0]))) / 2
        losses = [
            functional.binary_cross_entropy_with_logits(ours.model.classify(each), graph.y[validation].float())
            for each in z
        ]
        assert measured == pytest.approx((-0.3 * likeness + weight * sum(losses) / 2).item(), abs=1e-5)


def test_likeness_lies_between_minus_one_and_one_and_is_minus_one_for_views_that_agree() -> None:
    ours = training(NIFTY(spectral_norm=False), toy_graph())
    for _ in range(5):
        assert -1.0 <= ours.train_epoch()["similarity"].item() <= 1.0
    hidden = [torch.randn(60, 16), torch.randn(60, 16)]
    ours.projector, ours.predictor = nn.Sequential(nn.Identity()), nn.Sequential(nn.Identity(), _Scale(3.0))
    assert ours._similarity([hidden[0], hidden[0]], ours.train_nodes).item() == pytest.approx(-1.0)
    assert ours._similarity([hidden[0], -hidden[0]], ours.train_nodes).item() == pytest.approx(1.0)
    # h_1 follows p_2, but p_2 does not follow h_1
    first, second = (each.clone().requires_grad_() for each in hidden)
    ours.predictor = nn.Sequential(nn.Identity(), _Scale(0.0))
    ours._similarity([first, second], ours.train_nodes).backward()
    assert first.grad is None or not first.grad.any()


class _Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def test_the_first_step_leaves_the_classifier_and_the_second_the_projection() -> None:
    ours = training(NIFTY(), toy_graph())
    head, projection = state(ours.model.head), state(ours.modules["projection"])
    reached = []
    step = ours.optimisers["views"].step

    def after_the_first_step() -> None:
        step()
        reached.append((same(state(ours.model.head), head), state(ours.modules["projection"])))

    ours.optimisers["views"].step = after_the_first_step  # type: ignore[method-assign,assignment]
    ours.train_epoch()
    ((head_is_same, after_first),) = reached
    assert head_is_same
    assert not same(after_first, projection)
    assert same(state(ours.modules["projection"]), after_first)
    assert not same(state(ours.model.head), head)


@pytest.mark.parametrize("carry", [False, True])
def test_carried_gradients_move_the_encoder_when_labels_have_no_weight(carry: bool) -> None:
    graph = toy_graph()
    ours = training(NIFTY(sim_coeff=1.0, carry_grad=carry, weight_decay=0.0, spectral_norm=False), graph)
    moved = []
    step = ours.optimisers["labels"].step

    def second_step() -> None:
        before = state(ours.model)
        step()
        moved.append(not same(before, state(ours.model)))

    ours.optimisers["labels"].step = second_step  # type: ignore[method-assign,assignment]
    ours.train_epoch()
    assert moved == [carry]


def test_every_effective_weight_has_a_largest_singular_value_of_one() -> None:
    for backbone in ("gcn", "gin", "sage", "gat"):
        ours = training(NIFTY(backbone=backbone, num_layers=2), toy_graph())  # type: ignore[arg-type]
        for _ in range(15):
            ours.train_epoch()
        weights = [weight for module in ours.modules.values() for weight in effective_weights(module)]
        assert len(weights) == (9 if backbone == "gin" else 7)  # layers, head, projector and predictor
        for weight in weights:
            assert float(torch.linalg.matrix_norm(weight, 2)) == pytest.approx(1.0, abs=2e-3)


# --- the whole method ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"num_classes": 3}])
def test_switched_off_it_is_a_plain_gcn(kind: dict[str, Any]) -> None:
    graph = toy_graph(90, **kind)
    settings: dict[str, Any] = {"epochs": 25, "learning_rate": 0.02, "seed": 4}
    assert NIFTY.off is not None
    off, gcn = NIFTY(**NIFTY.off, **settings).fit(graph), GCN(**settings).fit(graph)
    torch.testing.assert_close(off.scores(graph), gcn.scores(graph), atol=1e-5, rtol=1e-5)
    assert off.best_epoch_ == gcn.best_epoch_
    on = NIFTY(**settings).fit(graph)
    assert (on.scores(graph) - gcn.scores(graph)).abs().max() > 0.1


def test_the_same_seed_gives_the_same_bits() -> None:
    graph = toy_graph()
    first, second, other = (NIFTY(epochs=10, seed=seed).fit(graph) for seed in (1, 1, 2))
    assert torch.equal(first.scores(graph), second.scores(graph))
    assert not torch.equal(first.scores(graph), other.scores(graph))
    assert [row["val_views"] for row in first.history_] == [row["val_views"] for row in second.history_]


@pytest.mark.parametrize("changes", [{}, {"backbone": "gin", "carry_grad": False}])
def test_resumed_it_ends_in_the_bits_of_an_uninterrupted_run(changes: dict[str, Any], tmp_path: Path) -> None:
    graph = toy_graph()
    settings: dict[str, Any] = {"epochs": 20, "edge_drop_rate": 0.1, **changes}

    def interrupt(row: dict[str, float]) -> None:
        if row["epoch"] == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NIFTY(**settings).fit(graph, folder=tmp_path, checkpoint_seconds=0.0, callbacks=[interrupt])
    assert (tmp_path / FILE_NAME).exists()
    resumed = NIFTY(**settings).fit(graph, folder=tmp_path, resume=True)
    straight = NIFTY(**settings).fit(graph)
    assert [row["val_views"] for row in resumed.history_] == [row["val_views"] for row in straight.history_]
    assert torch.equal(resumed.scores(graph), straight.scores(graph))
    assert same(resumed._weights(), straight._weights())


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    graph, new = toy_graph(), toy_graph(80, seed=5)
    model = NIFTY(epochs=5).fit(graph)
    model.save(tmp_path)
    loaded = NIFTY.load(tmp_path)
    assert torch.equal(loaded.scores(new), model.scores(new))
    assert torch.equal(loaded.scores(new), loaded.scores(new))


def test_labels_outside_training_and_groups_anywhere_have_no_influence_on_training() -> None:
    graph = toy_graph()
    hidden = ~graph.mask("train")
    poisoned = toy_graph(
        x=graph.x, y=torch.where(hidden, 1 - graph.y, graph.y), sensitive=torch.full_like(graph.sensitive, -1)
    )
    first, second = (NIFTY(epochs=10, selection="last").fit(each) for each in (graph, poisoned))
    assert torch.equal(first.scores(graph), second.scores(graph))


@pytest.mark.parametrize(("backbone", "num_layers"), [("gcn", 1), ("gcn", 2), ("gin", 1), ("sage", 2), ("gat", 1)])
def test_every_backbone_learns(backbone: str, num_layers: int, tmp_path: Path) -> None:
    graph = load_graph("synthetic:nodes=400,label_homophily=0.6,seed=1")
    settings: dict[str, Any] = {"backbone": backbone, "num_layers": num_layers, "epochs": 40, "learning_rate": 0.02}
    model = NIFTY(**settings, selection="auc", evaluate_every=5).fit(graph)
    test = graph.mask("test").numpy()
    assert roc_auc_score(graph.y.numpy()[test], model.predict_proba(graph)[test, 1]) > 0.7
    model.save(tmp_path)
    assert torch.equal(NIFTY.load(tmp_path).scores(graph), model.scores(graph))


def test_flipped_views_take_the_group_out_of_decisions_and_pulling_views_together_out_of_representations() -> None:
    """Where the group is in one column and nowhere else: a GCN reads it. Every seed is compared with every other."""
    graph = load_graph("synthetic:nodes=500,bias=0.6,proxy=0,seed=1")
    flip = Disturbance(NOTHING, torch.zeros(graph.x.size(1)), graph.sensitive_columns[0][0])
    other, group, y = WholeView.of(graph, flip).graph, graph.sensitive[:, 0].numpy(), graph.y.numpy()
    settings: dict[str, Any] = {"epochs": 100, "learning_rate": 0.02, "selection": "last", "evaluate_every": 100}

    def measured(method: GCN) -> list[float]:
        """How far a flip moves representations, how many decisions it changes, the gap, the accuracy."""
        h, predicted = method.fit(graph).embed(graph), method.predict(graph)
        moved = np.linalg.norm(h - method.embed(other)) / np.linalg.norm(h - h.mean(axis=0))
        gap = abs(predicted[group == 0].mean() - predicted[group == 1].mean())
        return [moved, (predicted != method.predict(other)).mean(), gap, (predicted == y).mean()]

    plain, apart, together = (
        np.array([measured(make(seed=seed, **settings)) for seed in range(3)]).T
        for make in (GCN, partial(NIFTY, sim_coeff=0.0), partial(NIFTY, sim_coeff=0.9))
    )
    assert apart[0].max() < plain[0].min() / 1.5
    assert together[0].max() < apart[0].min() / 2
    for _, changed, gap, accuracy in (apart, together):
        assert changed.max() < plain[1].min() / 4
        assert gap.max() < 0.8 * plain[2].min()
        assert accuracy.min() > 0.7


# --- what it cannot do --------------------------------------------------------------------------------------------


def test_what_cannot_be_flipped_is_refused_in_one_line() -> None:
    graph = toy_graph()
    scaled = graph.x.clone()
    scaled[:, 1] = 2 * scaled[:, 1] - 1
    for changes, found in (
        ({"sensitive_columns": [[]]}, "0 columns of x hold 's'"),
        ({"sensitive_columns": [[1, 2]]}, "2 columns of x hold 's'"),
        ({"x": scaled}, "column 's' of x holds -1"),
    ):
        with pytest.raises(ProtocolError, match=f"NIFTY flips .* one column of x .* in graph 'toy' {found}") as told:
            NIFTY(epochs=1).fit(toy_graph(**changes))  # type: ignore[arg-type]
        assert "\n" not in str(told.value)
    with pytest.raises(ProtocolError, match="one sensitive attribute with two groups; graph 'toy' has s with 3 groups"):
        NIFTY(epochs=1).fit(toy_graph(num_groups=3))
    with pytest.raises(ProtocolError, match="one sensitive attribute with two groups"):
        NIFTY(epochs=1).fit(toy_graph(num_attributes=2))
    NIFTY(epochs=1, flip=False).fit(toy_graph(sensitive_columns=[[]]))


def test_an_unknown_value_halfway_between_the_two_stays_unknown() -> None:
    graph = toy_graph()
    partly = graph.x.clone()
    partly[:10, 1] = 0.5
    views = training(NIFTY(), toy_graph(x=partly)).views
    assert torch.equal(views.disturbance(True).features(partly)[:10, 1], torch.full((10,), 0.5))


def test_single_directions_are_dropped_in_a_one_layer_gcn_only() -> None:
    for changes in ({"backbone": "gin"}, {"num_layers": 2}):
        with pytest.raises(ProtocolError, match="in a one-layer GCN only; .* Set edge_drop = 'undirected'"):
            NIFTY(epochs=1, edge_drop="directed", **changes).fit(toy_graph())  # type: ignore[arg-type]
