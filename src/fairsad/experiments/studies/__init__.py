"""The studies of the paper, one per file; each says which rows it has and on which graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fairsad.errors import DataError
from fairsad.experiments.plan import Row, plan
from fairsad.experiments.store import Study

NAMES = ("comparison", "ablation", "micro-macro", "sensitivity", "channels", "layers", "tradeoff")


@dataclass(frozen=True)
class StudyCard:
    """What a study asks, and how it looks for the answer.

    Attributes:
        name: On the command line; also of the published numbers beside it.
        title: For headings.
        question: What it answers, in one sentence.
        rows: Rows of its table.
        graphs: Graphs that it runs on unless others are named.
        note: What the reader should know.
        detail: Whether every trial keeps its whole evaluation and probe; a large sweep does not.
        utility: Utility that its figure shows.
        gap: Gap that its figure shows.
        reference: Label of the row that differences are taken from; empty for the GCN.
    """

    name: str
    title: str
    question: str
    rows: tuple[Row, ...]
    graphs: tuple[str, ...] = ("german", "bail", "credit")
    note: str = ""
    detail: bool = True
    utility: str = "auc"
    gap: str = "demographic_parity_gap"
    reference: str = ""

    def plan(self, graphs: Sequence[str] = (), *, seeds: int = 5, overrides: dict[str, Any] | None = None) -> Study:
        """The study as trials."""
        return plan(
            self.name,
            self.title,
            self.rows,
            graphs or self.graphs,
            seeds=seeds,
            published=self.name,
            note=self.note,
            utility=self.utility,
            gap=self.gap,
            reference=self.reference,
            detail=self.detail,
            overrides=overrides,
        )


def study_card(name: str) -> StudyCard:
    """A study by its name.

    Raises:
        DataError: There is no study of that name.

    Example:
        >>> study_card("ablation").graphs
        ('german', 'bail', 'credit')
    """
    if name not in NAMES:
        raise DataError(f"no study is known as {name!r}; expected one of {', '.join(NAMES)}.")
    card: StudyCard = import_module(f"fairsad.experiments.studies.{name.replace('-', '_')}").CARD
    return card
