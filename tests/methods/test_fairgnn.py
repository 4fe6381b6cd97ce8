from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairsad import load_graph
from fairsad.errors import ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts
from fairsad.methods.fairgnn import FairGNN, FairGNNTraining, KnownSensitive, prediction_covariance, thresholded
from fairsad.methods.gcn import GCN
from fairsad.methods.registry import published_settings
from fairsad.training.checkpoint import FILE_NAME
from fairsad.training.selection import Validator
from tests import judges
from tests.graphs import toy_graph

QUICK: dict[str, Any] = {"epochs": 30, "learning_rate": 0.02, "estimator_epochs": 30, "num_sensitive": 12}


def training(method: FairGNN, graph: FairGraph) -> FairGNNTraining:
    torch.manual_seed(3)
    model = method._build(GraphFacts.of(graph))
    return FairGNNTraining(method, model, graph, Validator(graph, "auc"))


def few_training_nodes(num_nodes: int) -> dict[str, Any]:
    """A split that leaves a third of the nodes without a part: the first sixth trains, the second half is held out."""
    node = torch.arange(num_nodes)
    held_out, half = node >= num_nodes // 2, node // 2 % 2 == 0
    return {"train_mask": node < num_nodes // 6, "val_mask": held_out & half, "test_mask": held_out & ~half}


def same_weights(first: FairGNN | GCN, second: FairGNN | GCN) -> bool:
    one, other = first._weights(), second._weights()
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def dense_propagated(graph: FairGraph) -> Tensor:
    pattern = torch.eye(graph.num_nodes)
    pattern[graph.edge_index[0], graph.edge_index[1]] = 1.0
    scale = pattern.sum(1).rsqrt()
    features: Tensor = graph.x
    return scale[:, None] * pattern * scale[None, :] @ features


@pytest.mark.parametrize("joint", [False, True])
def test_the_two_steps_of_an_epoch_are_the_formulas_written_out(joint: bool) -> None:
    """Five epochs, against message passing on the dense graph, losses from their definitions, and plain Adam."""
    graph = toy_graph()
    method = FairGNN(**(QUICK | {"alpha": 3.0, "beta": 0.7, "joint_estimator": joint}))
    ours = training(method, graph)

    def weights(module: torch.nn.Module) -> list[Tensor]:
        return [weight.detach().clone().requires_grad_() for weight in module.parameters()]

    model, adversary, estimator = (weights(each) for each in (ours.model, ours.adversary, ours.estimator))
    settings: dict[str, Any] = {"lr": 0.02, "weight_decay": 1e-5, "fused": False, "foreach": False}
    generator_step = torch.optim.Adam([*model, *(estimator if joint else [])], **settings)
    adversary_step = torch.optim.Adam(adversary, **settings)
    propagated, train = dense_propagated(graph), graph.mask("train")
    drawn, truth = ours.known.nodes, graph.sensitive[:, 0].float()

    def two_layers(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        h = propagated @ parts[0].t() + parts[1]
        return h, (h @ parts[2].t() + parts[3]).squeeze(1)

    for _ in range(5):
        ours.train_epoch()
        e = two_layers(estimator)[1]
        s = e.detach().sigmoid()
        s[drawn] = truth[drawn]
        h, z = two_layers(model)
        y = z.sigmoid()
        r = (h @ adversary[0].t() + adversary[1]).squeeze(1)
        loss = functional.binary_cross_entropy(y[train], graph.y[train].float())
        loss = loss + 3.0 * ((s - s.mean()) * (y - y.mean())).mean().abs()
        loss = loss - 0.7 * functional.binary_cross_entropy_with_logits(r, s)
        if joint:
            loss = loss + functional.binary_cross_entropy_with_logits(e[drawn], truth[drawn])
        generator_step.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        generator_step.step()
        adversary_step.zero_grad()
        r = (h.detach() @ adversary[0].t() + adversary[1]).squeeze(1)  # h is from before the step
        functional.binary_cross_entropy_with_logits(r, s).backward()  # type: ignore[no-untyped-call]
        adversary_step.step()

    for mine, judged in zip((ours.model, ours.adversary, ours.estimator), (model, adversary, estimator), strict=True):
        for weight, expected in zip(mine.parameters(), judged, strict=True):
            torch.testing.assert_close(weight.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_each_step_changes_the_weights_of_its_own_module_only() -> None:
    ours = training(FairGNN(**QUICK, estimator_dropout=0.5, estimator_mode="training"), toy_graph())
    modules = {"model": ours.model, "adversary": ours.adversary, "estimator": ours.estimator}
    states = []

    def remember(*_: Any) -> None:
        states.append({name: torch.cat([w.detach().flatten() for w in m.parameters()]) for name, m in modules.items()})

    for optimiser in ours.optimisers.values():
        optimiser.register_step_pre_hook(remember)
        optimiser.register_step_post_hook(remember)
    ours.train_epoch()
    start, after_model, before_adversary, end = states
    assert all(torch.equal(after_model[name], before_adversary[name]) for name in modules)
    assert {name for name in modules if not torch.equal(start[name], after_model[name])} == {"model"}
    assert {name for name in modules if not torch.equal(after_model[name], end[name])} == {"adversary"}


def test_the_adversary_learns_from_a_representation_that_stands_still() -> None:
    ours = training(FairGNN(**QUICK), toy_graph(200))
    ours.optimisers["model"].param_groups[0]["lr"] = 0.0
    before = ours.model.head.weight.detach().clone()
    losses = torch.stack([ours.train_epoch()["adversary"].detach() for _ in range(60)]).view(6, 10).mean(dim=1)
    assert bool((losses.diff() < 1e-5).all()), "lower and lower, until there is no more to learn"
    assert losses[-1] < losses[0] - 1e-3
    assert torch.equal(ours.model.head.weight, before)


@pytest.mark.parametrize("num_sensitive", [5, 12, None, 1000])
def test_s_is_drawn_from_nodes_that_are_not_held_out(num_sensitive: int | None) -> None:
    graph = toy_graph(90, unknown=0.3, **few_training_nodes(90))
    pool = [
        node
        for node in range(90)
        if graph.sensitive[node, 0] >= 0 and not graph.mask("val")[node] and not graph.mask("test")[node]
    ]
    known = KnownSensitive.draw(graph, num_sensitive, 20)
    drawn = known.nodes.tolist()
    assert set(drawn) <= set(pool)
    assert len(drawn) == len(set(drawn)) == min(len(pool), num_sensitive or len(pool))
    assert drawn == KnownSensitive.draw(graph, num_sensitive, 20).nodes.tolist()
    if num_sensitive == 12:
        assert drawn != KnownSensitive.draw(graph, num_sensitive, 21).nodes.tolist()
        assert any(not graph.mask("train")[node] for node in drawn), "unlabelled nodes may be known, too"


def test_estimates_stand_in_for_what_is_not_known_and_carry_no_gradient() -> None:
    ours = training(FairGNN(**QUICK, joint_estimator=True), toy_graph())
    ours.train_epoch()
    drawn = ours.known.nodes
    others = torch.ones(60, dtype=torch.bool).scatter(0, drawn, False)
    assert torch.equal(ours.sensitive[drawn, 0], toy_graph().sensitive[drawn, 0].float())
    assert bool(((ours.sensitive[others] > 0) & (ours.sensitive[others] < 1)).all())
    assert not ours.sensitive.requires_grad


def test_the_estimator_learns_s_where_it_can_be_learned() -> None:
    graph = toy_graph(300, edge_index=np.zeros((2, 0), dtype=np.int64))  # s is a feature of the node itself
    model = FairGNN(epochs=1, num_sensitive=40, estimator_epochs=300, estimator_learning_rate=0.02).fit(graph)
    assert model.protocol_["estimator"]["known_nodes"] == 40
    assert model.protocol_["estimator"]["validation"]["accuracy"] > 0.95


@pytest.mark.parametrize("kind", [{}, {"num_groups": 3, "num_attributes": 2, "unknown": 0.2}], ids=str)
def test_the_loss_of_the_estimator_is_the_mean_over_what_is_known(kind: dict[str, Any]) -> None:
    graph = toy_graph(**kind)
    known = KnownSensitive.draw(graph, 15, 20)
    scores = torch.randn(len(known.nodes), known.num_indicators, generator=torch.Generator().manual_seed(1))
    expected, column = 0.0, 0
    for attribute, names in enumerate(graph.sensitive_values):
        for group in [1] if len(names) == 2 else range(len(names)):
            terms = [
                float(functional.softplus(score if graph.sensitive[node, attribute] != group else -score))
                for node, score in zip(known.nodes.tolist(), scores[:, column], strict=True)
                if graph.sensitive[node, attribute] >= 0
            ]
            expected += (1.0 if len(names) == 2 else 0.5) * sum(terms) / len(terms)
            column += 1
    assert column == known.num_indicators
    assert float(known.estimator_loss(scores)) == pytest.approx(expected, rel=1e-5)


def test_covariance_is_its_definition_number_by_number() -> None:
    chance = torch.Generator().manual_seed(0)
    for groups, classes in itertools.product((1, 3), (1, 4)):
        sensitive = torch.rand(40, groups, generator=chance)
        scores = torch.randn(40, classes, generator=chance)
        probabilities = scores.sigmoid() if classes == 1 else scores.softmax(dim=1)
        weight = 1.0 if groups == 1 else 0.5
        expected = sum(
            weight * abs(judges.covariance(s.tolist(), p.tolist()))
            for s, p in itertools.product(sensitive.unbind(1), probabilities.unbind(1))
        ) / (1 if classes == 1 else 2)
        measured = prediction_covariance(
            scores.squeeze(1) if classes == 1 else scores, sensitive, torch.full((groups,), weight)
        )
        assert float(measured) == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_covariance_has_the_bounds_and_symmetries_it_should() -> None:
    chance = torch.Generator().manual_seed(0)
    scores, sensitive, one = torch.randn(50, generator=chance), torch.rand(50, 1, generator=chance), torch.ones(1)
    value = prediction_covariance(scores, sensitive, one)
    assert 0 < float(value) <= 0.25
    torch.testing.assert_close(prediction_covariance(scores, sensitive + 0.3, one), value, atol=1e-6, rtol=1e-4)
    assert float(prediction_covariance(torch.zeros(50), sensitive, one)) < 1e-7
    assert float(prediction_covariance(scores, torch.full((50, 1), 0.4), one)) < 1e-7
    opposite = (torch.arange(50) % 2).unsqueeze(1).float()
    assert float(prediction_covariance(1e3 * (opposite[:, 0] - 0.5), opposite, one)) == pytest.approx(0.25)
    # two groups written as two indicators, and two classes written as two scores, are the same number
    both = torch.cat([sensitive, 1 - sensitive], dim=1)
    torch.testing.assert_close(prediction_covariance(scores, both, torch.full((2,), 0.5)), value)
    two_scores = torch.stack([torch.zeros(50), scores], dim=1)
    torch.testing.assert_close(prediction_covariance(two_scores, sensitive, one), value)


@pytest.mark.parametrize(
    "settings",
    [{}, {"dropout": 0.5}, {"num_layers": 2, "dropout": 0.2}, {"backbone": "sage"}, {"selection": "thresholded"}],
    ids=str,
)
def test_switched_off_it_is_a_gcn_to_the_last_bit(settings: dict[str, Any]) -> None:
    graph = toy_graph()
    same: dict[str, Any] = {"epochs": 25, "learning_rate": 0.02, "evaluate_every": 5, "selection": "auc"} | settings
    assert FairGNN.off is not None
    ours = FairGNN(**{**same, **FairGNN.off}).fit(graph)
    reference = GCN(**(same | ({"selection": "last"} if same["selection"] == "thresholded" else {}))).fit(graph)
    for mine, theirs in zip(ours.history_, reference.history_, strict=True):
        assert mine["classification"] == theirs["classification"]
    if same["selection"] != "thresholded":
        assert same_weights(ours, reference)


def test_with_weights_near_nothing_it_is_a_gcn_up_to_rounding() -> None:
    """The path with estimator and adversary, which leave the classifier alone when they do not count."""
    graph = toy_graph()
    ours = FairGNN(**(QUICK | {"alpha": 0.0, "beta": 1e-9, "selection": "last"})).fit(graph)
    reference = GCN(epochs=30, learning_rate=0.02, selection="last").fit(graph)
    torch.testing.assert_close(ours.scores(graph), reference.scores(graph), rtol=1e-4, atol=1e-4)


def test_the_gap_becomes_smaller() -> None:
    graph = load_graph("synthetic:nodes=2000,seed=1")
    settings: dict[str, Any] = {"epochs": 150, "learning_rate": 0.02, "selection": "last"}

    def gap(model: FairGNN | GCN) -> float:
        (attribute,) = model.evaluate(graph, intervals=False).attributes.values()
        return float(attribute.gaps["demographic_parity_gap"].value.value)

    without = gap(GCN(**settings).fit(graph))
    assert without > 0.2
    assert gap(FairGNN(**settings).fit(graph)) < without / 3


def test_sensitive_values_that_are_not_drawn_only_select() -> None:
    masks = few_training_nodes(120)
    graph = toy_graph(120, **masks)
    drawn = KnownSensitive.draw(graph, QUICK["num_sensitive"], 20).nodes
    hidden = torch.ones(120, 1, dtype=torch.bool).index_fill(0, drawn, False)
    validation = graph.mask("val").unsqueeze(1)
    # values that are not drawn may be wrong; that they are known is what S is drawn by
    wrong = torch.where(hidden & ~validation, 1 - graph.sensitive, graph.sensitive)
    all_wrong = torch.where(hidden, 1 - graph.sensitive, graph.sensitive)
    poisoned, all_poisoned = (toy_graph(120, sensitive=each, **masks) for each in (wrong, all_wrong))
    assert same_weights(FairGNN(**QUICK).fit(graph), FairGNN(**QUICK).fit(poisoned))
    nothing_selected = QUICK | {"selection": "last", "estimator_selection": "last"}
    assert same_weights(FairGNN(**nothing_selected).fit(graph), FairGNN(**nothing_selected).fit(all_poisoned))


def test_labels_outside_training_and_validation_are_never_read() -> None:
    graph = toy_graph()
    hidden = graph.mask("test")
    poisoned = toy_graph(y=torch.where(hidden, 1 - graph.y, graph.y))
    settings = QUICK | {"selection": "thresholded"}
    assert same_weights(FairGNN(**settings).fit(graph), FairGNN(**settings).fit(poisoned))


NOISY = {"estimator_dropout": 0.5, "estimator_mode": "training"}


@pytest.mark.parametrize(
    "settings", [{"dropout": 0.3}, {"joint_estimator": True}, NOISY, {"selection": "thresholded"}], ids=str
)
def test_the_same_seed_gives_the_same_bits_also_after_an_interruption(settings: dict[str, Any], tmp_path: Path) -> None:
    graph = toy_graph()
    method = FairGNN(**(QUICK | settings))
    whole = FairGNN(**method.get_params()).fit(graph)
    assert not same_weights(whole, FairGNN(**(QUICK | settings | {"seed": 1})).fit(graph))

    def interrupt(row: dict[str, float]) -> None:
        if row["epoch"] == 17:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        method.fit(graph, folder=tmp_path, checkpoint_seconds=0.0, callbacks=[interrupt])
    assert (tmp_path / FILE_NAME).exists()
    resumed = method.fit(graph, folder=tmp_path, resume=True)
    assert same_weights(whole, resumed)
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    assert resumed.protocol_["estimator"] == whole.protocol_["estimator"]


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    graph, new = toy_graph(), toy_graph(80, seed=5, sensitive=torch.full((80, 1), -1))
    model = FairGNN(**QUICK).fit(graph)
    loaded = FairGNN.load(model.save(tmp_path / "model"))
    assert torch.equal(loaded.scores(new), model.scores(new))
    assert loaded.get_params() == model.get_params()
    assert loaded.protocol_ == model.protocol_


@pytest.mark.parametrize(
    "kind",
    [
        {"num_groups": 3},
        {"num_attributes": 2},
        {"num_classes": 3},
        {"unknown": 0.4},
        {"num_groups": 4, "num_attributes": 3, "num_classes": 4, "unknown": 0.3},
    ],
    ids=str,
)
def test_any_number_of_groups_attributes_and_classes_and_unknown_values(kind: dict[str, Any]) -> None:
    graph = toy_graph(150, **kind)
    ours = training(FairGNN(alpha=20.0, learning_rate=0.02, estimator_epochs=50, num_sensitive=40), graph)
    parts = [ours.train_epoch() for _ in range(60)]
    assert ours.sensitive.shape == (150, sum(len(names) if len(names) > 2 else 1 for names in graph.sensitive_values))
    assert parts[-1]["classification"] < parts[0]["classification"]
    assert max(part["covariance"] for part in parts[-10:]) < 0.2 * max(part["covariance"] for part in parts)
    assert FairGNN(**QUICK).fit(graph).predict_proba(graph).shape == (150, graph.num_classes)


@pytest.mark.parametrize("backbone", ["gin", "sage", "gat"])
def test_other_backbones_and_more_layers(backbone: str) -> None:
    graph = toy_graph(120)
    settings = QUICK | {"backbone": backbone, "num_layers": 2, "selection": "last", "alpha": 1.0}
    model = FairGNN(**settings).fit(graph)
    losses = [row["classification"] for row in model.history_]
    assert losses[-1] < 0.8 * losses[0]
    assert model.embed(graph).shape == (120, 16)


def test_epochs_above_the_thresholds_come_first_and_then_the_largest_auc() -> None:
    thresholds = {"acc": 0.7, "auc": 0.75}
    fair = {"acc": 0.71, "auc": 0.76, "dp": 0.1, "eo": 0.2}
    unfair = {"acc": 0.9, "auc": 0.9, "dp": 1.0, "eo": 1.0}
    inaccurate = {"acc": 0.7, "auc": 1.0, "dp": 0.0, "eo": 0.0}
    poor = {"acc": 0.95, "auc": 0.6, "dp": 0.0, "eo": 0.0}
    ranked = sorted([unfair, poor, fair, inaccurate], key=lambda epoch: thresholded(epoch, thresholds), reverse=True)
    assert ranked == [fair, unfair, inaccurate, poor]


@pytest.mark.parametrize("margin", [0.3, 0.0])
def test_the_thresholds_are_those_of_a_gcn_with_the_same_settings(margin: float) -> None:
    graph = toy_graph(120, seed=3)
    settings = QUICK | {"alpha": 30.0, "evaluate_every": 1, "selection": "thresholded", "threshold_margin": margin}
    model = FairGNN(**settings).fit(graph)
    reference = GCN(epochs=30, learning_rate=0.02).fit(graph).protocol_["validation"]
    accuracy, auc = (reference[name] - margin for name in ("acc", "auc"))
    above = [row for row in model.history_ if row["val_acc"] > accuracy and row["val_auc"] > auc]
    if above:
        best = min(above, key=lambda row: row["val_dp"] + row["val_eo"])
    else:
        best = max(model.history_, key=lambda row: row["val_auc"])
    assert bool(above) == (margin > 0)
    assert model.best_epoch_ == best["epoch"]
    assert model.protocol_["thresholds"] == {"acc": accuracy, "auc": auc}


def test_what_cannot_be_learned_is_said_clearly() -> None:
    nobody = toy_graph(sensitive=torch.where(toy_graph().mask("train").unsqueeze(1), -1, toy_graph().sensitive))
    with pytest.raises(ProtocolError, match="FairGNN learns 's' from nodes whose value is known.* it drew 0 nodes"):
        FairGNN(**QUICK).fit(nobody)
    unseen = toy_graph(sensitive=torch.where(toy_graph().mask("val").unsqueeze(1), -1, toy_graph().sensitive))
    settings = QUICK | {"selection": "auc"}
    with pytest.raises(ProtocolError, match="graph 'toy' has none. Set estimator_selection='last'"):
        FairGNN(**settings).fit(unseen)
    assert FairGNN(**settings, estimator_selection="last").fit(unseen).best_epoch_ >= 0


def test_the_published_settings() -> None:
    table = {name: published_settings("fairgnn", name) for name in ("german", "bail", "credit", "pokec-z", "pokec-n")}
    assert all((settings["alpha"], settings["beta"]) == (4.0, 0.01) for settings in table.values())
    assert [settings["num_sensitive"] for settings in table.values()] == [100, 100, 6000, 200, 200]
    assert all(settings["learning_rate"] in (1e-4, 1e-3, 1e-2) for settings in table.values())
    assert all(settings["dropout"] in (0.0, 0.5, 0.8) for settings in table.values())
