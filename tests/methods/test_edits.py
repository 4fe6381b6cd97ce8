from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods import edits as module
from fairsad.methods.base import Method
from fairsad.methods.edits import EDITS, Edit, Editing, hash_links
from fairsad.methods.gcn import GCN
from fairsad.methods.registry import all_published_settings
from tests.graphs import toy_graph

QUICK: dict[str, Any] = {"epochs": 5, "edit_epochs": 5, "num_dropped": 2, "edit_learning_rate": 0.01}


def small_graph(**changes: Any) -> FairGraph:
    return toy_graph(30, **changes)


def with_fewer_links(graph: FairGraph) -> FairGraph:
    once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    return graph.replace(edge_index=once[:, 4:])


def groups(graph: FairGraph) -> tuple[Tensor, Tensor]:
    train, s = graph.mask("train"), graph.sensitive[:, 0]
    return (train & (s == 0)).nonzero().squeeze(1), (train & (s == 1)).nonzero().squeeze(1)


def adversarial(editing: Editing, step: int, matrix: Tensor, scale: Tensor, critic: Tensor) -> Tensor:
    """−(mean over s = 1 − mean over s = 0) of the critic's scores, with the dropout that this step has drawn."""
    x = editing.x.double() * scale
    scores = torch.cat([x, matrix @ x, matrix @ (matrix @ x)], dim=1) @ critic.reshape(-1)
    return (editing.seen.c[:, step].double() * scores).sum()


# --- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_gradients_are_those_of_autograd_over_whole_matrices(dropout: float) -> None:
    graph = small_graph()
    method = EDITS(critic_dropout=dropout, keep_weight=0.3, feature_weight=0.7, link_weight=4.0)
    editing = Editing(method, graph)
    for _ in range(3):  # away from the start, where some parts are 0
        editing.train_epoch()
    matrix, scale, critic = (
        each.detach().double().requires_grad_() for each in (editing.changes.dense(), editing.scale, editing.critic)
    )
    x = editing.x.double()
    features = 0.3 * (x * scale - x).norm() + 0.7 * adversarial(editing, 0, matrix, scale, critic)
    (expected,) = torch.autograd.grad(features, scale)
    torch.testing.assert_close(editing.feature_gradient(0).double(), expected, rtol=1e-5, atol=1e-5)

    (expected,) = torch.autograd.grad(4.0 * adversarial(editing, 1, matrix, scale, critic), matrix)
    c, a, q, b = editing.link_gradient(1)
    torch.testing.assert_close((torch.outer(c, a) + torch.outer(q, b)).double(), expected, rtol=1e-5, atol=1e-5)
    assert expected.abs().max() > 1e-3

    (expected,) = torch.autograd.grad(-adversarial(editing, 1, matrix, scale, critic), critic)
    torch.testing.assert_close(editing.critic_gradient(1).double(), expected, rtol=1e-5, atol=1e-5)


def test_without_dropout_a_step_weighs_each_group_by_its_mean() -> None:
    graph = small_graph(unknown=0.2)
    seen = Editing(EDITS(critic_dropout=0.0), graph).seen
    first, second = groups(graph)
    expected = torch.zeros(30)
    expected[first], expected[second] = 1 / len(first), -1 / len(second)
    assert all(torch.equal(c, expected) for c in seen.c.T)


def test_dropout_leaves_out_a_share_of_the_nodes_and_makes_up_for_them() -> None:
    graph = toy_graph(3000)
    editing = Editing(EDITS(critic_dropout=0.2), graph)
    first, _ = groups(graph)
    drawn = torch.cat([editing._look(10).c for _ in range(5)], dim=1)[first]
    assert set((drawn * len(first)).unique().round(decimals=4).tolist()) == {0.0, 1.25}
    assert (drawn == 0).double().mean() == pytest.approx(0.2, abs=0.01)
    assert not torch.equal(drawn[:, 0], drawn[:, 1])


def test_the_norm_has_no_gradient_where_nothing_has_moved() -> None:
    editing = Editing(EDITS(feature_weight=0.0), small_graph())
    assert torch.equal(editing.feature_gradient(0), torch.zeros(5))


# --- the schedule --------------------------------------------------------------------------------------------------


def plain_epochs(editing: Editing, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """The schedule on dense matrices with PyTorch's own optimisers and autograd, with the same draws."""
    method = editing.method
    start = editing.changes.dense().double()
    matrix = start.clone().requires_grad_()
    scale = editing.scale.detach().double().requires_grad_()
    critic = editing.critic.detach().double().requires_grad_()
    x, eta = editing.x.double(), method.edit_learning_rate
    rmsprop: dict[str, Any] = {"lr": eta, "alpha": 0.99, "eps": 1e-4, "weight_decay": 1e-7}
    of_scale, of_critic = torch.optim.RMSprop([scale], **rmsprop), torch.optim.RMSprop([critic], **rmsprop)
    of_matrix = torch.optim.SGD([matrix], lr=eta, momentum=0.9)

    def adv(step: int) -> Tensor:
        return adversarial(editing, step, matrix, scale, critic)

    def shrunk(weights: Tensor, by: float) -> Tensor:
        return weights.sign() * (weights.abs() - by * eta).clamp(min=0)

    for _ in range(number):
        moved = x * scale - x
        norm = moved.norm() if bool((moved != 0).any()) else 0.0
        scale.grad = torch.autograd.grad(method.keep_weight * norm + method.feature_weight * adv(0), scale)[0]
        of_scale.step()
        scale.data = shrunk(scale.data, 5e-6)
        matrix.grad = torch.autograd.grad((matrix - start).square().sum() + method.link_weight * adv(1), matrix)[0]
        of_matrix.step()
        matrix.data = shrunk(matrix.data, 5e-4).clamp(0, 1)
        matrix.data = (matrix.data + matrix.data.T) / 2
        scale.data = scale.data.clamp(0, 1)
        editing.seen = editing._look(2 + method.critic_steps)
        for step in range(2, 2 + method.critic_steps):
            critic.grad = torch.autograd.grad(-adv(step), critic)[0]
            of_critic.step()
            critic.data = critic.data.clamp(-method.critic_clip, method.critic_clip)
    return matrix.detach(), scale.detach(), critic.detach()


def test_ten_epochs_equal_the_schedule_on_whole_matrices() -> None:
    method = EDITS(edit_learning_rate=0.01, keep_weight=0.01, feature_weight=20.0)
    ours, theirs = Editing(method, small_graph()), Editing(method, small_graph())
    for _ in range(10):
        ours.train_epoch()
    matrix, scale, critic = plain_epochs(theirs, 10)
    changed = (matrix - theirs.changes.dense()).abs()
    assert changed.max() > 0.01
    assert (scale < 0.99).any()
    torch.testing.assert_close(ours.changes.dense().double(), matrix, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.scale.double(), scale, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.critic.double(), critic, rtol=0, atol=1e-5)


def test_everything_stays_in_its_box_and_the_links_stay_symmetric() -> None:
    editing = Editing(EDITS(edit_learning_rate=0.1, link_weight=300.0), small_graph())
    assert editing.critic.abs().max() <= 0.02
    for _ in range(20):
        editing.train_epoch()
        matrix = editing.changes.dense()
        assert torch.equal(matrix, matrix.T)
        assert matrix.min() >= 0
        assert matrix.max() <= 1
        assert editing.scale.min() >= 0
        assert editing.scale.max() <= 1
        assert editing.critic.abs().max() <= 0.02
    assert editing.scale.min() == 0
    assert ((matrix > 0) & (matrix < 1)).any()


def test_the_learning_rate_falls_to_a_third_after_epoch_400_and_the_shrinkage_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editing = Editing(EDITS(), small_graph())
    told: list[tuple[float, float]] = []
    monkeypatch.setattr(
        editing.changes, "step", lambda *_, learning_rate, momentum, shrink: told.append((learning_rate, shrink))
    )
    for editing.epoch in (0, 400, 401):
        editing.train_epoch()
        told[-1] = (*told[-1], *(each.param_groups[0]["lr"] for each in editing.optimisers.values()))  # type: ignore[assignment]
    assert told[0] == told[1] == pytest.approx((3e-3, 1.5e-6, 3e-3, 3e-3))
    assert told[2] == pytest.approx((1e-3, 1.5e-6, 1e-3, 1e-3))


def test_without_the_critic_only_the_shrinkage_moves_anything() -> None:
    editing = Editing(EDITS(feature_weight=0.0, link_weight=0.0), small_graph())
    before = editing.changes.dense()
    for _ in range(10):
        editing.train_epoch()
    after = editing.changes.dense()
    torch.testing.assert_close(editing.scale.detach(), torch.ones(5), rtol=0, atol=1e-3)
    assert torch.equal(after[before == 0], before[before == 0])
    # ten steps of 5e-4 · 3e-3, but for what ‖Â − A‖² draws back
    assert (after[before == 1] < 1).all()
    assert (after[before == 1] > 1 - 1.6e-5).all()


def test_the_critic_of_frozen_weights_reaches_a_corner_and_its_distance_follows_the_box() -> None:
    distances = []
    for clip in (0.01, 0.02):
        editing = Editing(EDITS(critic_dropout=0.0, critic_clip=clip), small_graph())
        for _ in range(300):
            distance = editing._step_critic(0)
        distances.append(float(distance))
    assert distances[0] > 0
    assert distances[1] == pytest.approx(2 * distances[0], rel=1e-3)


def test_features_are_columns_of_length_one_that_begin_at_zero_unless_told_otherwise() -> None:
    graph = small_graph()
    graph.x[:, 4] = 7.0
    x = Editing(EDITS(), graph).x
    torch.testing.assert_close(x.norm(dim=0), torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0]))
    assert torch.equal(x.amin(dim=0), torch.zeros(5))
    x = Editing(EDITS(edited_features="as they are"), graph).x
    torch.testing.assert_close(x, functional.normalize(graph.x, dim=0))


# --- the rewritten graph -------------------------------------------------------------------------------------------


def test_two_columns_become_zero_and_all_else_stays() -> None:
    graph = small_graph()
    editing = Editing(EDITS(**QUICK), graph)
    for _ in range(5):
        editing.train_epoch()
    weakest = sorted(editing.scale.argsort()[:2].tolist())
    prepared = EDITS(**QUICK).prepare(graph)
    zero = [column for column in range(5) if not prepared.x[:, column].any()]
    assert zero == weakest
    kept = [column for column in range(5) if column not in zero]
    assert torch.equal(prepared.x[:, kept], graph.x[:, kept])
    for name in ("y", "sensitive", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(prepared[name], graph[name])
    assert prepared.sensitive_columns == (() if 1 in zero else (1,),)


def test_the_rewritten_links_are_those_there_were_with_the_largest_changes() -> None:
    graph = small_graph()
    settings = QUICK | {"link_threshold": 0.4}
    editing = Editing(EDITS(**settings), graph)
    for _ in range(5):
        editing.train_epoch()
    start = LinkPattern(graph).matrix
    change = editing.changes.dense() - start
    expected = torch.where(
        change > 0.4 * change.max(), 1.0, torch.where(change < 0.4 * change.min(), 0.0, start)
    ).fill_diagonal_(0)
    found = LinkPattern(EDITS(**settings).prepare(graph)).matrix.fill_diagonal_(0)
    assert torch.equal(found, expected)
    assert (found > start.fill_diagonal_(0)).any()
    assert (found < start).any()


class LinkPattern:
    """A + I of a graph."""

    def __init__(self, graph: FairGraph) -> None:
        self.matrix = torch.eye(graph.num_nodes)
        self.matrix[graph.edge_index[0], graph.edge_index[1]] = 1.0


def test_a_higher_threshold_never_changes_another_link() -> None:
    graph, before = small_graph(), None
    for threshold in (0.99, 0.5, 0.1, 0.0):
        edit = EDITS(**QUICK, link_threshold=threshold)._find(graph, False)
        pairs = {tuple(pair) for each in (edit.added, edit.removed) for pair in each.T.tolist()}
        assert before is None or before <= pairs
        before = pairs
    assert before


def test_it_reads_no_label_and_no_sensitive_value_outside_the_training_nodes() -> None:
    graph = small_graph()
    changed = graph.replace(
        y=1 - graph.y, sensitive=torch.where(graph.train_mask[:, None], graph.sensitive, 1 - graph.sensitive)
    )
    first, second = (EDITS(**QUICK).prepare(each) for each in (graph, changed))
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.edge_index, second.edge_index)


def test_it_is_a_gcn_on_the_graph_that_it_prepares() -> None:
    graph = toy_graph()
    model, prepared = EDITS(**QUICK).fit(graph), EDITS(**QUICK).prepare(graph)
    gcn = GCN(epochs=5).fit(prepared)
    assert torch.equal(model.scores(graph), gcn.scores(prepared))
    assert model.protocol_["edit"]["dropped_columns"] == [
        name for name, column in zip(graph.feature_names, prepared.x.T, strict=True) if not column.any()
    ]
    assert model.protocol_["fingerprint"] == graph.fingerprint
    added = int(LinkPattern(prepared).matrix.sum() - LinkPattern(graph).matrix.sum()) // 2
    assert model.protocol_["edit"]["pairs_added"] - model.protocol_["edit"]["pairs_removed"] == added


def test_another_graph_keeps_its_links_and_loses_the_columns(tmp_path: Path) -> None:
    graph = toy_graph()
    model = EDITS(**QUICK, link_threshold=0.0).fit(graph)
    loaded = Method.load(model.save(tmp_path / "model"))
    fewer = with_fewer_links(graph)
    blind = fewer.replace(x=fewer.x.index_fill(1, model.edit_.dropped, 0.0))
    without_edit = GCN(epochs=5).fit(graph)
    without_edit.model_ = model.model_
    expected = without_edit.scores(blind)
    assert torch.equal(model.scores(fewer), expected)
    assert torch.equal(loaded.scores(fewer), expected)
    assert torch.equal(loaded.scores(graph), model.scores(graph))
    assert not torch.allclose(model.scores(graph)[5:], model.scores(fewer)[5:])
    # the links decide, not the features: a person's changed answers do not take the rewriting away
    answers = graph.replace(x=graph.x.roll(1, 0))
    assert model.edit_.fits(answers)
    assert not model.edit_.fits(fewer)


def test_the_hash_is_of_links_and_nodes() -> None:
    graph = toy_graph()
    assert torch.equal(hash_links(graph), hash_links(graph.replace(y=torch.zeros_like(graph.y))))
    assert not torch.equal(hash_links(graph), hash_links(with_fewer_links(graph)))


def test_an_edit_that_changes_nothing_gives_the_graph_itself() -> None:
    graph, nothing = toy_graph(), torch.zeros(2, 0, dtype=torch.int64)
    edit = Edit(nothing[0], nothing, nothing, hash_links(graph))
    assert edit.of_all(graph) is graph
    assert edit.of_features(graph) is graph


# --- refusals ------------------------------------------------------------------------------------------------------


def test_it_says_what_it_cannot_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = toy_graph()
    with pytest.raises(ProtocolError, match=r"num_dropped = 5 columns; graph 'toy' has 5\. Set a smaller number"):
        EDITS(num_dropped=5).fit(graph)
    one = graph.replace(sensitive=torch.where(graph.train_mask[:, None], 0, graph.sensitive))
    with pytest.raises(
        ProtocolError, match=r"two groups of s among the training nodes; graph 'toy' has none there of 1"
    ):
        EDITS(**QUICK).prepare(one)
    monkeypatch.setattr(module, "memory_bytes", lambda: 20_000)
    with pytest.raises(
        DataError, match=r"0\.0 GB for the 60 nodes of graph 'toy', and this machine has 0\.0 GB\. Use a"
    ):
        EDITS(**QUICK).fit(graph)
    monkeypatch.setattr(module, "memory_bytes", lambda: None)
    EDITS(**QUICK).fit(graph)


def test_the_published_settings() -> None:
    published = all_published_settings("edits")
    assert {name: settings["link_threshold"] for name, settings in published.items()} == {
        "german": 0.2,
        "bail": 0.5,
        "credit": 0.02,
    }
    assert {(each["keep_weight"], each["feature_weight"]) for each in published.values()} == {
        (0.3, 0.8),
        (0.03, 1.0),
        (0.05, 0.1),
    }
