"""What every method promises, each promise as a check.

A check is a function of a :class:`MethodCase`. It returns where the promise is kept, raises ``AssertionError`` with a
sentence where it is broken, and raises ``unittest.SkipTest``, which pytest reports as skipped, where the method makes
no such promise. Nothing here needs pytest.
"""

from __future__ import annotations

import functools
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from fairsad.errors import DataError, FairsadError, NotFittedError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import FACTS_FILE, WEIGHTS_FILE, Method, Preparation
from fairsad.methods.gcn import GCN
from fairsad.methods.neural import NeuralMethod
from fairsad.methods.parameters import check_parameters, parameters_of, parse_parameter
from fairsad.methods.registry import all_published_settings
from fairsad.sources import load_graph
from fairsad.testing.graphs import toy_graph

# The graph of the planted gap, and the model that nothing holds back, on it: a gap of about 0.4.
PLANTED = "synthetic:nodes=1200,bias=0.4,homophily=0.5,proxy=2,seed=7"
UNCONSTRAINED: dict[str, Any] = {"epochs": 150, "learning_rate": 0.02}
PLANTED_SEEDS = (0, 1, 2)
# A method has to take away a tenth of the gap at least, and still tell the classes apart.
GAP_LEFT = 0.9
LEAST_BALANCED_ACCURACY = 0.55


@dataclass(frozen=True)
class MethodCase:
    """A method under test.

    Attributes:
        make: The method's class, or a constructor of a reading of it.
        settings: Under which it is quick, and learns the toy graph.
        mitigating: On top of these, those under which it has to reduce the planted gap.
        exempt: Names of checks that cannot apply, each with the reason.
    """

    make: Callable[..., Method]
    settings: Mapping[str, Any] = field(default_factory=dict)
    mitigating: Mapping[str, Any] = field(default_factory=dict)
    exempt: Mapping[str, str] = field(default_factory=dict)

    def new(self, **changes: Any) -> Method:
        """The method, not fitted."""
        return self.make(**{**self.settings, **changes})

    def fitted(self, graph: FairGraph, **changes: Any) -> Method:
        """The method, fitted."""
        return self.new(**changes).fit(graph)


Check = Callable[[MethodCase], None]

CHECKS: list[Check] = []


def _check(function: Check) -> Check:
    """Put a check on the list, and let a case be exempt from it."""

    @functools.wraps(function)
    def checked(case: MethodCase) -> None:
        if function.__name__ in case.exempt:
            raise SkipTest(case.exempt[function.__name__])
        function(case)

    CHECKS.append(checked)
    return checked


# -- it works ---------------------------------------------------------------------------------------------------


@_check
def check_learns_a_toy_graph(case: MethodCase) -> None:
    """Where the label follows one feature, and neighbours share it, most test nodes are predicted right."""
    nodes = torch.arange(1, 146)
    graph = toy_graph(150, edge_index=torch.stack([nodes.repeat(2), torch.cat([nodes + 2, nodes + 4])]))
    model = case.new()
    _require(model.fit(graph) is model, "fit returned something else than the method itself")
    test = graph.mask("test").numpy()
    accuracy = float((model.predict(graph)[test] == graph.y.numpy()[test]).mean())
    _require(accuracy > 0.8, f"the accuracy on the toy graph is {accuracy:.2f}; expected more than 0.8")


@_check
def check_predicts_on_a_new_graph(case: MethodCase) -> None:
    """A graph without labels and split is predicted; one with other columns is refused."""
    model = case.fitted(toy_graph())
    nobody: dict[str, Any] = {"train_mask": None, "val_mask": None, "test_mask": None}
    new = toy_graph(90, seed=5, y=torch.full((90,), -1), label_names=["0", "1"], **nobody)
    _require_predictions(model, new, "on a new graph")
    other = toy_graph(feature_names=["signal", "s", "a", "b", "wage"])
    error = _refusal(lambda: model.predict(other), "a graph with other features than those of training")
    _require(isinstance(error, DataError), f"a graph with other features raised {type(error).__name__}, no DataError")


@_check
def check_saves_and_loads(case: MethodCase) -> None:
    """What is loaded is what was saved: settings, protocol, and every score to the last bit; without pickle."""
    graph, new = toy_graph(), toy_graph(90, seed=5)
    error = _refusal(lambda: case.new().predict(graph), "predicting before fit")
    _require(isinstance(error, NotFittedError), f"predict before fit raised {type(error).__name__}, no NotFittedError")
    model = case.fitted(graph)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        files = sorted(path.name for path in Path(folder).iterdir())
        _require(files == [FACTS_FILE, WEIGHTS_FILE], f"save wrote {files}; expected {[FACTS_FILE, WEIGHTS_FILE]}")
        loaded = type(model).load(folder)
    _require(loaded.get_params() == model.get_params(), "the loaded model has other settings")
    _require(loaded.protocol_ == model.protocol_, "the loaded model has another protocol")
    _require(loaded.facts_ == model.facts_, "the loaded model has other facts about its graph")
    for each in (graph, new):
        _require(torch.equal(loaded.scores(each), model.scores(each)), "the loaded model has other scores")
        _require(np.array_equal(loaded.embed(each), model.embed(each)), "the loaded model has other embeddings")


@_check
def check_leaves_its_graph_alone(case: MethodCase) -> None:
    """Neither fitting nor predicting changes the graph."""
    graph = toy_graph()
    before = graph.fingerprint, graph.split_hash
    model = case.fitted(graph)
    _require((graph.fingerprint, graph.split_hash) == before, "fit changed the graph")
    model.embed(graph), model.predict(graph)
    _require((graph.fingerprint, graph.split_hash) == before, "predicting changed the graph")


# -- it repeats -------------------------------------------------------------------------------------------------


@_check
def check_same_seed_same_bytes(case: MethodCase) -> None:
    """The same seed gives the same file; another seed another; the caller's own chance is neither read nor moved."""
    graph = toy_graph()
    with _chance(1):
        before = _random_states()
        first = _saved_weights(case.fitted(graph))
        _require(_random_states() == before, "fit moved the caller's random stream")
    with _chance(2):
        again = _saved_weights(case.fitted(graph))
    _require(first == again, "two fits with one seed wrote different weights")
    if "seed" in parameters_of(type(case.new())):
        other = _saved_weights(case.fitted(graph, seed=case.new().get_params()["seed"] + 1))
        _require(first != other, "another seed gave the same weights, so the seed is not used")


@_check
def check_resumes_in_the_same_bits(case: MethodCase) -> None:
    """Stopped in the middle and gone on with, training ends as if it had never stopped."""
    graph, whole = toy_graph(), case.new()
    if not isinstance(whole, NeuralMethod):
        raise SkipTest("is not trained in epochs")
    whole.fit(graph)
    middle = whole.epochs // 2

    def stop(row: Mapping[str, float]) -> None:
        if row["epoch"] == middle:
            raise KeyboardInterrupt

    halves = case.new()
    assert isinstance(halves, NeuralMethod)
    with tempfile.TemporaryDirectory() as folder:
        try:
            halves.fit(graph, folder=folder, checkpoint_seconds=0.0, callbacks=[stop])
        except KeyboardInterrupt:
            _require(any(Path(folder).iterdir()), "there is no checkpoint after half of the epochs")
        else:
            raise AssertionError(f"the callbacks never heard of epoch {middle}")
        seen: list[float] = []
        resumed = case.new()
        assert isinstance(resumed, NeuralMethod)
        resumed.fit(graph, folder=folder, resume=True, callbacks=[lambda row: seen.append(row["epoch"])])
    _require(bool(seen) and seen[0] == middle, f"resumed at epoch {seen[:1]}; expected {middle}, the one not finished")
    _require(_same_weights(whole, resumed), "the resumed run ended in other weights")
    _require(_without_time(whole) == _without_time(resumed), "the resumed run has another history")


# -- it reads only what it may ----------------------------------------------------------------------------------


@_check
def check_never_reads_hidden_labels(case: MethodCase) -> None:
    """With every label outside training and validation another one, the weights are the same to the last bit."""
    graph = _quarters()
    hidden = ~(graph.mask("train") | graph.mask("val"))
    poisoned = _quarters(y=torch.where(hidden, 1 - graph.y, graph.y))
    message = "other labels outside training and validation nodes gave other weights"
    _require(_same_weights(case.fitted(graph), case.fitted(poisoned)), message)


@_check
def check_validation_labels_only_select(case: MethodCase) -> None:
    """With ``selection="last"`` the labels of the validation nodes have no influence at all."""
    if "selection" not in parameters_of(type(case.new())):
        raise SkipTest("selects nothing")
    graph = _quarters()
    validation = graph.mask("val")
    poisoned = _quarters(y=torch.where(validation, 1 - graph.y, graph.y))
    first, second = (case.fitted(each, selection="last") for each in (graph, poisoned))
    _require(_same_weights(first, second), "other labels of the validation nodes gave other weights at the last epoch")


@_check
def check_reads_the_sensitive_attribute_only_where_declared(case: MethodCase) -> None:
    """With other sensitive values outside of ``MethodCard.sensitive_nodes`` and validation, the weights are equal."""
    graph = _quarters()
    train, val, test = (graph.mask(split) for split in ("train", "val", "test"))
    declared = case.new().card.sensitive_nodes
    if declared == "all":
        raise SkipTest("declares that it reads everybody's sensitive value")
    hidden = {"none": ~val, "train": ~(train | val), "not held out": test}[declared]
    poisoned = _quarters(sensitive=torch.where(hidden.unsqueeze(1), _others(graph), graph.sensitive))
    message = f"declares sensitive_nodes = {declared!r}, and other sensitive values elsewhere gave other weights"
    _require(_same_weights(case.fitted(graph), case.fitted(poisoned)), message)


@_check
def check_predicts_without_the_sensitive_attribute(case: MethodCase) -> None:
    """Unless it declares ``sensitive_to_predict``, other or unknown sensitive values do not change a score."""
    graph = toy_graph()
    model = case.fitted(graph)
    if model.card.sensitive_to_predict:
        some = torch.where(torch.arange(len(graph.y)) % 2 == 0, graph.sensitive[:, 0], -1)
        _require_predictions(model, toy_graph(sensitive=some), "with half of the sensitive values unknown")
        return
    for what, values in (("other", _others(graph)), ("unknown", torch.full_like(graph.sensitive, -1))):
        same = torch.equal(model.scores(graph), model.scores(toy_graph(sensitive=values)))
        _require(same, f"does not declare sensitive_to_predict, and {what} sensitive values gave other scores")


# -- it takes any graph, or says which --------------------------------------------------------------------------


@_check
def check_survives_a_lack_of_links(case: MethodCase) -> None:
    """A node without neighbours is predicted, and so is a graph without any link."""
    graph = toy_graph()
    _require(not bool((graph.edge_index == 0).any()), "the first node of the toy graph should have no links")
    _require_predictions(case.fitted(graph), graph, "with an isolated node")
    edgeless = toy_graph(edge_index=torch.empty((2, 0), dtype=torch.int64))
    _require_predictions(case.fitted(edgeless), edgeless, "without links")


@_check
def check_two_groups(case: MethodCase) -> None:
    """One sensitive attribute with two groups is what every method takes."""
    graph = toy_graph(240)
    model = case.fitted(graph)
    _require_predictions(model, graph, "with two groups")
    gap = model.evaluate(graph, intervals=False).attributes["s"].gaps["demographic_parity_gap"].value.value
    _require(0 <= gap <= 1, f"the demographic parity gap is {gap}")


@_check
def check_five_groups(case: MethodCase) -> None:
    """Five groups are taken, or refused in words: as the card says."""
    _fits_or_refuses(case, toy_graph(240, num_groups=5), case.new().card.groups == "any", "two groups")


@_check
def check_two_attributes(case: MethodCase) -> None:
    """Two sensitive attributes are taken, or refused in words: as the card says."""
    _fits_or_refuses(case, toy_graph(240, num_attributes=2), case.new().card.groups == "any", "one sensitive attribute")


@_check
def check_three_classes(case: MethodCase) -> None:
    """Three classes are taken, or refused in words: as the card says."""
    _fits_or_refuses(case, toy_graph(240, num_classes=3), case.new().card.classes == "any", "two classes")


@_check
def check_unknown_sensitive_values(case: MethodCase) -> None:
    """Training nodes of unknown group are taken, or refused in words: as the card says."""
    _fits_or_refuses(case, toy_graph(240, unknown=0.3), case.new().card.unknown_sensitive, "unknown")


# -- it does what it is for -------------------------------------------------------------------------------------


@_check
def check_reduces_the_planted_gap(case: MethodCase) -> None:
    """On a generated graph with a planted gap, the demographic parity gap falls by a tenth at least against a GCN.

    The mean of three seeds, on the test nodes; the method has to stay clear of a constant predictor, which has no gap.
    The last epoch counts, if the case says nothing else: a rule that looks at gaps reduces that of a GCN as well.
    """
    if case.new().card.kind == "reference":
        raise SkipTest("is a reference, and mitigates nothing")
    graph, gap_of_gcn = _planted()
    settings = {"selection": "last"} if isinstance(case.new(), NeuralMethod) else {}
    measured = np.array(
        [
            _gap_and_accuracy(case.fitted(graph, **(settings | dict(case.mitigating)), seed=s), graph)
            for s in PLANTED_SEEDS
        ]
    )
    gap, accuracy = measured.mean(axis=0)
    _require(
        gap <= GAP_LEFT * gap_of_gcn,
        f"the demographic parity gap is {gap:.3f}, a GCN's {gap_of_gcn:.3f}; expected at most {GAP_LEFT:g} of it",
    )
    _require(
        accuracy >= LEAST_BALANCED_ACCURACY,
        f"the balanced accuracy is {accuracy:.3f}; expected at least {LEAST_BALANCED_ACCURACY:g}: a predictor that is "
        "nearly constant has no gap, and is of no use",
    )


@_check
def check_its_off_settings_equal_a_gcn(case: MethodCase) -> None:
    """With the settings in ``Method.off`` it scores as a GCN with the same epochs, learning rate and so on.

    Both select as a GCN does, since the method may have a rule of its own.
    """
    off = case.new().off
    if off is None:
        raise SkipTest("has no settings under which it is a plain GCN")
    graph = toy_graph(120)
    method = case.new(**{"selection": GCN().selection, **off})
    shared = {name: value for name, value in method.get_params().items() if name in parameters_of(GCN)}
    expected, found = GCN(**shared).fit(graph).scores(graph), method.fit(graph).scores(graph)
    far = float((expected - found).abs().max())
    _require(far < 1e-4, f"with {dict(off)} its scores are up to {far:.2g} from those of a GCN")


@_check
def check_prepares_a_whole_graph(case: MethodCase) -> None:
    """A preparation gives a valid graph of its own, with the same people, from training labels alone."""
    graph, method = _quarters(), case.new()
    if not isinstance(method, Preparation):
        raise SkipTest("prepares no graph for other methods")
    before = graph.fingerprint, graph.split_hash
    prepared = method.prepare(graph, progress=False).validate()
    _require((graph.fingerprint, graph.split_hash) == before, "prepare changed the given graph")
    for key in ("y", "sensitive"):
        _require(torch.equal(prepared[key], graph[key]), f"the prepared graph has another {key}")
    _require(prepared.split_hash == graph.split_hash, "the prepared graph has another split")
    with tempfile.TemporaryDirectory() as folder:
        loaded = FairGraph.load(prepared.save(Path(folder) / "prepared.safetensors"))
    _require(loaded.fingerprint == prepared.fingerprint, "the prepared graph is another one after save and load")
    _require_predictions(GCN(epochs=5).fit(loaded), loaded, "of a GCN on the prepared graph")

    hidden = ~graph.mask("train")
    poisoned = _quarters(y=torch.where(hidden, 1 - graph.y, graph.y))
    again = case.new()
    assert isinstance(again, Preparation)
    made = again.prepare(poisoned, progress=False)
    same = torch.equal(made.x, prepared.x) and torch.equal(made.edge_index, prepared.edge_index)
    _require(same, "other labels outside the training nodes gave another prepared graph")


# -- its settings -----------------------------------------------------------------------------------------------


@_check
def check_settings_round_trip(case: MethodCase) -> None:
    """Settings are only stored, survive ``clone``, ``set_params`` and JSON, and each is explained and can be parsed."""
    method = case.new()
    settings, kind = method.get_params(), type(method)
    check_parameters(method)
    _require(clone(method).get_params() == settings, "clone changed a setting")
    _require(kind(**json.loads(json.dumps(settings))).get_params() == settings, "JSON changed a setting")
    _require(set(parameters_of(kind)) == set(settings), "a setting was not declared with parameter(...)")
    for name, value in settings.items():
        marker = object()
        stored = case.new(**{name: marker}).get_params()[name]
        _require(stored is marker, f"__init__ changed {name} instead of storing it")
        _require(clone(method).set_params(**{name: value}).get_params() == settings, f"set_params changed {name}")
        _require(bool(parameters_of(kind)[name].help), f"{name} has no help")
        _require(parse_parameter(kind, name, str(value)) == value, f"{name} = {value!r} cannot be given as text")


@_check
def check_settings_are_bounded(case: MethodCase) -> None:
    """A value out of bounds is refused by ``fit`` before anything is computed; the search stays within bounds."""
    graph = toy_graph()
    for name, allowed in parameters_of(type(case.new())).items():
        for bound, beyond in ((allowed.low, -1), (allowed.high, 1)):
            if bound is not None:
                error = _refusal(
                    functools.partial(case.fitted, graph, **{name: bound + beyond}), f"{name} out of bounds"
                )
                _require(name in str(error), f"{name} out of bounds was refused without being named: {error}")
        if allowed.search is not None:
            ends = [end for end in (allowed.search.low, allowed.search.high) if end is not None]
            for value in (*ends, *allowed.search.choices):
                check_parameters(case.new(**{name: value}))


@_check
def check_published_settings_are_allowed(case: MethodCase) -> None:
    """Every setting in ``settings/<name>.toml`` is one of the method's, and within its bounds."""
    published = all_published_settings(case.new().card.name)
    if not published:
        raise SkipTest("publishes no settings")
    from fairsad import datasets

    for graph, settings in published.items():
        _require(graph in datasets.names(), f"settings are published for {graph!r}, which is no benchmark")
        unknown = set(settings) - set(parameters_of(type(case.new())))
        _require(not unknown, f"the settings published for {graph} have {', '.join(sorted(unknown))}, which it has not")
        check_parameters(case.make(**settings))


# -- helpers ----------------------------------------------------------------------------------------------------


def _require(kept: bool, message: str) -> None:
    """An assertion that is not taken out by ``python -O``."""
    if not kept:
        raise AssertionError(message)


def _refusal(attempt: Callable[[], Any], what: str) -> FairsadError:
    """The error that an attempt is answered with: one line, of this package."""
    try:
        attempt()
    except FairsadError as error:
        _require("\n" not in str(error), f"{what} was refused in more than one line: {error}")
        return error
    except Exception as error:
        raise AssertionError(f"{what} ended in {type(error).__name__} ({error}); expected a FairsadError") from error
    raise AssertionError(f"{what} was not refused")


def _fits_or_refuses(case: MethodCase, graph: FairGraph, supported: bool, words: str) -> None:
    """The card's word is kept: the graph is fitted, or a ``ProtocolError`` says what is supported instead."""
    if supported:
        model = case.fitted(graph)
        _require_predictions(model, graph, "on a graph that the card supports")
        model.evaluate(graph, intervals=False)
        return
    error = _refusal(lambda: case.fitted(graph), "a graph that the card does not support")
    _require(isinstance(error, ProtocolError), f"refused by {type(error).__name__}; expected a ProtocolError")
    _require(words in str(error), f"the refusal does not say {words!r}: {error}")


def _require_predictions(model: Method, graph: FairGraph, when: str) -> None:
    """Scores, probabilities, classes and embeddings have their shapes, are finite and agree."""
    nodes, classes = graph.num_nodes, len(model.facts_.label_names)
    scores, probabilities, predicted = model.scores(graph), model.predict_proba(graph), model.predict(graph)
    shape = (nodes,) if classes == 2 else (nodes, classes)
    _require(tuple(scores.shape) == shape, f"{when} the scores have shape {tuple(scores.shape)}; expected {shape}")
    _require(bool(torch.isfinite(scores).all()), f"{when} some scores are not finite")
    _require(probabilities.shape == (nodes, classes), f"{when} the probabilities have shape {probabilities.shape}")
    _require(np.allclose(probabilities.sum(axis=1), 1.0), f"{when} some probabilities do not add up to 1")
    decided = (scores > 0).long() if classes == 2 else scores.argmax(dim=1)
    _require(np.array_equal(predicted, decided.cpu().numpy()), f"{when} predictions and scores disagree")
    embedded = model.embed(graph)
    _require(embedded.ndim == 2 and len(embedded) == nodes, f"{when} embed gave shape {embedded.shape}")
    _require(bool(np.isfinite(embedded).all()), f"{when} some embeddings are not finite")


def _quarters(**changes: Any) -> FairGraph:
    """A toy graph in which a quarter of the nodes trains, validates, tests, and is in no part of the split."""
    part = torch.randperm(160, generator=torch.Generator().manual_seed(1)) % 4
    masks = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part == 2}
    return toy_graph(160, **(masks | changes))


def _others(graph: FairGraph) -> Tensor:
    """Sensitive values drawn anew: not just flipped, which some losses cannot tell from the first."""
    return torch.randint(2, graph.sensitive.shape, generator=torch.Generator().manual_seed(2))


def _same_weights(first: Method, second: Method) -> bool:
    one, other = first._weights(), second._weights()
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def _saved_weights(model: Method) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return (model.save(folder) / WEIGHTS_FILE).read_bytes()


def _without_time(model: NeuralMethod) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in model.history_]


@contextmanager
def _chance(seed: int) -> Iterator[None]:
    """Other states of the caller's random streams, for a while."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def _random_states() -> tuple[object, ...]:
    numbers: dict[str, Any] = np.random.get_state(legacy=False)
    state = numbers["state"]
    return random.getstate(), state["key"].tobytes(), state["pos"], torch.get_rng_state().numpy().tobytes()


@functools.cache
def _planted() -> tuple[FairGraph, float]:
    """The graph with the planted gap, and the gap of a GCN on it."""
    graph = load_graph(PLANTED)
    models = [GCN(**UNCONSTRAINED, seed=seed).fit(graph) for seed in PLANTED_SEEDS]
    return graph, float(np.mean([_gap_and_accuracy(model, graph)[0] for model in models]))


def _gap_and_accuracy(model: Method, graph: FairGraph) -> tuple[float, float]:
    """Demographic parity gap and balanced accuracy on the test nodes."""
    evaluation = model.evaluate(graph, intervals=False)
    gap = evaluation.attributes["group"].gaps["demographic_parity_gap"].value.value
    return gap, evaluation.overall["balanced_accuracy"].value.value
