"""Probes: what can be read where, against scikit-learn and against representations made to measure."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor

import fairsad
from fairsad import DataError, FairGraph, ProtocolError
from fairsad.evaluation import probe as probe_module
from fairsad.evaluation.probe import Probe, _scores, _standardised, _stratified_folds, probe
from fairsad.methods.fairsad import FairSAD
from fairsad.sources import load_graph

GRAPH = load_graph("synthetic:nodes=2000,bias=0.4,homophily=0.5,seed=1")
S = GRAPH.sensitive[:, 0]


class Embedding:
    """A model with a given representation."""

    def __init__(self, columns: Tensor) -> None:
        self.columns = columns

    def embed(self, graph: FairGraph) -> Any:
        return self.columns.numpy()


class Channels(Embedding):
    """A model with given channels [n, K, q] and mask [K, q]."""

    def __init__(self, channels: Tensor, mask: Tensor) -> None:
        super().__init__((channels * mask).flatten(1))
        self.before, self.mask = channels, mask

    def channels(self, graph: FairGraph) -> tuple[Tensor, Tensor]:
        return self.before, self.mask


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_sensitive(codes: Tensor, **changes: Any) -> FairGraph:
    settings: dict[str, Any] = {
        "x": GRAPH.x,
        "edge_index": GRAPH.edge_index,
        "y": GRAPH.y,
        "sensitive": codes,
        "sensitive_names": ["a", "b", "c"][: codes.size(1) if codes.dim() > 1 else 1],
        "sensitive_columns": [[]] * (codes.size(1) if codes.dim() > 1 else 1),
        "test_mask": torch.ones(GRAPH.num_nodes, dtype=torch.bool),
    }
    return FairGraph.build(**(settings | changes))


def exact(found: Probe, target: str, place: str) -> float:
    return found.target(target).place(place).exact.auc


def test_the_planted_attribute_is_found_and_a_random_one_is_not() -> None:
    untrained = Embedding(GRAPH.propagated() @ noise(GRAPH.x.size(1), 16))  # a GCN layer before any training
    random = torch.randint(0, 2, (GRAPH.num_nodes,), generator=torch.Generator().manual_seed(0))
    graph = with_sensitive(torch.stack([S, random], dim=1))
    found = probe(untrained, graph)
    assert exact(found, "a", "features") > 0.99
    assert exact(found, "a", "embedding") > 0.93
    assert exact(found, "b", "features") == pytest.approx(0.5, abs=0.04)
    assert exact(found, "b", "embedding") == pytest.approx(0.5, abs=0.04)
    assert 0.7 < exact(found, "label", "embedding") < 0.95
    assert found.mask is None
    assert found.sentences()[0].startswith("A can be read with AUC 1.000 from the features, 0.9")


def test_the_channel_that_holds_the_attribute_is_named_and_its_mask_weighed() -> None:
    channels = noise(GRAPH.num_nodes, 3, 2)
    channels[:, 1, 0] += 3.0 * S
    channels[:, 2, 1] += 2.0 * GRAPH.y
    found = probe(Channels(channels, torch.tensor([[1.0, 1.0], [0.1, 0.1], [1.0, 1.0]])), GRAPH, split="all")
    group = found.target("group")
    assert [round(place.exact.auc, 1) for place in group.channels] == [0.5, 1.0, 0.7]
    holder = group.place("channel 2")
    assert holder.before is not None
    assert holder.after is not None
    assert holder.before.auc > 0.9
    assert holder.after.auc < 0.65
    assert group.place("channel 3").before == group.place("channel 3").after  # a mask of ones changes nothing
    sentence = found.sentences()[0]
    assert "Channel 2 tells most of it" in sentence
    assert f"{round(holder.before.auc, 3) - round(holder.after.auc, 3):.3f} less." in sentence
    assert "Channel 3 tells most of it" in found.sentences()[-1]


def test_what_the_mask_leaves_grows_with_the_mask_from_chance_to_all() -> None:
    channels = noise(GRAPH.num_nodes, 2, 1)
    channels[:, 0, 0] += 3.0 * S

    def read(size: float) -> tuple[float, float]:
        place = probe(Channels(channels, torch.tensor([[size], [1.0]])), GRAPH, split="all").target("group").places[2]
        assert place.name == "channel 1"
        assert place.after is not None
        assert place.before is not None
        return place.after.auc, place.before.auc

    left = [read(size)[0] for size in (0.0, 0.1, 0.3, 0.6, 1.0)]
    assert left[0] == pytest.approx(0.5, abs=0.02)
    assert left == sorted(left)
    assert left[-1] == read(1.0)[1] > 0.85


def test_blurred_is_what_adding_that_much_noise_does_to_two_normal_groups() -> None:
    # one column, so the noise has the column's own variance: AUC = Φ(δ / sqrt(2 (1 + variance)))
    column = noise(GRAPH.num_nodes, 1, 1) + 2.0 * S[:, None, None]
    place = probe(Channels(column, torch.ones(1, 1)), GRAPH, split="all").target("group").place("channel 1")
    normal = torch.distributions.Normal(0.0, 1.0)
    spread = 1 + float(column.var())
    assert place.before is not None
    assert place.before.auc == pytest.approx(float(normal.cdf(torch.tensor(2 / (2 * spread) ** 0.5))), abs=0.02)
    assert place.exact.auc == pytest.approx(float(normal.cdf(torch.tensor(2 / 2**0.5))), abs=0.02)


def test_the_discriminant_ranks_as_scikit_learns_does() -> None:
    columns = _standardised((GRAPH.propagated() @ noise(GRAPH.x.size(1), 6)).double().numpy())
    held = np.arange(GRAPH.num_nodes) % 5 == 0
    known = S.numpy() == 1
    ours = _scores(columns, known[:, None], held)[:, 0]
    lda = LinearDiscriminantAnalysis().fit(columns[~held], known[~held]).decision_function(columns[held])
    logistic = LogisticRegression().fit(columns[~held], known[~held]).decision_function(columns[held])
    assert roc_auc_score(known[held], ours) == pytest.approx(roc_auc_score(known[held], lda), abs=1e-3)
    assert roc_auc_score(known[held], ours) == pytest.approx(roc_auc_score(known[held], logistic), abs=0.01)


def test_nodes_are_scored_by_what_others_teach() -> None:
    # a hundred columns of noise fit four hundred nodes well, and tell nothing about the next
    graph = with_sensitive(S, test_mask=torch.arange(GRAPH.num_nodes) < 400)
    assert exact(probe(Embedding(noise(GRAPH.num_nodes, 100)), graph), "a", "embedding") < 0.6


def test_several_values_are_taken_each_against_the_rest() -> None:
    codes = torch.arange(GRAPH.num_nodes) % 3
    columns = noise(GRAPH.num_nodes, 2)
    columns[:, 0] += 4.0 * (codes == 2)
    found = probe(Embedding(columns), with_sensitive(codes))
    place = found.target("a").place("embedding")
    fold = _stratified_folds(codes.numpy(), 5, 0)
    expected = []
    for number in range(5):
        held = fold == number
        each = []
        for value in range(3):
            known = codes.numpy() == value
            judge = LinearDiscriminantAnalysis().fit(columns.numpy()[~held], known[~held])
            each.append(roc_auc_score(known[held], judge.decision_function(columns.numpy()[held])))
        expected.append(np.mean(each))
    assert place.exact.folds == pytest.approx(expected, abs=0.01)
    assert place.exact.auc == pytest.approx(np.mean(place.exact.folds))
    assert place.exact.std == pytest.approx(np.std(place.exact.folds))


def test_every_fold_has_its_share_of_every_value() -> None:
    codes = np.repeat([0, 1, 2], [5, 23, 90])
    fold = _stratified_folds(codes, 5, 0)
    for value, low, high in ((0, 1, 1), (1, 4, 5), (2, 18, 18)):
        counts = np.bincount(fold[codes == value], minlength=5)
        assert (counts.min(), counts.max()) == (low, high)


def test_unknown_and_rare_values_are_left_out_and_told() -> None:
    codes = torch.stack([S, S, S], dim=1).clone()
    codes[:300, 0] = -1
    codes[:4, 1] = 2  # a value of four nodes, in a world of five folds
    codes[:, 2] = 0
    codes[:3, 2] = 1
    found = probe(Embedding(noise(GRAPH.num_nodes, 3)), with_sensitive(codes))
    unknown, rare, alone = (found.target(name) for name in "abc")
    assert (unknown.unknown, sum(unknown.nodes.values())) == (300, GRAPH.num_nodes - 300)
    assert rare.nodes.keys() == {"0", "1"}
    assert "fewer than 5 nodes, one for each fold, have the value: 2 (4)" in rare.reason
    assert not np.isnan(rare.place("features").exact.auc)
    assert not alone.readable
    assert np.isnan(alone.place("features").exact.auc)
    assert alone.reason.startswith("fewer than two values with at least 5 nodes each")
    assert "Where c can be read is not known" in " ".join(found.sentences())
    text = found.to_markdown()
    assert "300 nodes of unknown value left out" in text
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_constant_channel_tells_nothing() -> None:
    channels = torch.zeros(GRAPH.num_nodes, 2, 2)
    found = probe(Channels(channels, torch.ones(2, 2)), GRAPH)
    assert [place.exact.auc for place in found.target("group").channels] == [0.5, 0.5]
    assert "From no channel can it be read better than by chance." in found.sentences()[0]


def test_large_graphs_are_sampled_with_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Channels(noise(GRAPH.num_nodes, 2, 2), torch.rand(2, 2))
    first, again, other = (probe(model, GRAPH, split="all", max_nodes=400, seed=seed) for seed in (0, 0, 1))
    assert (first.nodes, first.of_nodes) == (400, 2000)
    assert "400 nodes of split all, drawn from 2000" in first.to_markdown()
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() != other.to_dict()
    monkeypatch.setattr(probe_module, "MAX_DRAWS", 1)
    assert probe(model, GRAPH, split="all", seed=0).to_dict() == probe(model, GRAPH, split="all", seed=0).to_dict()


def test_a_trained_fairsad_is_probed_as_it_predicts() -> None:
    graph = load_graph("synthetic:nodes=300,seed=2")
    model = FairSAD(epochs=5).fit(graph)
    found = fairsad.probe(model, graph)
    channels, mask = model.channels(graph)
    assert found.mask == pytest.approx(mask.numpy())
    assert [table.title for table in found.tables()] == [
        "Where group can be read",
        "Where the label can be read",
        "Mask",
        "Distance correlation",
    ]
    assert found.correlation is not None
    assert np.diag(found.correlation) == pytest.approx(np.ones(4))
    assert found.nodes == int(graph.test_mask.sum())
    # the mask scales columns, which is nothing to an exact reader
    assert exact(found, "group", "embedding") == pytest.approx(exact(found, "group", "all channels"), abs=1e-6)
    assert channels.shape == (300, 4, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: probe(model, GRAPH, folds=1), DataError, "folds = 1; expected at least 2"),
        (
            lambda model: probe(model, with_sensitive(S, test_mask=None)),
            ProtocolError,
            "has no nodes in split 'test'",
        ),
        (
            lambda model: probe(model, GRAPH).target("age"),
            DataError,
            "'age' was not probed for; expected one of: group",
        ),
        (
            lambda model: probe(model, GRAPH).target("group").place("channel 9"),
            DataError,
            "'group' was not looked for in 'channel 9'",
        ),
    ],
)
def test_what_the_user_can_put_right(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(Embedding(noise(GRAPH.num_nodes, 2)))


def test_the_module_itself_imports_without_torch() -> None:
    code = "import sys, fairsad.evaluation.probe; print(sorted({'torch', 'sklearn', 'pandas'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
