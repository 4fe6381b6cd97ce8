from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from benchmarks import dense
from fairsad.errors import DataError
from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts
from fairsad.methods.fairsad import ABLATIONS, FairSAD, FairSADModel, FairSADTraining
from fairsad.training.selection import Validator
from tests.graphs import toy_graph


def training(method: FairSAD, graph: FairGraph) -> FairSADTraining:
    torch.manual_seed(3)
    model = method._build(GraphFacts.of(graph))
    return method._procedure(model, graph, Validator(graph, "auc"))


READINGS = {"paper": FairSAD, "code": FairSAD.reference_code}


@pytest.mark.parametrize(
    ("reading", "layers", "changes"),
    [
        *((reading, layers, {}) for reading, layers in itertools.product(READINGS, [1, 2])),
        ("paper", 1, {"distance_nodes": "all"}),
        ("paper", 1, {"num_channels": 8}),
        ("paper", 1, {"num_channels": 1}),
        *(("paper", 1, ABLATIONS[name]) for name in ABLATIONS),
    ],
)
def test_eq_9_total_loss_and_its_gradient_equal_the_dense_formulation(
    reading: str, layers: int, changes: dict[str, Any]
) -> None:
    graph = toy_graph()
    method = READINGS[reading](alpha=0.3, beta=0.7, dropout=0.0, num_layers=layers, **changes)
    ours = training(method, graph)
    before = {name: weight.detach().clone() for name, weight in ours.model.named_parameters()}
    torch.manual_seed(11)  # the mask is drawn once, in both
    parts = ours.train_epoch()
    gradients = {name: weight.grad for name, weight in ours.model.named_parameters()}

    with torch.no_grad():  # back to where the step started
        for name, weight in ours.model.named_parameters():
            weight.copy_(before[name])
            weight.grad = None
    judged_training = training(method, graph)
    torch.manual_seed(11)
    judged = dense.total_loss(
        method,
        ours.model,
        judged_training.discriminator,
        graph.x,
        dense.with_self_loops(graph.edge_index, graph.num_nodes),
        graph.y,
        graph.sensitive[:, 0],
        graph.mask("train").nonzero().squeeze(1),
    )
    assert set(parts) == set(judged)
    for name, value in judged.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-5, atol=1e-6)
    judged["loss"].backward()
    for name, weight in ours.model.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-3, atol=1e-5, msg=name)


def test_the_mask_is_drawn_before_anything_else_is() -> None:
    """The comparison above relies on it: with dropout off, the mask is all that is drawn in an epoch."""
    ours = training(FairSAD(dropout=0.0), toy_graph())
    torch.manual_seed(11)
    ours.train_epoch()
    after = torch.rand(1)
    torch.manual_seed(11)
    assert ours.model.mask is not None
    ours.model.mask.sample()
    assert torch.equal(torch.rand(1), after)


def test_the_discriminator_descends_its_loss_whatever_alpha_in_the_paper_s_reading() -> None:
    gradients = {}
    for alpha, mode in itertools.product((0.1, 0.5), ("separate", "shared")):
        ours = training(FairSAD(alpha=alpha, discriminator_gradient=mode, dropout=0.0), toy_graph())
        torch.manual_seed(0)
        ours.train_epoch()
        gradients[alpha, mode] = ours.discriminator.linear.weight.grad
    torch.testing.assert_close(gradients[0.1, "separate"], gradients[0.5, "separate"])
    torch.testing.assert_close(5 * gradients[0.1, "shared"], gradients[0.5, "shared"])
    torch.testing.assert_close(gradients[0.5, "separate"], 2 * gradients[0.5, "shared"])


def test_without_beta_and_features_the_sensitive_attribute_has_no_influence() -> None:
    graph = toy_graph()
    flipped = toy_graph(sensitive=1 - graph.sensitive)
    for beta, same in ((0.0, True), (1.0, True)):  # Cov(s, c) only changes its sign when s is flipped
        first, second = (training(FairSAD(beta=beta), each) for each in (graph, flipped))
        for each in (first, second):
            torch.manual_seed(0)
            each.train_epoch()
        assert torch.equal(first.model.classifier.weight, second.model.classifier.weight) == same


def test_settings_that_do_not_fit_together() -> None:
    with pytest.raises(DataError, match="hidden_dim = 16 cannot be shared among num_channels = 3"):
        FairSAD(num_channels=3, epochs=1).fit(toy_graph())
    with pytest.raises(DataError, match="unknown ablation 'w/o X'; expected one of w/o D, w/o M"):
        FairSAD.ablation("w/o X")


def test_ablations_leave_out_what_they_say() -> None:
    graph = toy_graph()
    assert set(training(FairSAD.ablation("w/o M"), graph).train_epoch()) == {
        "loss",
        "classification",
        "distance",
        "channel",
    }
    assert set(training(FairSAD.ablation("w/o Macro"), graph).train_epoch()) == {"loss", "classification", "covariance"}
    micro = training(FairSAD.ablation("w/o Micro"), graph)
    assert micro.model.encoder.assigner is None
    assert micro.model.encoder.num_channels == 4
    without = training(FairSAD.ablation("w/o D"), graph)
    assert without.model.encoder.num_channels == 1
    assert set(without.train_epoch()) == {"loss", "classification", "covariance"}


def test_channels_and_mask_for_a_look_inside() -> None:
    graph = toy_graph()
    model = FairSAD(epochs=2).fit(graph)
    channels, mask = model.channels(graph)
    assert channels.shape == (60, 4, 4)
    torch.testing.assert_close((channels * mask).flatten(1), torch.from_numpy(model.embed(graph)))
    assert isinstance(model.model_, FairSADModel)
    channels, mask = FairSAD.ablation("w/o M", epochs=2).fit(graph).channels(graph)
    assert mask.eq(1).all()


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_training_on_the_neighbourhood_is_training_on_the_graph(layers: int) -> None:
    """Reading L_d on all nodes needs the whole graph; with L_d switched off by α the two must do the same."""
    graph = toy_graph(200)
    settings: dict[str, Any] = {"alpha": 0.0, "dropout": 0.0, "num_layers": layers}
    part = training(FairSAD(channel_loss_nodes="train", **settings), graph)
    whole = training(FairSAD(channel_loss_nodes="all", **settings), graph)
    assert len(part.x) < len(whole.x) == 200
    for each in (part, whole):
        torch.manual_seed(0)
        for _ in range(5):
            each.train_epoch()
    for mine, theirs in zip(part.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


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
    graph = toy_graph(150, **kind)
    model = FairSAD(epochs=60, learning_rate=0.02, selection="acc").fit(graph)
    test = graph.mask("test").numpy()
    accuracy = (model.predict(graph)[test] == graph.y.numpy()[test]).mean()
    assert accuracy > 1.4 / graph.num_classes
    assert model.predict_proba(graph).shape == (150, graph.num_classes)


def test_the_sensitive_attribute_is_not_needed_to_predict() -> None:
    graph = toy_graph()
    model = FairSAD(epochs=3).fit(graph)
    unknown = toy_graph(sensitive=torch.full((60, 1), -1))
    assert torch.equal(model.scores(graph), model.scores(unknown))
