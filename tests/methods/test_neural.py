from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fairsad.errors import DataError, NotFittedError, ProtocolError
from fairsad.methods.fairsad import FairSAD
from fairsad.training.checkpoint import FILE_NAME
from tests.graphs import toy_graph

QUICK: dict[str, Any] = {"epochs": 40, "learning_rate": 0.02}


def same_weights(first: FairSAD, second: FairSAD) -> bool:
    one, other = first._weights(), second._weights()
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns() -> None:
    graph = toy_graph(120)
    model = FairSAD(**QUICK).fit(graph)
    test = graph.mask("test").numpy()
    assert (model.predict(graph)[test] == graph.y.numpy()[test]).mean() > 0.85
    assert len(model.history_) == 40
    assert model.protocol_["fingerprint"] == graph.fingerprint
    assert model.protocol_["best_epoch"] == model.best_epoch_


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    graph = toy_graph()
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first = FairSAD(seed=3, **QUICK).fit(graph)
    assert torch.equal(torch.get_rng_state(), before), "the caller's random stream was touched"
    torch.rand(1000)
    assert same_weights(first, FairSAD(seed=3, **QUICK).fit(graph))
    assert not same_weights(first, FairSAD(seed=4, **QUICK).fit(graph))


def test_labels_and_groups_outside_training_and_validation_are_never_read() -> None:
    graph = toy_graph()
    hidden = ~(graph.mask("train") | graph.mask("val"))
    poisoned = toy_graph(
        y=torch.where(hidden, 1 - graph.y, graph.y),
        sensitive=torch.where(hidden.unsqueeze(1), 1 - graph.sensitive, graph.sensitive),
    )
    assert same_weights(FairSAD(**QUICK).fit(graph), FairSAD(**QUICK).fit(poisoned))


def test_validation_labels_only_choose_the_epoch() -> None:
    graph = toy_graph()
    validation = graph.mask("val")
    poisoned = toy_graph(y=torch.where(validation, 1 - graph.y, graph.y))
    first, second = (FairSAD(selection="last", **QUICK).fit(each) for each in (graph, poisoned))
    assert same_weights(first, second)


def test_parameters_round_trip_as_scikit_learn_does() -> None:
    method = FairSAD(alpha=0.7, num_channels=8)
    assert clone(method).get_params() == method.get_params()
    assert method.set_params(beta=3.0).beta == 3.0
    assert FairSAD(**method.get_params()).get_params() == method.get_params()
    assert repr(method) == "FairSAD(alpha=0.7, beta=3.0, num_channels=8)"


def test_wrong_settings_are_told_before_anything_is_computed() -> None:
    with pytest.raises(DataError, match="FairSAD: alpha = -1; expected a number, at least 0"):
        FairSAD(alpha=-1).fit(toy_graph())
    with pytest.raises(ProtocolError, match="selection rule 'best' is not understood"):
        FairSAD(selection="best").fit(toy_graph())
    with pytest.raises(ProtocolError, match="no training nodes"):
        FairSAD().fit(toy_graph(train_mask=None))


def test_before_fit_there_is_nothing_to_predict_with(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="this FairSAD is not fitted yet. Call fit"):
        FairSAD().predict(toy_graph())
    with pytest.raises(NotFittedError):
        FairSAD().save(tmp_path)


def test_a_saved_model_predicts_the_same_on_a_new_graph(tmp_path: Path) -> None:
    graph, new = (
        toy_graph(),
        toy_graph(90, seed=5, y=torch.full((90,), -1), train_mask=None, val_mask=None, test_mask=None),
    )
    model = FairSAD(evaluation_mask="sample", **QUICK).fit(graph)
    model.save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == ["model.json", "model.safetensors"]
    loaded = FairSAD.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert loaded.protocol_ == model.protocol_
    assert loaded.facts_ == model.facts_
    assert torch.equal(loaded.scores(new), model.scores(new))
    np.testing.assert_array_equal(loaded.embed(new), model.embed(new))


def test_a_graph_with_other_columns_is_refused() -> None:
    model = FairSAD(epochs=1).fit(toy_graph())
    other = toy_graph(feature_names=["signal", "s", "a", "b", "wage"])
    with pytest.raises(
        DataError, match=r"other features than the model was trained on \('toy'\): without c but with wage"
    ):
        model.predict(other)
    with pytest.raises(DataError, match="the same columns in another order"):
        model.predict(toy_graph(feature_names=["s", "signal", "a", "b", "c"]))


def test_evaluation_is_of_the_split_that_was_asked_for() -> None:
    graph = toy_graph(150)
    model = FairSAD(**QUICK).fit(graph)
    for split in ("train", "val", "test", "all"):
        evaluation = model.evaluate(graph, split, intervals=False)
        nodes = graph.mask(split).numpy()
        correct = (model.predict(graph)[nodes] == graph.y.numpy()[nodes]).mean()
        assert evaluation.overall["accuracy"].value.value == pytest.approx(correct)
        assert evaluation.counts.num_rows == nodes.sum()
    with pytest.raises(ProtocolError, match="no nodes in split 'test'"):
        model.evaluate(toy_graph(150, test_mask=None), intervals=False)


def test_isolated_nodes_and_a_graph_without_links() -> None:
    graph = toy_graph(edge_index=np.zeros((2, 0), dtype=np.int64))
    assert np.isfinite(FairSAD(**QUICK).fit(graph).predict_proba(graph)).all()


KILLED = """
import sys
from fairsad.methods.fairsad import FairSAD
from tests.graphs import toy_graph

model = FairSAD(epochs=400, learning_rate=0.02)
model.fit(toy_graph(120), folder=sys.argv[1], resume=True, checkpoint_seconds=0.0)
model.save(sys.argv[1])
"""


def test_killed_again_and_again_it_ends_in_the_bits_of_an_uninterrupted_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    chance = np.random.default_rng(0)
    kills = 0
    for _ in range(30):
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        deadline = time.monotonic() + 60
        while not (tmp_path / FILE_NAME).exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.4))
        if process.poll() is not None:
            break
        if kills < 3:
            process.send_signal(signal.SIGKILL)
            kills += 1
        assert process.wait() in (0, -signal.SIGKILL)
        if process.returncode == 0:
            break
    assert kills == 3
    assert same_weights(FairSAD.load(tmp_path), FairSAD(epochs=400, learning_rate=0.02).fit(toy_graph(120)))
