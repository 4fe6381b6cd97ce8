"""Search for settings on the validation nodes: as much utility and as small a gap as can be had together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairsad.errors import DataError, ProtocolError
from fairsad.evaluation.compare import pareto_front
from fairsad.evaluation.scores import find_metric
from fairsad.experiments.backends import Backend, Ended, InProcess
from fairsad.experiments.execute import data_of
from fairsad.experiments.plan import Row, settings_on
from fairsad.experiments.store import Result, Trial

if TYPE_CHECKING:
    from fairsad.methods.parameters import Search

JOURNAL = "search.log"
# From this share of equal answers on, a predictor counts as nearly constant and is not chosen.
MAJORITY_SHARE = 0.95


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried.

    Attributes:
        number: When.
        settings: Values of the settings that are searched.
        utility: On the validation nodes, mean over seeds.
        gap: On the validation nodes, mean over seeds.
        majority: Largest share of equal answers, over the seeds.
        on_front: Whether no other candidate is better in both.
    """

    number: int
    settings: dict[str, Any]
    utility: float
    gap: float
    majority: float
    on_front: bool = False

    @property
    def nearly_constant(self) -> bool:
        """Whether a seed gives almost everybody the same answer."""
        return self.majority >= MAJORITY_SHARE


def search_space(method: str) -> dict[str, Search]:
    """Where to look for each setting of a method, as declared beside it.

    Raises:
        DataError: The method has no setting to search for.
    """
    from fairsad.methods.parameters import parameters_of
    from fairsad.methods.registry import method_class

    space = {name: each.search for name, each in parameters_of(method_class(method)).items() if each.search is not None}
    if not space:
        raise DataError(f"{method} declares no setting to search for. Choose another method ('fairsad methods').")
    return space


def tune(
    graph: str,
    method: str,
    folder: Path,
    *,
    trials: int = 50,
    seeds: int = 1,
    utility: str = "auc",
    gap: str = "demographic_parity_gap",
    fixed: Mapping[str, Any] | None = None,
    backend: Backend | None = None,
    listener: Callable[[Candidate | str], None] | None = None,
) -> list[Candidate]:
    """Try settings until there are so many; what an earlier search in the folder tried counts.

    The first candidate is the method as it is: the settings published for the graph, or the method's own. Test nodes
    are never looked at.

    Args:
        graph: As on the command line.
        method: Name of the method in the registry.
        folder: Where the journal of the search is and goes.
        trials: Candidates in all.
        seeds: Runs of each, averaged.
        utility: Metric to raise.
        gap: Metric to lower.
        fixed: Settings that are not searched for.
        backend: Where to compute.
        listener: Called with every candidate, and with a line about every failure.

    Returns:
        All candidates with both metrics, those on the front marked.

    Raises:
        ProtocolError: The folder has the search of something else.
    """
    from fairsad.sources import load_graph

    for name, kind in ((utility, "utility"), (gap, "gap")):
        if find_metric(name).kind != kind:
            raise DataError(f"{name!r} is not a {kind}; expected one. See docs/evaluation.md.")
    data = load_graph(graph)
    fixed = dict(fixed or {})
    space = {name: each for name, each in search_space(method).items() if name not in fixed}
    start, _ = settings_on(Row(method, method, fixed), data.name, {})
    identity = {
        "graph": graph,
        "data": data_of(data),
        "method": method,
        "seeds": seeds,
        "utility": utility,
        "gap": gap,
        "start": start,
        "space": sorted(space),
    }
    study = _open(folder / JOURNAL, identity)
    if not study.trials:
        study.enqueue_trial({name: start[name] for name in space})

    asked: dict[str, Any] = {}
    ended: dict[str, list[Ended]] = {}
    tell = listener or (lambda candidate: None)

    def wanted() -> Iterator[Trial]:
        from optuna.trial import TrialState

        while sum(each.state in (TrialState.COMPLETE, TrialState.FAIL) for each in study.trials) + len(asked) < trials:
            candidate = study.ask()
            settings = start | {name: _suggest(candidate, name, each, start[name]) for name, each in space.items()}
            runs = [
                Trial(graph, method, f"candidate {candidate.number}", seed, settings, {}, data_of(data), False, "val")
                for seed in range(seeds)
            ]
            asked[runs[0].label] = candidate
            yield from runs

    for event in (backend or InProcess()).run(wanted()):
        if isinstance(event, Ended):
            label = event.result.trial.label
            ended.setdefault(label, []).append(event)
            if len(ended[label]) == seeds:
                tell(_tell(study, asked.pop(label), ended.pop(label), utility, gap))
    return _with_front([_candidate(each) for each in study.trials if each.state.name == "COMPLETE"])


def choose(candidates: Sequence[Candidate], max_gap: float | None = None) -> Candidate:
    """The candidate to go on with: of those within the gap the most utility, or else the most utility minus gap.

    Nearly constant predictors are left out, whatever they score: their gap is small because they decide nothing.

    Raises:
        ProtocolError: None is left.
    """
    fit = [each for each in candidates if not each.nearly_constant]
    if max_gap is not None:
        fit = [each for each in fit if each.gap <= max_gap]
    if not fit:
        limit = "" if max_gap is None else f" with a gap of at most {max_gap:g}"
        way_out = "choose another --method" if max_gap is None else "allow a larger --max-gap"
        raise ProtocolError(
            f"none of {len(candidates)} candidates{limit} is more than a nearly constant predictor. "
            f"Try more candidates with --trials, or {way_out}."
        )
    return max(fit, key=lambda each: each.utility if max_gap is not None else each.utility - each.gap)


def _open(journal: Path, identity: Mapping[str, Any]) -> Any:
    """The search of a journal. Each line of it is one step: a killed search loses the running candidates only."""
    optuna = _optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    journal.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name="fairsad",
        directions=["maximize", "minimize"],
        sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True),
        load_if_exists=True,
    )
    found = study.user_attrs.get("identity")
    if found is None:
        study.set_user_attr("identity", dict(identity))
    elif found != dict(identity):
        differing = next(name for name in identity if found.get(name) != identity[name])
        raise ProtocolError(
            f"{journal} is the journal of another search: its {differing} is {found.get(differing)!r}, not "
            f"{identity[differing]!r}. Choose another folder with --out."
        )
    return study


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise DataError(
            "searching needs the package optuna, which is not installed. Run: pip install 'fairsad[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _suggest(candidate: Any, name: str, space: Search, start: Any) -> Any:
    if space.choices:
        return candidate.suggest_categorical(name, space.choices)
    assert space.low is not None
    assert space.high is not None
    if isinstance(start, int):
        return candidate.suggest_int(name, int(space.low), int(space.high), log=space.log)
    return candidate.suggest_float(name, space.low, space.high, log=space.log)


def _tell(study: Any, asked: Any, runs: Sequence[Ended], utility: str, gap: str) -> Candidate | str:
    from optuna.trial import TrialState

    results = [run.result for run in runs]
    problem = _problem(results, utility, gap)
    if problem:
        study.tell(asked, state=TrialState.FAIL)
        return f"candidate {asked.number}: {problem}"
    shares = [
        float(np.bincount(run.predictions.predictions).max() / len(run.predictions.predictions))
        for run in runs
        if run.predictions is not None
    ]
    asked.set_user_attr("majority", max(shares))
    study.tell(asked, [statistics.fmean(result.metrics[name] for result in results) for name in (utility, gap)])
    return _candidate(study.trials[asked.number])


def _problem(results: Sequence[Result], utility: str, gap: str) -> str:
    """Why a candidate has no numbers."""
    for result in results:
        if not result.done:
            return result.error
        for name in (utility, gap):
            if name not in result.metrics or result.metrics[name] != result.metrics[name]:
                return f"{name} is not defined on the validation nodes"
    return ""


def _candidate(told: Any) -> Candidate:
    utility, gap = told.values
    return Candidate(told.number, dict(told.params), utility, gap, told.user_attrs["majority"])


def _with_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    front = pareto_front([each.utility for each in candidates], [each.gap for each in candidates])
    return [replace(each, on_front=bool(on)) for each, on in zip(candidates, front, strict=True)]
