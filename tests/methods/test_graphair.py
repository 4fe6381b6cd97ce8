from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairsad.data.sampling import RandomWalks, WholeGraph
from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods import graphair
from fairsad.methods.base import GraphFacts
from fairsad.methods.gcn import GCN
from fairsad.methods.graphair import Encoder, Graphair, GraphairTraining, ViewTraining
from fairsad.methods.registry import all_published_settings
from fairsad.nn.backbone import NodeClassifier
from fairsad.training.selection import Validator
from tests.graphs import toy_graph

QUICK: dict[str, Any] = {"epochs": 6, "view_epochs": 6, "warm_up_steps": 2, "view_learning_rate": 1e-2}
# Subgraphs of at most 24 of the 60 nodes.
WALKS: dict[str, Any] = {"batch_nodes": 8, "walk_length": 2, "coverage": 20}


def training(graph: FairGraph, **settings: Any) -> GraphairTraining:
    method = Graphair(**settings)
    torch.manual_seed(3)
    return method._procedure(method._build(GraphFacts.of(graph)), graph, Validator(graph, "auc"))


def first_stage(graph: FairGraph, **settings: Any) -> ViewTraining:
    views = training(graph, **({"view_learning_rate": 1e-2} | settings)).views
    assert views is not None
    return views


def dense_propagation(links: Tensor) -> Tensor:
    scale = torch.diag(links.sum(dim=1) ** -0.5)
    return scale @ links @ scale


def pattern_of(graph: FairGraph) -> Tensor:
    """A + I."""
    pattern = torch.eye(graph.num_nodes)
    pattern[graph.edge_index[0], graph.edge_index[1]] = 1
    return pattern


def scaled(x: Tensor) -> Tensor:
    low, high = x.min(dim=0).values, x.max(dim=0).values
    return 2 * (x - low) / (high - low) - 1


def state(*modules: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for module in modules for value in module.state_dict().values()]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def same_weights(first: Graphair, second: Graphair) -> bool:
    one, other = first._weights(), second._weights()
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def players(views: ViewTraining) -> dict[str, nn.Module]:
    return {
        "augmenter": views.augmenter,
        "adversary": views.adversary,
        "encoder": views.encoder,
        "projector": views.projector,
    }


def moved(before: dict[str, list[Tensor]], views: ViewTraining) -> set[str]:
    return {name for name, module in players(views).items() if not same(before[name], state(module))}


def states(views: ViewTraining) -> dict[str, list[Tensor]]:
    return {name: state(module) for name, module in players(views).items()}


def reached(*modules: nn.Module) -> bool:
    """Whether any gradient arrived."""
    return any(weight.grad is not None and bool(weight.grad.any()) for part in modules for weight in part.parameters())


def stop_in(epoch: int) -> Any:
    def stop(row: dict[str, float]) -> None:
        if row["epoch"] == epoch:
            raise KeyboardInterrupt

    return stop


# --- the first stage, judged by dense matrices --------------------------------------------------------------------


def straight_through(logit: Tensor) -> Tensor:
    """Zeros and ones with the gradient of the relaxed sample."""
    soft = logit.sigmoid()
    return (soft > 0.5).float() + soft - soft.detach()


def logistic(*shape: int) -> Tensor:
    return torch.empty(shape).uniform_(2.0**-23, 1).logit()


class Plain:
    """The schedule written down plainly: whole matrices of pairs, one sensitive attribute of two groups."""

    def __init__(self, graph: FairGraph, views: ViewTraining) -> None:
        self.graph, self.views, self.method = graph, views, views.method
        self.x = graph.x if self.method.features == "raw" else scaled(graph.x)
        pairs, links = graph.num_nodes**2, float(pattern_of(graph).sum())
        self.link_weight = pairs / (2 * (pairs - links))
        trained = [views.augmenter, views.encoder, *([views.projector] if self.method.train_projector else [])]
        self.players = self.adam(*trained)
        self.adversary = self.adam(views.adversary)

    def adam(self, *modules: nn.Module) -> torch.optim.Adam:
        weights = [weight for module in modules for weight in module.parameters()]
        return torch.optim.Adam(weights, lr=self.method.view_learning_rate, weight_decay=self.method.weight_decay)

    def draw(self) -> None:
        """The nodes of the next step, and the matrices of links among them."""
        part = self.views.sampler.draw()
        self.nodes, self.shares = part.nodes, part.shares
        self.pattern = pattern_of(self.graph)[part.nodes][:, part.nodes]
        self.propagation = torch.zeros_like(self.pattern)
        self.propagation[part.rows, part.columns] = part.values

    def convolve(self, module: Any, x: Tensor, matrix: Tensor, dropout: float) -> Tensor:
        first, second = module.convolutions.layers
        h = functional.dropout(first(matrix @ x).relu(), dropout)
        return second(matrix @ h).relu()  # type: ignore[no-any-return]

    def represent(self, x: Tensor, matrix: Tensor) -> Tensor:
        h = x
        for index, layer in enumerate(self.views.encoder.layers):
            h = layer(matrix @ (functional.dropout(h.relu(), self.method.dropout) if index else h))
        return h.relu() if self.method.relu_out else h

    def score(self) -> tuple[Tensor, Tensor]:
        """What the augmenter says of links and features."""
        augmenter = self.views.augmenter
        h = self.convolve(augmenter, self.x[self.nodes], self.propagation, 0.1)
        return augmenter.link_head(h), augmenter.feature_head(h)

    def links(self, z: Tensor) -> Tensor:
        number = len(self.nodes)
        upper = (((z @ z.t()).sigmoid() + self.pattern) / 2).clamp(1e-7, 1 - 1e-7)
        upper = straight_through(upper.logit() + logistic(number, number)).triu(1)
        return upper + upper.t() + torch.eye(number)

    def features(self, scores: Tensor) -> Tensor:
        return self.x[self.nodes] * straight_through(scores + logistic(*scores.shape))

    def reconstruction(self, z: Tensor, x: Tensor) -> Tensor:
        links = functional.binary_cross_entropy_with_logits(z @ z.t(), self.pattern)
        return self.link_weight * links + self.method.feature_weight * ((x - self.x[self.nodes]) ** 2).mean()

    def adversarial(self, x: Tensor, matrix: Tensor) -> Tensor:
        scores = self.views.adversary.head(self.convolve(self.views.adversary, x, matrix, 0.2))[:, 0]
        s = self.graph.sensitive[self.nodes, 0].float()
        return (self.shares * functional.binary_cross_entropy(scores.sigmoid(), s, reduction="none")).sum()

    def contrast(self, x: Tensor, matrix: Tensor) -> Tensor:
        number = len(self.nodes)
        both = [self.represent(self.x[self.nodes], self.propagation), self.represent(x, matrix)]
        rows = functional.normalize(torch.cat([self.views.projector(h) for h in both]), dim=1)
        logits = (rows @ rows.t() / self.method.temperature).fill_diagonal_(-math.inf)
        counterpart = torch.cat([torch.arange(number, 2 * number), torch.arange(number)])
        each = functional.cross_entropy(logits, counterpart, reduction="none")
        return (self.shares.repeat(2) * each).sum() / 2

    def warm_up(self) -> None:
        alone = self.adam(self.views.augmenter)
        for _ in range(self.method.warm_up_steps):
            self.draw()
            z, scores = self.score()  # no links are drawn, since L_rec reads the scores of the pairs
            alone.zero_grad()
            self.reconstruction(z, self.features(scores)).backward()  # type: ignore[no-untyped-call]
            alone.step()

    def step(self, adversary_steps: int) -> dict[str, Tensor]:
        self.draw()
        z, scores = self.score()
        matrix, x = dense_propagation(self.links(z)), self.features(scores)
        for _ in range(adversary_steps):
            self.adversary.zero_grad()
            self.adversarial(x.detach(), matrix.detach()).backward()  # type: ignore[no-untyped-call]
            self.adversary.step()
        method = self.method
        parts = {
            "contrast": self.contrast(x, matrix),
            "reconstruction": self.reconstruction(z, x),
            "adversary": self.adversarial(x, matrix),
        }
        loss = (
            method.beta * parts["contrast"] + method.gamma * parts["reconstruction"] - method.alpha * parts["adversary"]
        )
        self.players.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.players.step()
        return {"loss": loss, **parts}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"alpha": 10.0, "beta": 0.5, "gamma": 0.1, "feature_weight": 10.0, "weight_decay": 0.01},
        {"features": "raw", "relu_out": True, "train_projector": False, "temperature": 0.5},
        {"num_layers": 2, "dropout": 0.3, "adversary_first_steps": 3, "hidden_dim": 8},
        WALKS,
        WALKS | {"steps_per_epoch": 2, "num_layers": 2, "relu_out": True},
    ],
    ids=["default", "weights", "as DIG does", "two layers", "subgraphs", "subgraphs, two layers"],
)
def test_three_epochs_equal_the_schedule_written_down_plainly(settings: dict[str, Any]) -> None:
    """One block of pairs, so that the noise is drawn in the same order."""
    graph = toy_graph()
    settings = {"warm_up_steps": 2, "view_learning_rate": 1e-3, "dropout": 0.0} | settings
    ours, judged = (first_stage(graph, **settings) for _ in range(2))
    plain = Plain(graph, judged)
    torch.manual_seed(5)
    found = [ours.train_epoch() for _ in range(3)]
    torch.manual_seed(5)
    plain.warm_up()
    for epoch, parts in enumerate(found):
        for step in range(ours.steps):
            first = epoch == 0 and step == 0
            expected = plain.step(ours.method.adversary_first_steps if first else 1)
        assert set(parts) == {"loss", "contrast", "reconstruction", "adversary"}
        for name, value in parts.items():
            torch.testing.assert_close(value, expected[name], rtol=2e-3, atol=1e-4, msg=named(name))
    for name, module in players(ours).items():
        for mine, its in zip(state(module), state(players(judged)[name]), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-2, atol=3e-4, msg=named(name))


def named(name: str) -> Callable[[str], str]:
    return lambda message: f"{name}: {message}"


def test_every_step_changes_its_own_players_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for parity in (False, True):
        views = first_stage(toy_graph(), train_projector=not parity, warm_up_steps=3)
        before = states(views)
        views.warm_up()
        assert moved(before, views) == {"augmenter"}

        before, after = states(views), []
        adversary = views.optimisers["adversary"]
        step = adversary.step

        def after_the_adversary(
            step: Any = step, views: ViewTraining = views, before: Any = before, after: list[Any] = after
        ) -> None:
            step()
            after.append((moved(before, views), states(views)))

        monkeypatch.setattr(adversary, "step", after_the_adversary)
        views.step(2)
        assert [found for found, _ in after] == [{"adversary"}] * 2
        assert moved(after[1][1], views) == {"augmenter", "encoder"} | (set() if parity else {"projector"})


def test_which_loss_reaches_whom() -> None:
    # learning by hand: without steps of Adam, gradients stay where they arrived
    for weights, reaches in (
        ({"alpha": 1.0, "beta": 0.0, "gamma": 0.0}, {"augmenter"}),  # fairness reaches f through the views alone
        ({"alpha": 0.0, "beta": 1.0, "gamma": 0.0}, {"augmenter", "encoder", "projector"}),
        ({"alpha": 0.0, "beta": 0.0, "gamma": 1.0}, {"augmenter"}),
    ):
        views = first_stage(toy_graph(), **weights)
        views.step(1)
        views.adversary.zero_grad()
        assert {name for name, module in players(views).items() if reached(module)} == reaches
    views = first_stage(toy_graph(), alpha=0.0, beta=1.0, gamma=0.0)
    views.step(1)
    assert reached(views.augmenter.link_head)
    assert reached(views.augmenter.feature_head)


def test_the_adversary_gets_better_and_the_augmenter_makes_it_worse() -> None:
    graph = toy_graph()
    against, indifferent = (
        first_stage(graph, alpha=alpha, beta=0.0, gamma=0.1, view_learning_rate=5e-3) for alpha in (10.0, 0.0)
    )
    losses = []
    for views in (against, indifferent):
        torch.manual_seed(0)
        losses.append([views.step(3)["adversary"].item() for _ in range(60)][-10:])
    assert max(losses[1]) < math.log(2) - 0.1
    assert sum(losses[0]) > sum(losses[1]) + 1.0


def test_a_view_has_loops_and_is_symmetric_and_masks_are_zeros_and_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen = toy_graph(), []
    views = first_stage(graph)
    kept = graphair.DrawnLinks

    def look(links: Tensor) -> Any:
        seen.append(links)
        return kept(links)

    monkeypatch.setattr(graphair, "DrawnLinks", look)
    monkeypatch.setattr(graphair, "draw_mask", lambda scores: seen.append(draw(scores)) or seen[-1])
    draw = kept.__init__.__globals__["draw_mask"]
    views.step(1)
    links, mask = seen
    assert torch.equal(links, links.t())
    assert (links.diagonal() == 1).all()
    for drawn in (links, mask):
        assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert mask.shape == (60, 5)


# --- whose group, which features, which part of the graph ---------------------------------------------------------


def test_the_adversary_s_loss_is_over_known_values_and_summed_over_attributes() -> None:
    graph = toy_graph(num_groups=3, num_attributes=2, unknown=0.3)
    for settings in ({}, WALKS):
        views = first_stage(graph, **settings)
        views.adversary.eval()
        batch = views._batch()
        matrix = pattern_of(graph)[batch.part.nodes][:, batch.part.nodes]
        links = graphair.DrawnLinks(matrix)
        propagated = links.propagate(batch.x)
        scores = views.adversary(propagated, links.propagate)
        assert scores.shape == (batch.part.num_nodes, 6)
        expected = 0.0
        for row, (v, share) in enumerate(zip(batch.part.nodes.tolist(), batch.part.shares.tolist(), strict=True)):
            for attribute in range(2):
                value = int(graph.sensitive[v, attribute])
                known = int((graph.sensitive[:, attribute] >= 0).sum())
                for group in range(3):
                    p = scores[row, 3 * attribute + group].sigmoid().item()
                    if value >= 0:  # a share of n among n is one of the known among them
                        expected -= share * 60 / known / 2 * math.log(p if value == group else 1 - p)
        assert views._adversary_loss(batch, propagated, links).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("nodes", ["all", "not held out", "train"])
def test_whose_sensitive_value_the_adversary_reads(nodes: str) -> None:
    graph = toy_graph()
    train = graph.mask("train") & (torch.arange(60) % 2 == 1)
    held_out = graph.mask("val") | graph.mask("test")

    def fitted(sensitive: Tensor) -> Graphair:
        changed = toy_graph(x=graph.x, sensitive=sensitive, train_mask=train)
        return Graphair(sensitive_nodes=nodes, selection="last", **QUICK).fit(changed)  # type: ignore[arg-type]

    first = fitted(graph.sensitive)
    parts = {"train": train, "held out": held_out, "neither": ~(train | held_out)}
    influence = {
        name
        for name, part in parts.items()
        if not same_weights(first, fitted(torch.where(part.unsqueeze(1), 1 - graph.sensitive, graph.sensitive)))
    }
    assert influence == {"all": set(parts), "not held out": {"train", "neither"}, "train": {"train"}}[nodes]


def test_labels_are_of_no_account_before_the_classifier_and_then_those_of_training_alone() -> None:
    graph = toy_graph()
    train = graph.mask("train")
    hidden, all_of_them = (toy_graph(y=torch.where(part, 1 - graph.y, graph.y)) for part in (~train, train | ~train))
    first, second, third = (Graphair(selection="last", **QUICK).fit(each) for each in (graph, hidden, all_of_them))
    assert same_weights(first, second)
    one, other = (
        {name: weight for name, weight in each._weights().items() if name.startswith("backbone.")}
        for each in (first, third)
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not same_weights(first, third)


def test_scaled_features_lie_between_minus_one_and_one_and_constant_ones_stay_finite() -> None:
    x = toy_graph().x.clone()
    x[:, 3] *= 1e6
    x[:, 4] = 7.0
    graph = toy_graph(x=x)
    views = first_stage(graph)
    torch.testing.assert_close(views.x[:, :4], scaled(x)[:, :4], rtol=1e-5, atol=1e-6)
    assert not views.x[:, 4].any()
    assert torch.equal(first_stage(graph, features="raw").x, x)
    assert torch.equal(graph.x, x)

    ours, larger, raw, raw_larger = (
        Graphair(features=kind, **QUICK).fit(toy_graph(x=factor * toy_graph().x)).embed(toy_graph(x=factor * x))  # type: ignore[arg-type]
        for kind in ("scaled", "raw")
        for factor in (1.0, 4.0)
    )
    assert (ours == larger).all()  # by powers of two, to the last bit
    assert not (raw == raw_larger).all()


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("relu_out", [False, True])
def test_the_encoder_is_a_gcn_on_scaled_features_of_training(num_layers: int, relu_out: bool) -> None:
    graph, new = toy_graph(), toy_graph(90, seed=5)
    model = Graphair(num_layers=num_layers, relu_out=relu_out, dropout=0.4, **QUICK).fit(graph).model_
    assert isinstance(model, NodeClassifier)
    encoder = model.backbone
    assert isinstance(encoder, Encoder)
    low, high = graph.x.min(dim=0).values, graph.x.max(dim=0).values
    h, matrix = 2 * (new.x - low) / (high - low) - 1, dense_propagation(pattern_of(new))
    for index, layer in enumerate(encoder.layers):
        h = layer(matrix @ (h.relu() if index else h))
    h = h.relu() if relu_out else h
    with torch.no_grad():
        torch.testing.assert_close(encoder(encoder.view(new)), h, rtol=1e-4, atol=1e-5)
        nodes = torch.tensor([7, 0, 89])
        torch.testing.assert_close(encoder(encoder.view(new, nodes)), h[nodes], rtol=1e-4, atol=1e-5)
        x = encoder.scale(new.x)
        torch.testing.assert_close(encoder.on(matrix @ x, lambda h: matrix @ h), h, rtol=1e-4, atol=1e-5)


def test_graphs_no_larger_than_their_subgraphs_are_taken_whole() -> None:
    graph = toy_graph()
    for settings, kind, steps in (
        ({}, WholeGraph, 1),
        ({"batch_nodes": 20, "walk_length": 2}, WholeGraph, 1),
        ({"batch_nodes": 19, "walk_length": 2}, RandomWalks, 1),
        ({"batch_nodes": 19, "walk_length": 2, "steps_per_epoch": None}, RandomWalks, 4),
        ({"batch_nodes": 8, "walk_length": 0, "steps_per_epoch": 5}, RandomWalks, 5),
        ({"batch_nodes": None, "steps_per_epoch": None}, WholeGraph, 1),
    ):
        views = first_stage(graph, **({"coverage": 2} | settings))  # type: ignore[operator]
        assert isinstance(views.sampler, kind)
        assert views.steps == steps


def test_an_epoch_draws_a_subgraph_for_each_step_and_the_first_some_to_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    views = first_stage(toy_graph(), steps_per_epoch=3, warm_up_steps=4, adversary_first_steps=5, **WALKS)
    steps, draws, draw = [], [], views.sampler.draw

    def count() -> Any:
        draws.append(draw())
        return draws[-1]

    step = views.step
    monkeypatch.setattr(views.sampler, "draw", count)
    monkeypatch.setattr(views, "step", lambda number: steps.append(number) or step(number))
    views.train_epoch()
    views.train_epoch()
    assert steps == [5, 1, 1, 1, 1, 1]
    assert len(draws) == 4 + 6
    assert int(views.clock.epochs) == 2


# --- the two stages -----------------------------------------------------------------------------------------------


def test_the_encoder_is_frozen_once_the_classifier_is_trained() -> None:
    graph = toy_graph()
    stages = training(graph, view_epochs=3, dropout=0.5, num_layers=2, warm_up_steps=1, learning_rate=0.1)
    encoder, head = stages.encoder, stages.classifier.model.head
    before = state(head)
    for _ in range(3):
        assert "contrast" in stages.train_epoch()
        assert encoder.training
    assert same(before, state(head))
    assert stages.views is not None
    assert stages.views.is_done
    learned, others = state(encoder), states(stages.views)
    for _ in range(4):
        assert set(stages.train_epoch()) == {"classification"}
        stages.validate()
    assert same(learned, state(encoder))
    assert moved(others, stages.views) == set()
    assert not same(before, state(head))
    assert not encoder.training
    assert not any(weight.requires_grad for weight in encoder.parameters())

    free = training(graph, view_epochs=2, warm_up_steps=1, freeze_encoder=False)
    for _ in range(2):
        free.train_epoch()
    learned = state(free.encoder)
    free.train_epoch()
    assert not same(learned, state(free.encoder))


def test_embeddings_do_not_depend_on_chance_and_those_of_the_classifier_are_of_the_graph_itself() -> None:
    graph = toy_graph()
    model = Graphair(num_layers=2, dropout=0.5, **QUICK).fit(graph)
    torch.manual_seed(1)
    first = model.embed(graph)
    torch.manual_seed(2)
    assert (first == model.embed(graph)).all()

    stages = training(graph, view_epochs=1, dropout=0.0, warm_up_steps=1)
    stages.train_epoch()
    losses = []
    for seed in (1, 2):  # of the first classifier step: nothing is drawn any more
        torch.manual_seed(seed)
        model_state = [value.clone() for value in state(stages.classifier.model)]
        losses.append(stages.train_epoch()["classification"].item())
        with torch.no_grad():
            for kept, value in zip(model_state, stages.classifier.model.state_dict().values(), strict=True):
                value.copy_(kept)
    assert losses[0] == losses[1]
    h = dense_propagation(pattern_of(graph)) @ scaled(graph.x)
    with torch.no_grad():
        (layer,) = stages.encoder.layers
        scores = stages.classifier.model.head(layer(h))[:, 0]
    train = graph.mask("train")
    expected = functional.binary_cross_entropy_with_logits(scores[train], graph.y[train].float())
    assert losses[0] == pytest.approx(expected.item(), rel=1e-4)


def test_history_counts_both_stages_and_only_the_second_is_validated() -> None:
    model = Graphair(view_epochs=4, epochs=7, warm_up_steps=1, evaluate_every=3).fit(toy_graph())
    assert [row["epoch"] for row in model.history_] == [*range(11)]
    assert all(("contrast" in row) == (row["epoch"] < 4) for row in model.history_)
    assert [int(row["epoch"]) for row in model.history_ if "score" in row] == [4, 7, 10]
    assert model.best_epoch_ >= 4


def test_without_views_it_is_a_gcn() -> None:
    graph = toy_graph()
    shared: dict[str, Any] = {"epochs": 30, "learning_rate": 0.02, "seed": 2, "dropout": 0.3, "num_layers": 2}
    shared |= {"selection": "-loss", "evaluate_every": 1}
    assert Graphair.off is not None
    off, gcn = Graphair(**Graphair.off, **shared).fit(graph), GCN(**shared).fit(graph)
    assert torch.equal(off.scores(graph), gcn.scores(graph))
    assert off.best_epoch_ == gcn.best_epoch_
    with_views = Graphair(**(dict(Graphair.off) | {"view_epochs": 3}), **shared).fit(graph)
    assert not torch.equal(with_views.scores(graph), gcn.scores(graph))


@pytest.mark.parametrize("epoch", [2, 5, 8], ids=["in the first stage", "between the stages", "in the second"])
@pytest.mark.parametrize("settings", [{}, WALKS | {"num_layers": 2, "dropout": 0.2}], ids=["whole", "subgraphs"])
def test_it_goes_on_from_a_checkpoint_and_from_a_file_in_the_same_bits(
    epoch: int, settings: dict[str, Any], tmp_path: Path
) -> None:
    graph = toy_graph()
    settings = QUICK | {"selection": "auc"} | settings
    whole = Graphair(**settings).fit(graph)
    with pytest.raises(KeyboardInterrupt):
        # a checkpoint is written after the callbacks, so the epoch of the last is the one before
        Graphair(**settings).fit(graph, folder=tmp_path, checkpoint_seconds=0.0, callbacks=[stop_in(epoch + 1)])
    resumed = Graphair(**settings).fit(graph, folder=tmp_path, resume=True)
    assert same_weights(whole, resumed)
    rows = [[{**row, "seconds": 0.0} for row in each.history_] for each in (whole, resumed)]
    assert rows[0] == rows[1]
    loaded = Graphair.load(whole.save(tmp_path / "model"))
    new = toy_graph(80, seed=5)
    assert torch.equal(loaded.scores(new), whole.scores(new))


@pytest.mark.parametrize("settings", [{}, WALKS], ids=["whole", "subgraphs"])
def test_the_same_seed_gives_the_same_bits(settings: dict[str, Any]) -> None:
    graph = toy_graph()
    first, second, other = (Graphair(seed=seed, **QUICK, **settings).fit(graph) for seed in (1, 1, 2))
    assert same_weights(first, second)
    assert not same_weights(first, other)


# --- views for other methods --------------------------------------------------------------------------------------


def test_prepare_draws_a_view_of_the_whole_graph() -> None:
    graph = toy_graph()
    before = graph.fingerprint, torch.get_rng_state()
    prepared = Graphair(**QUICK).prepare(graph)
    assert graph.fingerprint == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert FairGraph.validate(prepared) is prepared
    assert prepared.feature_names == graph.feature_names
    assert prepared.split_hash == graph.split_hash

    middle = (graph.x.min(dim=0).values + graph.x.max(dim=0).values) / 2
    kept = prepared.x == graph.x
    torch.testing.assert_close(torch.where(kept, middle, prepared.x), middle.expand(60, -1))
    assert 0.3 < kept.float().mean() < 0.9

    stayed = (pattern_of(prepared) * pattern_of(graph)).sum() - 60
    assert 0.5 < stayed / graph.edge_index.size(1) < 1.0
    assert prepared.edge_index.size(1) > 2 * graph.edge_index.size(1)

    raw = Graphair(features="raw", **QUICK).prepare(graph)
    assert ((raw.x == graph.x) | (raw.x == 0)).all()
    assert (raw.x[graph.x != 0] == 0).any()


def test_prepare_depends_on_the_seed_and_is_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = toy_graph()
    first, again, other = (Graphair(seed=seed, **QUICK).prepare(graph) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    subgraphs = Graphair(**QUICK, **WALKS).prepare(graph)
    assert subgraphs.num_nodes == 60
    assert subgraphs.fingerprint != first.fingerprint


@pytest.mark.parametrize("settings", [{}, WALKS], ids=["whole", "subgraphs"])
def test_prepare_draws_with_the_augmenter_that_fit_trains(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Kept(ViewTraining):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(graphair, "ViewTraining", Kept)
    Graphair(**QUICK, **settings).fit(toy_graph())
    Graphair(**QUICK, **settings).prepare(toy_graph())
    fitted, prepared = made
    assert same(state(*players(fitted).values()), state(*players(prepared).values()))


def test_a_view_of_too_many_links_is_refused_and_so_is_one_of_an_augmenter_that_knows_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = toy_graph()
    links = Graphair(**QUICK).prepare(graph).edge_index.size(1) // 2
    monkeypatch.setattr(graphair, "_MOST_PREPARED_LINKS", links)
    Graphair(**QUICK).prepare(graph)
    monkeypatch.setattr(graphair, "_MOST_PREPARED_LINKS", links - 1)
    with pytest.raises(
        ProtocolError, match=f"a view of graph 'toy' has more than {links - 1:,} links: .* of its 60 nodes. Prepare a"
    ) as told:
        Graphair(**QUICK).prepare(graph)
    assert "\n" not in str(told.value)
    with pytest.raises(ProtocolError, match="in view_epochs = 0 epochs. Set some"):
        Graphair(view_epochs=0).prepare(graph)


# --- what it can and cannot do ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        {"num_groups": 5},
        {"num_attributes": 3},
        {"num_classes": 4},
        {"num_groups": 3, "num_attributes": 2, "num_classes": 3, "unknown": 0.2},
        {"edge_index": torch.zeros(2, 0, dtype=torch.int64)},
    ],
    ids=["groups", "attributes", "classes", "all", "no links"],
)
@pytest.mark.parametrize("settings", [{}, WALKS], ids=["whole", "subgraphs"])
def test_any_number_of_groups_attributes_classes_and_links(kind: dict[str, Any], settings: dict[str, Any]) -> None:
    graph = toy_graph(90, **kind)
    model = Graphair(**QUICK, **settings).fit(graph)
    probabilities = model.predict_proba(graph)
    assert probabilities.shape == (90, graph.num_classes)
    assert torch.from_numpy(probabilities).isfinite().all()
    assert all(math.isfinite(row["adversary"]) for row in model.history_[:6])


def test_an_adversary_with_nothing_to_read_is_refused() -> None:
    graph = toy_graph()
    hidden = torch.where(graph.mask("train").unsqueeze(1), -1, graph.sensitive)
    nobody = toy_graph(sensitive=hidden)
    Graphair(**QUICK).fit(nobody)
    with pytest.raises(
        ProtocolError,
        match=r"learns 's' from nodes whose value is known \(sensitive_nodes = 'train'\); graph 'toy' has",
    ) as told:
        Graphair(sensitive_nodes="train", **QUICK).fit(nobody)
    assert "\n" not in str(told.value)
    second_unknown = toy_graph(num_attributes=2)
    second_unknown.sensitive[:, 1] = -1
    with pytest.raises(ProtocolError, match="learns 't' from nodes"):
        Graphair(**QUICK).fit(second_unknown)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backbone", "gin"),
        ("temperature", 0.01),
        ("features", "standardised"),
        ("sensitive_nodes", "test"),
        ("adversary_first_steps", 0),
        ("batch_nodes", 0),
        ("steps_per_epoch", 0),
    ],
)
def test_settings_out_of_bounds_are_refused(name: str, value: Any) -> None:
    for action in (Graphair.fit, Graphair.prepare):
        with pytest.raises(DataError, match=name):
            action(Graphair(**{name: value}), toy_graph())


def test_the_published_settings_are_points_of_the_paper_s_grid() -> None:
    table = all_published_settings("graphair")
    assert set(table) == {"german", "bail", "credit", "pokec-z", "pokec-n"}
    for settings in table.values():
        method = Graphair(**settings)
        assert {method.alpha, method.gamma, method.feature_weight} <= {0.1, 1.0, 10.0}
        assert (method.beta, method.view_epochs, method.view_learning_rate) == (1.0, 500, 1e-4)
        assert method.weight_decay == 1e-5
