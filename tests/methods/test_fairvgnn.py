from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts
from fairsad.methods.fairvgnn import FairVGNN, FairVGNNModel, FairVGNNTraining
from fairsad.methods.gcn import GCN
from fairsad.methods.registry import published_settings
from fairsad.training.selection import Validator
from tests.graphs import toy_graph

STEPS = {"discriminator_steps": 2, "classifier_steps": 2, "generator_steps": 2}
QUICK: dict[str, Any] = {"epochs": 6, "num_views": 3, **STEPS}
DRAWN: dict[str, Any] = {"evaluation_mask": "sample"}


def training(graph: FairGraph, **settings: Any) -> FairVGNNTraining:
    method = FairVGNN(**({"num_views": 3} | settings))
    torch.manual_seed(3)
    return method._procedure(method._build(GraphFacts.of(graph)), graph, Validator(graph, "auc"))


def propagation(graph: FairGraph, self_loops: float = 1.0) -> Tensor:
    dense = self_loops * torch.eye(graph.num_nodes)
    dense[graph.edge_index[0], graph.edge_index[1]] = 1.0
    scale = dense.sum(1).rsqrt()
    return scale[:, None] * dense * scale[None, :]


def masked(graph: FairGraph, mask: Tensor) -> FairGraph:
    other = copy.copy(graph)
    other.x = graph.x * mask
    return other


def toy_graph_of_alike(num_nodes: int, num_classes: int = 2, **kind: Any) -> FairGraph:
    """A toy graph whose links are between nodes of the same class, so that one layer can tell the classes."""
    nodes = torch.arange(1, num_nodes - 2 * num_classes)
    ends = [nodes + num_classes, nodes + 2 * num_classes]
    links = torch.stack([nodes.repeat(2), torch.cat(ends)])
    return toy_graph(num_nodes, num_classes=num_classes, edge_index=links, **kind)


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in module.state_dict().items()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    """The players (encoder, classifier, generator) with a weight that is not what it was."""
    return {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}


def same_weights(first: FairVGNN, second: FairVGNN) -> bool:
    one, other = first._weights(), second._weights()
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


# -- views and losses, judged by message passing on masked features -------------------------------------------------


@pytest.mark.parametrize(
    ("backbone", "num_layers"), [("gcn", 1), ("gcn", 2), ("sage", 1), ("sage", 2), ("gin", 1), ("gin", 2), ("gat", 1)]
)
def test_a_mask_after_the_first_sum_over_neighbours_is_a_mask_on_the_features(backbone: str, num_layers: int) -> None:
    graph = toy_graph()
    ours = training(graph, backbone=backbone, num_layers=num_layers)
    model, head = ours.model, nn.Linear(16, 2)
    assert model.is_linear == (backbone in ("gcn", "sage") and num_layers == 1)
    masks = torch.rand(3, 5)
    found = model.scores_of_views(ours.view, masks, head)
    assert found.shape == (60, 3, 2)
    for k, mask in enumerate(masks):
        expected = head(model.backbone(model.backbone.view(masked(graph, mask))))
        torch.testing.assert_close(found[:, k], expected, rtol=1e-4, atol=1e-5)


def test_one_layer_is_a_linear_map_of_the_propagated_masked_features() -> None:
    graph = toy_graph()
    ours = training(graph)
    layer, head, masks = ours.model.backbone.layers[0], ours.model.head, torch.rand(3, 5)
    assert isinstance(layer, nn.Linear)
    nn.init.normal_(layer.bias)
    found = ours.model.scores_of_views(ours.view, masks, head)[:, :, 0]
    for k, mask in enumerate(masks):
        h = propagation(graph) @ (graph.x * mask) @ layer.weight.T + layer.bias
        torch.testing.assert_close(found[:, k], (h @ head.weight.T + head.bias)[:, 0], rtol=1e-4, atol=1e-5)


def test_self_loops_counted_twice() -> None:
    graph = toy_graph()
    found = training(graph, self_loops="twice").view.x
    torch.testing.assert_close(found, propagation(graph, self_loops=2.0) @ graph.x, rtol=1e-5, atol=1e-6)
    assert FairVGNN(self_loops="twice", **QUICK).fit(graph).predict(graph).shape == (60,)
    with pytest.raises(DataError, match="self_loops = 'twice' is of a GCN with one layer; backbone is 'gin'"):
        FairVGNN(self_loops="twice", backbone="gin").fit(graph)


def plain_epoch(method: FairVGNN, model: FairVGNNModel, discriminator: nn.Linear, optimisers: Any, graph: Any) -> None:
    """The schedule written down plainly: every view of every step is propagated, one s, one layer, two classes."""
    layer, views = model.backbone.layers[0], model.views
    assert isinstance(layer, nn.Linear)
    assert views is not None
    spread, train, s = propagation(graph), graph.mask("train"), graph.sensitive.float()

    def represent(mask: Tensor) -> Tensor:
        h: Tensor = spread @ ((graph.x * mask) @ layer.weight.T) + layer.bias
        return h

    def step(loss: Tensor, *names: str) -> None:
        for each in (model, discriminator):
            each.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for name in names:
            optimisers[name].step()

    with torch.no_grad():
        masks = views.sample()
    for _ in range(method.discriminator_steps):
        losses = [functional.binary_cross_entropy(discriminator(represent(mask)).sigmoid(), s) for mask in masks]
        names = ("encoder", "discriminator") if method.encoder_in_discriminator_steps else ("discriminator",)
        step(sum(losses) / len(masks), *names)  # type: ignore[arg-type]
    for _ in range(method.classifier_steps):
        scores = [model.head(represent(mask))[train, 0] for mask in masks]
        losses = [functional.binary_cross_entropy(each.sigmoid(), graph.y[train].float()) for each in scores]
        step(sum(losses) / len(masks), "encoder", "classifier")  # type: ignore[arg-type]
    for _ in range(method.generator_steps):
        fresh = views.sample()
        losses = [
            ((discriminator(represent(mask)).sigmoid() - 0.5) ** 2).mean()
            + method.mask_weight * ((mask - 1) ** 2).mean()
            for mask in fresh
        ]
        step(sum(losses) / len(fresh), "encoder", "generator")  # type: ignore[arg-type]
    with torch.no_grad():
        kept = sum(masks) / len(masks)
        for column in range(5):
            bound = method.weight_clip * float(kept[column])  # type: ignore[operator,index]
            layer.weight[:, column] = layer.weight[:, column].clamp(-bound, bound)
        if method.classifier_clip is not None:
            for weight in model.head.parameters():
                weight.copy_(weight.clamp(-method.classifier_clip, method.classifier_clip))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"encoder_in_discriminator_steps": False, "classifier_clip": 0.02, "mask_weight": 0.0},
        {"weight_clip": 0.1, "mask_weight": 0.5, "learning_rate": 1e-3, "classifier_learning_rate": 1e-2},
    ],
    ids=["default", "as for credit", "as for german"],
)
def test_three_epochs_equal_the_schedule_written_down_plainly(settings: dict[str, Any]) -> None:
    graph = toy_graph()
    steps = {"discriminator_steps": 2, "classifier_steps": 2, "generator_steps": 3}
    ours, judged = (training(graph, **steps, **settings) for _ in range(2))
    method, model = judged.method, judged.model
    discriminator = judged.discriminator[0]
    slow = method.adversary_learning_rate
    optimisers = {
        "encoder": torch.optim.Adam(model.backbone.parameters(), lr=method.learning_rate),
        "classifier": torch.optim.Adam(
            model.head.parameters(), lr=method.classifier_learning_rate or method.learning_rate
        ),
        "generator": torch.optim.Adam(model.views.parameters(), lr=slow),  # type: ignore[union-attr]
        "discriminator": torch.optim.Adam(discriminator.parameters(), lr=slow),
    }
    torch.manual_seed(5)
    for _ in range(3):
        ours.train_epoch()
    torch.manual_seed(5)
    for _ in range(3):
        plain_epoch(method, model, discriminator, optimisers, graph)  # type: ignore[arg-type]
    for name, module in ours.modules.items():
        for key, weight in module.state_dict().items():
            torch.testing.assert_close(weight, judged.modules[name].state_dict()[key], rtol=1e-3, atol=2e-5, msg=key)


def test_the_discriminator_s_loss_is_over_known_values_and_averaged_over_attributes() -> None:
    graph = toy_graph(num_groups=3, num_attributes=2, unknown=0.3)
    ours = training(graph)
    masks = torch.rand(3, 5)
    expected = []
    for attribute, head in enumerate(ours.discriminator):
        values = graph.sensitive[:, attribute]
        rows = [
            functional.binary_cross_entropy(
                head(ours.model.backbone(ours.model.backbone.view(masked(graph, mask))))[v, group].sigmoid(),
                (values[v] == group).float(),
            )
            for mask in masks
            for v in range(60)
            for group in range(3)
            if values[v] >= 0
        ]
        expected.append(torch.stack(rows).mean())
    torch.testing.assert_close(ours.discriminator_loss(masks), (expected[0] + expected[1]) / 2)


def test_the_generator_s_loss_is_zero_where_nothing_is_known_and_everything_kept() -> None:
    ours = training(toy_graph(), mask_weight=0.5)
    everything = torch.ones(3, 5)
    assert ours.generator_loss(everything).detach() > 0
    for weight in ours.discriminator.parameters():
        nn.init.zeros_(weight)
    assert ours.generator_loss(everything).detach() == 0
    everything[1, 2] = 0.0
    assert ours.generator_loss(everything).item() == pytest.approx(0.5 / 15)


def test_the_classifier_s_loss_with_more_than_two_classes() -> None:
    graph = toy_graph(num_classes=3)
    ours = training(graph)
    masks, train = torch.rand(3, 5), graph.mask("train")
    losses = []
    for mask in masks:
        h = ours.model.backbone(ours.model.backbone.view(masked(graph, mask)))
        losses.append(functional.cross_entropy(ours.model.head(h)[train], graph.y[train]))
    torch.testing.assert_close(ours.classifier_loss(masks), torch.stack(losses).mean())


# -- who learns when, and the clamp -----------------------------------------------------------------------------------


@pytest.mark.parametrize("leads", [True, False])
def test_every_step_changes_its_own_players_only(leads: bool) -> None:
    ours = training(toy_graph(), encoder_in_discriminator_steps=leads, weight_clip=None, generator_steps=0)
    discriminator = weights_of(ours.discriminator)
    before = weights_of(ours.model)
    ours.method.set_params(classifier_steps=0)
    ours.train_epoch()
    assert changed(before, weights_of(ours.model)) == ({"backbone"} if leads else set())
    assert changed(discriminator, weights_of(ours.discriminator)) == {"0"}

    before, discriminator = weights_of(ours.model), weights_of(ours.discriminator)
    ours.method.set_params(classifier_steps=1, discriminator_steps=0)
    ours.train_epoch()
    assert changed(before, weights_of(ours.model)) == {"backbone", "head"}

    before = weights_of(ours.model)
    ours.method.set_params(classifier_steps=0, generator_steps=1)
    ours.train_epoch()
    assert changed(before, weights_of(ours.model)) == {"backbone", "views"}
    assert not changed(discriminator, weights_of(ours.discriminator))


@pytest.mark.parametrize("backbone", ["gcn", "gin", "sage", "gat"])
def test_the_encoder_s_first_weight_stays_within_the_mean_mask(backbone: str) -> None:
    ours = training(toy_graph(), backbone=backbone, weight_clip=0.2)
    for _ in range(3):
        torch.manual_seed(11)  # the masks of the clamp are the first that an epoch draws
        masks = ours.model.sample()
        torch.manual_seed(11)
        ours.train_epoch()
        assert masks is not None
        bound = 0.2 * masks.mean(dim=0)
        bound = torch.cat([bound, bound]) if backbone == "sage" else bound
        assert ours.model.first_weight.size(1) == len(bound)
        assert (ours.model.first_weight.abs() <= bound).all()
        assert (ours.model.first_weight.abs() == bound).any()


def test_a_wide_clamp_is_no_clamp() -> None:
    settings: list[dict[str, Any]] = [
        {"weight_clip": None},
        {"weight_clip": 1e6, "classifier_clip": 1e6},
        {"weight_clip": 0.01},
    ]
    wide, none, narrow = (FairVGNN(**QUICK, **each).fit(toy_graph()) for each in settings)
    assert same_weights(wide, none)
    assert not same_weights(wide, narrow)


def test_without_adversary_masks_and_clamp_it_is_a_gcn() -> None:
    graph = toy_graph()
    same: dict[str, Any] = {"epochs": 30, "learning_rate": 0.02, "weight_decay": 1e-3, "seed": 2, "evaluate_every": 1}
    same |= {"dropout": 0.3, "num_layers": 2, "selection": "-loss"}
    assert FairVGNN.off is not None
    ours = FairVGNN(**FairVGNN.off, **same).fit(graph)
    reference = GCN(**same).fit(graph)
    assert torch.equal(ours.scores(graph), reference.scores(graph))
    assert ours.best_epoch_ == reference.best_epoch_
    with_steps = FairVGNN(**(dict(FairVGNN.off) | {"classifier_steps": 2}), **same).fit(graph)
    assert not torch.equal(with_steps.scores(graph), reference.scores(graph))


# -- masks ------------------------------------------------------------------------------------------------------------


def test_soft_masks_are_shares_and_drawn_ones_keep_or_drop() -> None:
    views = training(toy_graph(), num_views=4000, evaluation_mask="sample").model.views
    assert views is not None
    assert views.drawn is not None
    assert views.scores.abs().max() <= (6 / (5 + 2)) ** 0.5
    with torch.no_grad():
        views.scores[0] = torch.tensor([40.0, -40.0])
    soft = views.sample()
    assert soft.min() >= 0
    assert soft.max() <= 1
    views.draw()
    assert ((views.drawn == 0) | (views.drawn == 1)).all()
    assert (views.drawn[:, 0] == 1).all()
    torch.testing.assert_close(views.drawn.mean(dim=0), views.probabilities(), atol=0.04, rtol=0)


def test_the_mean_mask_is_the_limit_of_many_draws() -> None:
    graph = toy_graph()
    mean, drawn = (training(graph, num_views=20_000, evaluation_mask=each).model.eval() for each in ("mean", "sample"))
    assert drawn.views is not None
    torch.manual_seed(0)
    drawn.views.draw()
    view = mean.backbone.view(graph)
    torch.testing.assert_close(mean(view)[1], drawn(view)[1], atol=0.02, rtol=0.0)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_scores_and_embeddings_of_drawn_masks_are_means_over_the_views(num_layers: int) -> None:
    graph = toy_graph()
    method = FairVGNN(evaluation_mask="sample", num_layers=num_layers, **QUICK).fit(graph)
    model = method.model_
    assert isinstance(model, FairVGNNModel)
    assert model.views is not None
    assert model.views.drawn is not None
    assert model.views.drawn.shape == (3, 5)
    with torch.no_grad():
        each = [model.backbone(model.backbone.view(masked(graph, mask))) for mask in model.views.drawn]
        torch.testing.assert_close(torch.from_numpy(method.embed(graph)), torch.stack(each).mean(dim=0))
        scores = torch.stack([model.classify(h) for h in each]).mean(dim=0)
    torch.testing.assert_close(method.scores(graph), scores)


def test_what_is_trained_does_not_depend_on_what_is_looked_at() -> None:
    graph = toy_graph()
    often, seldom, mean = (
        FairVGNN(selection="last", evaluate_every=every, **drawn, **QUICK).fit(graph)
        for every, drawn in ((1, DRAWN), (5, DRAWN), (1, {}))
    )
    assert same_weights(often, seldom)
    for name, weight in mean._weights().items():
        assert torch.equal(weight, often._weights()[name])


# -- what it reads, repeats and keeps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", ["all", "not held out", "train"])
def test_whose_sensitive_value_the_discriminator_reads(nodes: str) -> None:
    def fitted(sensitive: Tensor) -> FairVGNN:
        unsplit = toy_graph().mask("train") & (torch.arange(60) % 2 == 0)
        poisoned = toy_graph(sensitive=sensitive, train_mask=toy_graph().mask("train") & ~unsplit)
        return FairVGNN(discriminator_nodes=nodes, selection="last", **QUICK).fit(poisoned)  # type: ignore[arg-type]

    graph = toy_graph()
    train = graph.mask("train") & (torch.arange(60) % 2 == 1)
    held_out = graph.mask("val") | graph.mask("test")
    first = fitted(graph.sensitive)
    influence = {
        name: not same_weights(first, fitted(torch.where(part.unsqueeze(1), 1 - graph.sensitive, graph.sensitive)))
        for name, part in {"train": train, "held out": held_out, "neither": ~(train | held_out)}.items()
    }
    expected = {"all": {"train", "held out", "neither"}, "not held out": {"train", "neither"}, "train": {"train"}}[
        nodes
    ]
    assert {name for name, found in influence.items() if found} == expected


def test_labels_outside_training_are_never_read() -> None:
    graph = toy_graph()
    poisoned = toy_graph(y=torch.where(graph.mask("train"), graph.y, 1 - graph.y))
    first, second = (FairVGNN(selection="last", **QUICK).fit(each) for each in (graph, poisoned))
    assert same_weights(first, second)


def test_no_seed_knows_of_the_one_before() -> None:
    graph = toy_graph()
    alone = FairVGNN(seed=1, **QUICK).fit(graph)
    after = FairVGNN(seed=0, **QUICK).fit(graph)
    assert not same_weights(alone, after)
    assert same_weights(alone, after.set_params(seed=1).fit(graph))


@pytest.mark.parametrize("mask", ["mean", "sample"])
def test_it_goes_on_from_a_checkpoint_and_from_a_file_in_the_same_bits(mask: str, tmp_path: Path) -> None:
    graph = toy_graph()
    settings: dict[str, Any] = {"evaluation_mask": mask, "selection": "auc-dp", **QUICK}

    def stop(row: dict[str, float]) -> None:
        if row["epoch"] == 3:
            raise KeyboardInterrupt

    whole = FairVGNN(**settings).fit(graph)
    with pytest.raises(KeyboardInterrupt):
        FairVGNN(**settings).fit(graph, folder=tmp_path, checkpoint_seconds=0.0, callbacks=[stop])
    resumed = FairVGNN(**settings).fit(graph, folder=tmp_path, resume=True)
    assert same_weights(whole, resumed)
    loaded = FairVGNN.load(whole.save(tmp_path / "model"))
    assert torch.equal(loaded.scores(graph), whole.scores(graph))


@pytest.mark.parametrize(
    "kind",
    [
        {"num_groups": 5},
        {"num_attributes": 3},
        {"num_classes": 4},
        {"unknown": 0.3},
        {"num_groups": 3, "num_attributes": 2, "num_classes": 3, "unknown": 0.2},
    ],
    ids=str,
)
def test_any_number_of_groups_attributes_and_classes_and_unknown_values(kind: dict[str, Any]) -> None:
    graph = toy_graph_of_alike(150, **kind)
    model = FairVGNN(epochs=15, num_views=3, learning_rate=0.02, selection="acc").fit(graph)
    test = graph.mask("test").numpy()
    accuracy = (model.predict(graph)[test] == graph.y.numpy()[test]).mean()
    assert accuracy > 1.4 / graph.num_classes
    assert model.predict_proba(graph).shape == (150, graph.num_classes)


@pytest.mark.parametrize("backbone", ["gin", "sage", "gat"])
def test_other_backbones(backbone: Any) -> None:
    graph = toy_graph_of_alike(100)
    model = FairVGNN(backbone=backbone, num_layers=2, num_views=2, epochs=10, learning_rate=0.02, selection="acc")
    test = graph.mask("test").numpy()
    assert (model.fit(graph).predict(graph)[test] == graph.y.numpy()[test]).mean() > 0.7


def test_a_discriminator_with_nothing_to_read_is_refused() -> None:
    graph = toy_graph()
    nobody = toy_graph(sensitive=torch.where(graph.mask("train").unsqueeze(1), -1, graph.sensitive))
    with pytest.raises(
        ProtocolError, match=r"no node of graph 'toy' whose s it may read \(discriminator_nodes = 'train'"
    ):
        FairVGNN(discriminator_nodes="train").fit(nobody)


def test_the_authors_settings() -> None:
    table = {graph: FairVGNN(**published_settings("fairvgnn", graph)) for graph in ("german", "bail", "credit")}
    columns = ("epochs", "weight_clip", "discriminator_steps", "generator_steps", "classifier_steps", "mask_weight")
    assert [[getattr(method, column) for column in columns] for method in table.values()] == [
        [400, 0.1, 5, 5, 5, 0.5],
        [300, 1.0, 5, 10, 10, 1.0],
        [200, 1.0, 5, 10, 5, 0.0],
    ]
    assert [method.encoder_in_discriminator_steps for method in table.values()] == [True, True, False]
    assert [method.classifier_clip for method in table.values()] == [None, None, 1.0]
    assert [method.learning_rate for method in table.values()] == [1e-3, 1e-3, 1e-2]
