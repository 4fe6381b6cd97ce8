"""The folder of a study: one file per trial, each written whole, so that a run can be killed and gone on from.

.. code-block:: text

    study.json              what the study is, and every trial it wants
    trials/<key>.parquet    predictions for the measured nodes, written first
    trials/<key>.json       the result of a finished or failed trial

A trial is finished when its JSON file is there, and not before.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from fairsad.errors import DataError
from fairsad.evaluation.predictions import Predictions
from fairsad.files import whole_file, without_nan
from fairsad.groups import Groups

if TYPE_CHECKING:
    import numpy.typing as npt

STUDY_FORMAT, RESULT_FORMAT = "fairsad-study-1", "fairsad-trial-1"
STUDY_FILE, TRIALS_FOLDER = "study.json", "trials"
KEY_LENGTH = 16
# Columns of a predictions file; each sensitive attribute has a column of its own behind the prefix.
NODE, LABEL, PREDICTION, SCORE, SENSITIVE_PREFIX = "node", "label", "prediction", "score", "sensitive_"
# Between another attribute than the first and the metric that is taken by it.
ATTRIBUTE_SEPARATOR = ":"


@dataclass(frozen=True)
class Trial:
    """One run: a method with all its settings, on a graph, from a seed.

    Attributes:
        graph: The graph, as on the command line.
        method: Name of the method in the registry.
        label: Name of the row in tables, such as ``"FairSAD w/o D"``.
        seed: Seed of the run.
        settings: Every setting of the method, explicitly, so that another default is another trial; not the seed.
        point: Coordinates in a sweep, such as ``{"alpha": 0.1, "beta": 1.0}``; empty otherwise.
        data: Fingerprint of the graph and hash of its split, so that changed data make another trial.
        detail: Whether the whole evaluation, with intervals, and the probe are kept besides the metrics.
        split: Nodes that are measured: ``"test"``, or ``"val"`` where settings are searched for.
    """

    graph: str
    method: str
    label: str
    seed: int
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    point: dict[str, float] = field(default_factory=dict, hash=False)
    data: str = ""
    detail: bool = True
    split: str = "test"

    @property
    def key(self) -> str:
        """A short hash of everything that is in the trial: the name of its files."""
        return _short_hash(asdict(self))

    @property
    def work(self) -> str:
        """A short hash of what is computed: equal for trials that differ in their place in a table only."""
        return _short_hash({name: value for name, value in asdict(self).items() if name not in ("label", "point")})

    def __str__(self) -> str:
        at = f" at {show_point(self.point)}" if self.point else ""
        return f"{self.label} on {self.graph}{at}, seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """What a study is, and the trials that it wants.

    Attributes:
        name: Of the study, such as ``"comparison"``.
        title: For the heading of a report.
        datasets: Graphs, in the order of the tables.
        methods: Labels of the rows, in the order of the tables.
        seeds: Seeds of each row.
        trials: Every trial that is wanted; those without a file are missing.
        versions: Of the packages that the study was planned with.
        published: Name of the file of published numbers that belong to it; empty without.
        note: What the reader should know about the study.
        utility: Utility that its figures show.
        gap: Gap that its figures show.
        reference: Label of the row that differences are taken from; empty for the GCN, or else the first row.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    versions: dict[str, str] = field(default_factory=dict)
    published: str = ""
    note: str = ""
    utility: str = "auc"
    gap: str = "demographic_parity_gap"
    reference: str = ""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """What is swept; nothing in a plain table."""
        return tuple(dict.fromkeys(name for trial in self.trials for name in trial.point))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"format": STUDY_FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """What ``to_dict`` and JSON made of it."""
        if content.get("format") != STUDY_FORMAT:
            raise DataError(
                f"the study has format {content.get('format')!r}; expected {STUDY_FORMAT!r}. Start it in a new folder."
            )
        facts = {name: value for name, value in content.items() if name != "format"}
        for name in ("datasets", "methods", "seeds"):
            facts[name] = tuple(facts[name])
        facts["trials"] = tuple(Trial(**trial) for trial in facts["trials"])
        return cls(**facts)


@dataclass(frozen=True)
class Result:
    """What became of a trial.

    Attributes:
        trial: Which one.
        status: Whether it ended well.
        error: Of a failed trial, what happened, in one line.
        traceback: Of a failed trial, where it happened.
        metrics: On the measured nodes, as fractions: utility, and the gaps of the first sensitive attribute; those of
            any other attribute behind ``"attribute:"``. NaN where undefined.
        evaluation: The whole evaluation, as ``Evaluation.to_dict()`` gives it.
        protocol: How the numbers came about.
        seconds: Of training.
        peak_mb: Largest memory of the process during the trial, in MiB; NaN where it cannot be measured.
        probe: Where the sensitive attribute can be read, as ``Probe.to_dict()`` gives it, where it was probed.
        validation: Metrics of the kept evaluation on the validation nodes.
        folder: Where the predictions are; set by the store.
    """

    trial: Trial
    status: Literal["done", "failed"]
    error: str = ""
    traceback: str = field(default="", repr=False)
    metrics: dict[str, float] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict, repr=False)
    protocol: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: float = math.nan
    peak_mb: float = math.nan
    probe: dict[str, Any] | None = field(default=None, repr=False)
    validation: dict[str, float] = field(default_factory=dict, repr=False)
    folder: Path | None = field(default=None, repr=False, compare=False)

    @property
    def done(self) -> bool:
        """Whether there are numbers."""
        return self.status == "done"

    def predictions(self) -> Predictions:
        """Labels, predictions, scores and groups of the test nodes.

        Raises:
            DataError: The trial failed, or its predictions file is missing.
        """
        if not self.done or self.folder is None:
            raise DataError(f"there are no predictions of {self.trial}: it {self.error or 'is not in a store'}.")
        return read_predictions(self.folder / f"{self.trial.key}.parquet")[1]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; what is not a number becomes null."""
        content = {name: value for name, value in vars(self).items() if name not in ("trial", "folder")}
        cleaned: dict[str, Any] = without_nan({"format": RESULT_FORMAT, "trial": asdict(self.trial), **content})
        return cleaned

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], folder: Path | None = None) -> Self:
        """What ``to_dict`` and JSON made of it."""
        if content.get("format") != RESULT_FORMAT:
            raise DataError(
                f"a trial has format {content.get('format')!r}; expected {RESULT_FORMAT!r}. Run it in a new folder."
            )
        facts = {name: value for name, value in content.items() if name != "format"}
        facts["trial"] = Trial(**facts["trial"])
        for name in ("metrics", "validation"):
            facts[name] = {key: _number(value) for key, value in facts[name].items()}
        for name in ("seconds", "peak_mb"):
            facts[name] = _number(facts[name])
        return cls(**facts, folder=folder)


class Store:
    """The folder of a study.

    Args:
        folder: Where it is; made when something is written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.trials_folder = self.folder / TRIALS_FOLDER

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    @property
    def has_study(self) -> bool:
        """Whether a study was started here."""
        return (self.folder / STUDY_FILE).is_file()

    @property
    def study(self) -> Study:
        """The study that was started here.

        Raises:
            DataError: There is none, or it cannot be read.
        """
        if not self.has_study:
            raise DataError(
                f"{self.folder} is not the folder of a study: {STUDY_FILE} is missing. "
                "Name a folder that 'fairsad compare' or 'fairsad reproduce' wrote."
            )
        return Study.from_dict(_read_json(self.folder / STUDY_FILE))

    def write_study(self, study: Study) -> None:
        """Say what the study is. Trials that are there already stay."""
        _write_json(study.to_dict(), self.folder / STUDY_FILE)

    def read(self, trial: Trial) -> Result | None:
        """The result of a trial, or nothing if it has not ended."""
        path = self.trials_folder / f"{trial.key}.json"
        return Result.from_dict(_read_json(path), self.trials_folder) if path.is_file() else None

    def results(self) -> list[Result]:
        """Results of the trials that the study wants, in its order; of all that are there, without a study."""
        if self.has_study:
            return [result for trial in self.study.trials if (result := self.read(trial)) is not None]
        paths = sorted(self.trials_folder.glob("*.json"))
        return [Result.from_dict(_read_json(path), self.trials_folder) for path in paths]

    def predictions(self, trial: Trial) -> tuple[npt.NDArray[np.int64], Predictions]:
        """Node numbers, and what was predicted for them in a finished trial."""
        return read_predictions(self.trials_folder / f"{trial.key}.parquet")

    def missing(self) -> list[Trial]:
        """Trials that the study wants and that have not ended."""
        return [trial for trial in self.study.trials if not (self.trials_folder / f"{trial.key}.json").is_file()]

    def write(
        self, result: Result, predictions: Predictions | None = None, nodes: npt.NDArray[np.int64] | None = None
    ) -> Result:
        """Keep a result; its predictions are written before it.

        Returns:
            The result, knowing its folder.
        """
        key = result.trial.key
        if predictions is not None:
            rows = np.arange(len(predictions.labels)) if nodes is None else nodes
            write_predictions(predictions, rows, self.trials_folder / f"{key}.parquet")
        _write_json(result.to_dict(), self.trials_folder / f"{key}.json")
        return Result(**(vars(result) | {"folder": self.trials_folder}))

    def forget(self, trials: Iterable[Trial]) -> None:
        """Take results away, so that their trials run again."""
        for trial in trials:
            for ending in ("json", "parquet"):
                (self.trials_folder / f"{trial.key}.{ending}").unlink(missing_ok=True)


def write_predictions(predictions: Predictions, nodes: npt.NDArray[np.int64], path: Path) -> None:
    """Write one row per node, with the names of classes and groups in the file's own metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {NODE: nodes, LABEL: predictions.labels, PREDICTION: predictions.predictions}
    if predictions.scores is not None:
        scores = predictions.scores
        columns |= (
            {SCORE: scores}
            if scores.ndim == 1
            else {f"{SCORE}_{number}": scores[:, number] for number in range(scores.shape[1])}
        )
    columns |= {f"{SENSITIVE_PREFIX}{name}": groups.codes for name, groups in predictions.partitions.items()}
    facts = {
        "class_names": list(predictions.class_names),
        "positive": predictions.positive,
        "groups": {name: list(groups.names) for name, groups in predictions.partitions.items()},
    }
    table = pa.table(columns).replace_schema_metadata({"fairsad": json.dumps(facts, ensure_ascii=False)})
    with whole_file(path) as partial:
        pq.write_table(table, partial)


def read_predictions(path: Path) -> tuple[npt.NDArray[np.int64], Predictions]:
    """Node numbers and predictions, as ``write_predictions`` wrote them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        facts = json.loads(table.schema.metadata[b"fairsad"])
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        raise DataError(
            f"the predictions in {path} cannot be read ({error}). Remove its .json and run again."
        ) from None
    scored = [name for name in table.column_names if name == SCORE or name.startswith(f"{SCORE}_")]
    scores = np.stack([table[name].to_numpy() for name in scored], axis=1) if scored else None
    return table[NODE].to_numpy(), Predictions.build(
        table[LABEL].to_numpy(),
        table[PREDICTION].to_numpy(),
        {
            name: Groups(table[f"{SENSITIVE_PREFIX}{name}"].to_numpy(), tuple(names))
            for name, names in facts["groups"].items()
        },
        scores[:, 0] if scores is not None and scored == [SCORE] else scores,
        class_names=facts["class_names"],
        positive=facts["positive"],
        intersection=False,  # it was written as a partition of its own
    )


def show_point(point: Mapping[str, float]) -> str:
    """Coordinates in a sweep as text.

    Example:
        >>> show_point({"alpha": 0.1, "beta": 1.0})
        'alpha=0.1 beta=1'
    """
    return " ".join(f"{name}={value:g}" for name, value in point.items())


def _short_hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} cannot be read ({error}). Remove it and run again.") from None


def _write_json(content: Mapping[str, Any], path: Path) -> None:
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
