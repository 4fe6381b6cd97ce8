"""Each check is judged by a method that breaks the one promise, and by one that keeps it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from unittest import SkipTest

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import Preparation
from fairsad.methods.constant import Constant
from fairsad.methods.gcn import GCN
from fairsad.methods.parameters import Search, parameter
from fairsad.testing import CHECKS, MethodCase, method_suite
from fairsad.testing.method_suite import Check

QUICK: dict[str, Any] = {"epochs": 40, "learning_rate": 0.02}


class Broken(GCN):
    """What the methods below have in common: a card that promises everything, and one fault."""

    card = replace(GCN.card, name="broken", title="Broken", kind="in-processing")


class LearnsNothing(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        super().fit(graph, **options)
        for weight in self.model_.parameters():
            nn.init.zeros_(weight)
        return self


class ForgetsToReturnItself(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        super().fit(graph, **options)
        return GCN(**QUICK).fit(graph)  # type: ignore[return-value]


class TakesAnyColumns(Broken):
    def scores(self, graph: FairGraph) -> Tensor:
        renamed = graph.clone()
        renamed.feature_names = self.facts_.feature_names
        return super().scores(renamed)


class PredictsNotANumber(Broken):
    def scores(self, graph: FairGraph) -> Tensor:
        return super().scores(graph) / 0.0 * 0.0


class LosesAWeight(Broken):
    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        super()._restore({name: torch.zeros_like(weight) for name, weight in weights.items()})


class LeavesAFileMore(Broken):
    def save(self, folder: Any) -> Path:
        target = super().save(folder)
        (target / "model.pkl").write_bytes(b"")
        return target


class PredictsBeforeFit(Broken):
    def _check_fitted(self) -> None:
        pass

    def predict(self, graph: FairGraph) -> npt.NDArray[np.int64]:
        return np.zeros(graph.num_nodes, dtype=np.int64)


class ChangesItsGraph(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        graph.x /= 2
        return super().fit(graph, **options)


class ForgetsItsSeed(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        super().fit(graph, **options)
        with torch.no_grad():
            next(self.model_.parameters()).add_(1e-3 * torch.rand(()))
        return self


class HasOneSeedOnly(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        given, self.seed = self.seed, 0
        super().fit(graph, **options)
        self.seed = given
        return self


class SeedsEverybody(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        np.random.seed(self.seed)
        return super().fit(graph, **options)


class StartsAgain(Broken):
    def fit(self, graph: FairGraph, *, resume: bool = False, **options: Any) -> Self:
        return super().fit(graph, **options)


class ForgetsItsMomentum(Broken):
    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Any) -> Any:
        procedure = super()._procedure(model, graph, validator)
        (optimiser,) = procedure.optimisers.values()
        optimiser.load_state_dict = lambda state: None  # type: ignore[method-assign]
        return procedure


class ReadsTestLabels(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        super().fit(graph, **options)
        with torch.no_grad():
            next(self.model_.parameters()).add_(1e-6 * graph.y[graph.mask("test")].sum())
        return self


class TrainsOnValidationLabels(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        both = graph.clone()
        both.train_mask = graph.mask("train") | graph.mask("val")
        return super().fit(both, **options)


class ReadsEverybodysGroup(Broken):
    """Declares that it reads nobody's."""

    def fit(self, graph: FairGraph, **options: Any) -> Self:
        super().fit(graph, **options)
        with torch.no_grad():
            next(self.model_.parameters()).add_(1e-6 * graph.sensitive[graph.mask("test")].sum())
        return self


class ReadsTheGroupsOfTheOthers(ReadsEverybodysGroup):
    card = replace(Broken.card, sensitive_nodes="train")


class PredictsByGroup(Broken):
    def scores(self, graph: FairGraph) -> Tensor:
        return super().scores(graph) + graph.sensitive[:, 0].clamp(0)


class NeedsTheGroupToPredict(PredictsByGroup):
    card = replace(Broken.card, sensitive_to_predict=True)

    def scores(self, graph: FairGraph) -> Tensor:
        return super().scores(graph) + torch.where(graph.sensitive[:, 0] < 0, torch.nan, 0.0)


class NeedsLinks(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        if not graph.num_edges:
            raise ValueError("needs links")
        return super().fit(graph, **options)


class TakesTheSimplestGraphOnly(Broken):
    """Its card says that it takes all."""

    def fit(self, graph: FairGraph, **options: Any) -> Self:
        if graph.sensitive.size(1) > 1 or bool((graph.sensitive < 0).any()) or int(graph.sensitive.max()) > 1:
            raise ValueError("this is too difficult")
        if graph.num_classes > 2:
            raise ValueError("this is too difficult")
        return super().fit(graph, **options)


class RefusesLate(Broken):
    """Its card says two of everything, and it fits whatever comes."""

    card = replace(Broken.card, groups="two", classes="two", unknown_sensitive=False)

    def _check_support(self, graph: FairGraph) -> None:
        pass


class RefusesWithoutWords(RefusesLate):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        raise ProtocolError("this method does not take this graph.")


class PredictsOneClass(Broken):
    def scores(self, graph: FairGraph) -> Tensor:
        return super().scores(graph).sigmoid() + 1


class IsNotAGCN(Broken):
    off = {"weight_decay": 0.5}  # noqa: RUF012

    def scores(self, graph: FairGraph) -> Tensor:
        return 1.01 * super().scores(graph)


@dataclass(kw_only=True, eq=False, repr=False)
class Prepares(Broken, Preparation):
    """Shrinks the features; the faults are below."""

    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        prepared = graph.clone()
        prepared.x = graph.x / 2
        return prepared


class PreparesByValidationLabels(Prepares):
    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        prepared = super().prepare(graph)
        prepared.x += graph.y[graph.mask("val")].sum()
        return prepared


class PreparesTheGivenGraph(Prepares):
    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        graph.x /= 2
        return graph


class PreparesAnotherSplit(Prepares):
    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        prepared = super().prepare(graph)
        prepared.train_mask = graph.mask("train") | graph.mask("test")
        prepared.test_mask = torch.zeros_like(prepared.train_mask)
        return prepared


@dataclass(kw_only=True, eq=False, repr=False)
class ChangesASetting(Broken):
    strength: float = parameter(1.0, "How much.", low=0.0)

    def __post_init__(self) -> None:
        self.strength = max(0.0, self.strength) if isinstance(self.strength, float) else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class HasASettingNobodyKnows(Broken):
    strength: float = 1.0


@dataclass(kw_only=True, eq=False, repr=False)
class SearchesOutOfBounds(Broken):
    strength: float = parameter(1.0, "How much.", low=0.0, high=2.0, search=Search(0.1, 10.0))


class ChecksNothing(Broken):
    def fit(self, graph: FairGraph, **options: Any) -> Self:
        defaults = GCN().get_params() | {"epochs": 1}
        self.__dict__.update(defaults)
        return super().fit(graph, **options)


BROKEN = [
    ("check_learns_a_toy_graph", LearnsNothing, "the accuracy on the toy graph is 0.5"),
    ("check_learns_a_toy_graph", ForgetsToReturnItself, "fit returned something else"),
    ("check_predicts_on_a_new_graph", TakesAnyColumns, "other features than those of training was not refused"),
    ("check_predicts_on_a_new_graph", PredictsNotANumber, "on a new graph some scores are not finite"),
    ("check_saves_and_loads", LosesAWeight, "the loaded model has other scores"),
    ("check_saves_and_loads", LeavesAFileMore, r"save wrote \['model.json', 'model.pkl'"),
    ("check_saves_and_loads", PredictsBeforeFit, "predicting before fit was not refused"),
    ("check_leaves_its_graph_alone", ChangesItsGraph, "fit changed the graph"),
    ("check_same_seed_same_bytes", ForgetsItsSeed, "two fits with one seed wrote different weights|random stream"),
    ("check_same_seed_same_bytes", HasOneSeedOnly, "another seed gave the same weights"),
    ("check_same_seed_same_bytes", SeedsEverybody, "fit moved the caller's random stream"),
    ("check_resumes_in_the_same_bits", StartsAgain, r"resumed at epoch \[0\]; expected 20"),
    (
        "check_resumes_in_the_same_bits",
        ForgetsItsMomentum,
        "the resumed run (ended in other weights|has another history)",
    ),
    ("check_never_reads_hidden_labels", ReadsTestLabels, "other labels outside training and validation"),
    ("check_validation_labels_only_select", TrainsOnValidationLabels, "other labels of the validation nodes"),
    ("check_reads_the_sensitive_attribute_only_where_declared", ReadsEverybodysGroup, "sensitive_nodes = 'none'"),
    ("check_reads_the_sensitive_attribute_only_where_declared", ReadsTheGroupsOfTheOthers, "sensitive_nodes = 'train'"),
    ("check_predicts_without_the_sensitive_attribute", PredictsByGroup, "other sensitive values gave other scores"),
    ("check_predicts_without_the_sensitive_attribute", NeedsTheGroupToPredict, "half of the sensitive values unknown"),
    ("check_survives_a_lack_of_links", NeedsLinks, "needs links"),
    ("check_two_groups", PredictsNotANumber, "with two groups some scores are not finite"),
    *(
        (check, fault, message)
        for check in (
            "check_five_groups",
            "check_two_attributes",
            "check_three_classes",
            "check_unknown_sensitive_values",
        )
        for fault, message in (
            (TakesTheSimplestGraphOnly, "this is too difficult"),
            (RefusesLate, "a graph that the card does not support was not refused"),
            (RefusesWithoutWords, "the refusal does not say"),
        )
    ),
    ("check_reduces_the_planted_gap", Broken, "expected at most 0.9 of it"),
    ("check_reduces_the_planted_gap", PredictsOneClass, "the balanced accuracy is 0.500; expected at least 0.55"),
    ("check_its_off_settings_equal_a_gcn", IsNotAGCN, "from those of a GCN"),
    ("check_prepares_a_whole_graph", PreparesByValidationLabels, "other labels outside the training nodes"),
    ("check_prepares_a_whole_graph", PreparesTheGivenGraph, "prepare changed the given graph"),
    ("check_prepares_a_whole_graph", PreparesAnotherSplit, "the prepared graph has another split"),
    ("check_settings_round_trip", ChangesASetting, "__init__ changed strength instead of storing it"),
    ("check_settings_round_trip", HasASettingNobodyKnows, r"was not declared with parameter\(...\)"),
    ("check_settings_are_bounded", SearchesOutOfBounds, "strength = 10.0; expected a number from 0 to 2"),
    ("check_settings_are_bounded", ChecksNothing, "out of bounds was not refused"),
]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("name", "broken", "message"), BROKEN)
def test_a_check_finds_the_method_that_breaks_it(name: str, broken: type[Broken], message: str) -> None:
    with pytest.raises((AssertionError, ValueError, DataError), match=message):
        check(name)(MethodCase(broken, QUICK))


@pytest.mark.parametrize("each", CHECKS, ids=lambda each: each.__name__)
def test_a_method_that_keeps_its_promises_passes(each: Check) -> None:
    case = MethodCase(Prepares, QUICK)
    if each.__name__ in ("check_reduces_the_planted_gap", "check_published_settings_are_allowed"):
        return  # it mitigates nothing, and publishes nothing
    each(case)


def test_what_a_method_does_not_promise_is_skipped_with_a_reason() -> None:
    for name, reason in (
        ("check_resumes_in_the_same_bits", "is not trained in epochs"),
        ("check_validation_labels_only_select", "selects nothing"),
        ("check_reduces_the_planted_gap", "mitigates nothing"),
        ("check_its_off_settings_equal_a_gcn", "no settings under which it is a plain GCN"),
        ("check_prepares_a_whole_graph", "prepares no graph"),
    ):
        with pytest.raises(SkipTest, match=reason):
            check(name)(MethodCase(Constant))
    with pytest.raises(SkipTest, match="for a reason"):
        check("check_two_groups")(MethodCase(LearnsNothing, exempt={"check_two_groups": "for a reason"}))


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({"my graph": {}}, "settings are published for 'my graph', which is no benchmark"),
        ({"german": {"speed": 1}}, "the settings published for german have speed, which it has not"),
        ({"german": {"dropout": 2.0}}, "dropout = 2.0; expected a number from 0 to 0.95"),
    ],
)
def test_published_settings_have_to_be_allowed(
    monkeypatch: pytest.MonkeyPatch, published: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(method_suite, "all_published_settings", lambda name: published)
    with pytest.raises((AssertionError, DataError), match=message):
        check("check_published_settings_are_allowed")(MethodCase(GCN))


def test_every_check_has_a_name_and_says_what_is_promised() -> None:
    names = [each.__name__ for each in CHECKS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("check_") and each.__doc__ for name, each in zip(names, CHECKS, strict=True))
    assert {name for name, _, _ in BROKEN} == {*names} - {"check_published_settings_are_allowed"}


def test_it_can_be_used_without_pytest() -> None:
    code = """
import sys
from fairsad.methods.constant import Constant
from fairsad.testing import CHECKS, MethodCase
try:
    CHECKS[0](MethodCase(Constant))
except AssertionError as error:
    print(error)
print("pytest" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "the accuracy on the toy graph is 0.48; expected more than 0.8\nFalse\n"


def check(name: str) -> Check:
    (found,) = (each for each in CHECKS if each.__name__ == name)
    return found
