"""The training loop that every method runs through."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fairsad.errors import FairsadError, ProtocolError
from fairsad.training.checkpoint import FILE_NAME, load_state, random_state, restore_random_state, save_state
from fairsad.training.progress import Progress

logger = logging.getLogger("fairsad")

Row = dict[str, float]


class TrainingError(FairsadError, ArithmeticError):
    """Training cannot go on, such as after a loss that is no longer a number."""


class Interrupted(KeyboardInterrupt):
    """The user stopped the run; its checkpoint, if it has a folder, is written."""


class Procedure(Protocol):
    """What a method gives the loop: its state, one epoch of training, and how it does on the validation nodes."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Everything with weights or buffers, by name."""

    @property
    def optimisers(self) -> Mapping[str, Optimizer]:
        """Everything that steps, by name."""

    def train_epoch(self) -> Mapping[str, Tensor]:
        """Train for one epoch and give the loss parts, the total under ``"loss"`` where there is one."""

    def validate(self) -> Mapping[str, float]:
        """Measure on the validation nodes; without gradients, with the modules at evaluation."""


@dataclass(frozen=True)
class LoopSettings:
    """How long to train, how often to look, what to keep.

    Attributes:
        epochs: Epochs to train.
        evaluate_every: Validate after every so many epochs, the first epoch and the last one included.
        evaluate_from: The first epoch to validate; in those before, there is nothing to select yet.
        score: What makes an evaluation better: the highest score is kept.
        patience: Stop after so many evaluations without a better one; never, if ``None``.
        folder: Where the checkpoint goes; no checkpoints, if ``None``.
        checkpoint_seconds: Least time between two checkpoints.
        resume: Go on from the checkpoint in ``folder``, if there is one.
        identity: What a checkpoint must agree with to be gone on from: parameters, data, split.
    """

    epochs: int
    score: Callable[[Mapping[str, float]], float]
    evaluate_every: int = 10
    evaluate_from: int = 0
    patience: int | None = None
    folder: Path | None = None
    checkpoint_seconds: float = 30.0
    resume: bool = False
    identity: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a run left: which epoch was kept and why, and what happened on the way."""

    best_epoch: int = -1
    best_score: float = -math.inf
    best_metrics: Row = field(default_factory=dict)
    best_state: dict[str, Any] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    evaluations_since_best: int = 0
    seconds: float = 0.0


def train(
    procedure: Procedure, settings: LoopSettings, progress: Progress, callbacks: Sequence[Callable[[Row], None]] = ()
) -> Outcome:
    """Train, keep the best evaluation, and leave the modules with its weights.

    Raises:
        TrainingError: A loss part is no longer a number; the message names it.
        Interrupted: The user pressed Ctrl-C; the epoch was finished and the checkpoint written first.
        ProtocolError: No evaluation had a score, or the checkpoint is of another run.
    """
    outcome, first_epoch = Outcome(), 0
    if settings.resume and settings.folder is not None and (settings.folder / FILE_NAME).exists():
        outcome, first_epoch = _resume(procedure, settings)
    elif settings.resume:
        logger.info("nothing to resume in %s; training from the start", settings.folder)

    started = time.monotonic() - outcome.seconds
    written = time.monotonic()
    with _interrupt_flag() as interrupted, progress.running(settings.epochs, first_epoch):
        for epoch in range(first_epoch, settings.epochs):
            parts = _as_numbers(procedure.train_epoch(), epoch)
            row: Row = {"epoch": epoch, **parts}
            last = epoch == settings.epochs - 1
            since = epoch - settings.evaluate_from
            if since >= 0 and (since % settings.evaluate_every == 0 or last):
                metrics = procedure.validate()
                row |= {f"val_{name}": value for name, value in metrics.items()}
                row["score"] = settings.score(metrics)
                _keep_if_better(outcome, procedure, epoch, row["score"], metrics)
            outcome.seconds = time.monotonic() - started
            row["seconds"] = outcome.seconds
            outcome.history.append(row)
            progress.epoch(row)
            for callback in callbacks:
                callback(row)

            stop = interrupted.is_set()
            if settings.folder is not None and (stop or time.monotonic() - written >= settings.checkpoint_seconds):
                save_state(_state(procedure, settings, outcome, epoch + 1), settings.folder / FILE_NAME)
                written = time.monotonic()
            if stop:
                kept = " The checkpoint is written; --resume goes on from it." if settings.folder is not None else ""
                raise Interrupted(f"stopped after epoch {epoch + 1} of {settings.epochs}.{kept}")
            if settings.patience is not None and outcome.evaluations_since_best >= settings.patience:
                logger.info("stopped early: no better evaluation since epoch %d", outcome.best_epoch)
                break

    if outcome.best_epoch < 0:
        raise ProtocolError(
            "no evaluation had a score to select by: a metric of the selection rule was undefined every time, such as "
            "a gap where a group has no validation nodes. Choose another rule with selection=..., such as 'auc'."
        )
    for name, module in procedure.modules.items():
        module.load_state_dict(outcome.best_state[name])
    if settings.folder is not None:
        (settings.folder / FILE_NAME).unlink(missing_ok=True)
    return outcome


def _as_numbers(parts: Mapping[str, Tensor], epoch: int) -> Row:
    """Loss parts as numbers, brought over from the device in one go; a part that is not a number ends the run."""
    values = torch.stack([part.detach().to(torch.float64) for part in parts.values()]).tolist()
    row = dict(zip(parts, values, strict=True))
    broken = {name: value for name, value in row.items() if not math.isfinite(value) and name != "loss"}
    if broken or not all(math.isfinite(value) for value in values):
        name, value = next(iter(broken.items()), ("loss", row.get("loss", math.nan)))
        every = " (every part is, so the step before broke the weights)" if len(broken) >= len(row) - 1 > 1 else ""
        raise TrainingError(
            f"the loss part {name!r} became {value} in epoch {epoch + 1}{every}. "
            "Lower learning_rate or the weight of that part, or scale the features."
        )
    return row


def _keep_if_better(
    outcome: Outcome, procedure: Procedure, epoch: int, score: float, metrics: Mapping[str, float]
) -> None:
    outcome.evaluations_since_best += 1
    if score > outcome.best_score:  # false for NaN: an undefined score is never better
        outcome.best_epoch, outcome.best_score, outcome.best_metrics = epoch, score, dict(metrics)
        outcome.best_state = {
            name: {key: value.detach().clone() for key, value in module.state_dict().items()}
            for name, module in procedure.modules.items()
        }
        outcome.evaluations_since_best = 0


def _state(procedure: Procedure, settings: LoopSettings, outcome: Outcome, next_epoch: int) -> dict[str, Any]:
    return {
        "identity": dict(settings.identity),
        "next_epoch": next_epoch,
        "random": random_state(),
        "modules": {name: module.state_dict() for name, module in procedure.modules.items()},
        "optimisers": {name: optimiser.state_dict() for name, optimiser in procedure.optimisers.items()},
        "outcome": vars(outcome),
    }


def _resume(procedure: Procedure, settings: LoopSettings) -> tuple[Outcome, int]:
    assert settings.folder is not None
    state = load_state(settings.folder / FILE_NAME)
    wanted, found = dict(settings.identity), state["identity"]
    differing = sorted(key for key in {*wanted, *found} if wanted.get(key) != found.get(key))
    if differing:
        key = differing[0]
        raise ProtocolError(
            f"the checkpoint in {settings.folder} is of another run: its {key} is {found.get(key)!r}, "
            f"this run's is {wanted.get(key)!r}. Use the same settings, or train anew without --resume."
        )
    for name, module in procedure.modules.items():
        module.load_state_dict(state["modules"][name])
    for name, optimiser in procedure.optimisers.items():
        optimiser.load_state_dict(state["optimisers"][name])
    restore_random_state(state["random"])
    logger.info("resuming after epoch %d", state["next_epoch"])
    return Outcome(**state["outcome"]), state["next_epoch"]


@contextmanager
def _interrupt_flag() -> Iterator[threading.Event]:
    """Ctrl-C sets a flag, so that the epoch is finished first; a second Ctrl-C stops at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag  # only the main thread may handle signals
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        if flag.is_set() and callable(before):
            before(number, frame)
        flag.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
