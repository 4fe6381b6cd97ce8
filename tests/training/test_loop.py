from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from fairsad.errors import ProtocolError
from fairsad.training.checkpoint import FILE_NAME
from fairsad.training.loop import Interrupted, LoopSettings, Outcome, TrainingError, train
from fairsad.training.progress import Progress


class Walk:
    """A weight that takes random steps; validation looks at where it is, so any change of the stream shows."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        self.model = nn.Linear(1, 1)
        self.optimiser = SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.epochs = 0
        self.stop_at: int | None = None
        self.break_at: dict[int, dict[str, float]] = {}

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"model": self.model}

    @property
    def optimisers(self) -> Mapping[str, Optimizer]:
        return {"model": self.optimiser}

    def train_epoch(self) -> dict[str, Tensor]:
        if self.epochs == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        self.optimiser.zero_grad()
        pull = (self.model.weight - torch.randn(1)).square().sum()
        pull.backward()
        self.optimiser.step()
        values = self.break_at.get(self.epochs, {})
        self.epochs += 1
        first = torch.tensor(values.get("first", pull.item()))
        second = torch.tensor(values.get("second", 1.0))
        return {"loss": first + second, "first": first, "second": second}

    def validate(self) -> dict[str, float]:
        return {"place": self.model.weight.item()}


def run(walk: Walk, epochs: int = 25, **changes: Any) -> Outcome:
    settings: dict[str, Any] = {"evaluate_every": 4, "score": lambda metrics: metrics["place"]}
    return train(walk, LoopSettings(epochs=epochs, **(settings | changes)), Progress(enabled=False))


def test_the_best_evaluation_is_kept_and_its_weights_put_back() -> None:
    walk = Walk()
    outcome = run(walk)
    evaluated = {int(row["epoch"]): row["score"] for row in outcome.history if "score" in row}
    assert list(evaluated) == [0, 4, 8, 12, 16, 20, 24]
    assert outcome.best_epoch == max(evaluated, key=lambda epoch: evaluated[epoch])
    assert walk.model.weight.item() == evaluated[outcome.best_epoch] == outcome.best_metrics["place"]
    assert len(outcome.history) == 25


def test_the_last_epoch_is_evaluated_whatever_the_cadence() -> None:
    outcome = run(Walk(), epochs=6, evaluate_every=100)
    assert [int(row["epoch"]) for row in outcome.history if "score" in row] == [0, 5]


def test_of_equal_evaluations_the_first_is_kept() -> None:
    assert run(Walk(), score=lambda metrics: 1.0).best_epoch == 0


def test_an_undefined_score_is_never_kept() -> None:
    scores = iter([math.nan, 0.5, math.nan, 0.4, math.nan, math.nan, math.nan])
    assert run(Walk(), score=lambda metrics: next(scores)).best_epoch == 4
    with pytest.raises(ProtocolError, match="no evaluation had a score"):
        run(Walk(), score=lambda metrics: math.nan)


def test_patience_stops_early() -> None:
    scores = iter([1.0, 2.0, 0.0, 0.0, 0.0, 3.0])
    outcome = run(Walk(), epochs=100, patience=3, score=lambda metrics: next(scores))
    assert len(outcome.history) == 17
    assert outcome.best_epoch == 4


@pytest.mark.parametrize("stop_at", [0, 3, 11, 24])
def test_stopped_and_resumed_ends_in_the_same_bits(tmp_path: Path, stop_at: int) -> None:
    straight = Walk()
    expected = run(straight)

    stopped = Walk()
    stopped.stop_at = stop_at
    with pytest.raises(Interrupted, match=f"stopped after epoch {stop_at + 1} of 25.*--resume"):
        run(stopped, folder=tmp_path)
    resumed = Walk()
    torch.rand(100)  # the stream stands elsewhere
    outcome = run(resumed, folder=tmp_path, resume=True)

    assert torch.equal(resumed.model.weight, straight.model.weight)
    assert torch.equal(resumed.model.bias, straight.model.bias)
    assert (outcome.best_epoch, outcome.best_score) == (expected.best_epoch, expected.best_score)
    for mine, theirs in zip(outcome.history, expected.history, strict=True):
        assert mine | {"seconds": 0} == theirs | {"seconds": 0}
    assert not (tmp_path / FILE_NAME).exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    stopped = Walk()
    stopped.stop_at = 3
    with pytest.raises(Interrupted):
        run(stopped, folder=tmp_path, identity={"alpha": 0.1, "seed": 0})
    with pytest.raises(ProtocolError, match=r"of another run: its alpha is 0.1, this run's is 0.2"):
        run(Walk(), folder=tmp_path, resume=True, identity={"alpha": 0.2, "seed": 0})


def test_without_a_folder_a_stop_leaves_nothing_and_says_so() -> None:
    stopped = Walk()
    stopped.stop_at = 3
    with pytest.raises(Interrupted, match="stopped after epoch 4 of 25.$"):
        run(stopped)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_resume_with_nothing_to_resume_trains_from_the_start(tmp_path: Path) -> None:
    assert len(run(Walk(), folder=tmp_path, resume=True).history) == 25


def test_checkpoints_are_written_while_training(tmp_path: Path) -> None:
    seen = []
    train(
        Walk(),
        LoopSettings(epochs=5, score=lambda metrics: 0.0, folder=tmp_path, checkpoint_seconds=0.0),
        Progress(enabled=False),
        [lambda row: seen.append((tmp_path / FILE_NAME).exists())],
    )
    assert seen == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"second": math.nan}, r"loss part 'second' became nan in epoch 3\. Lower learning_rate"),
        ({"first": math.inf}, r"loss part 'first' became inf in epoch 3\."),
        ({"first": math.nan, "second": math.nan}, r"'first' became nan in epoch 3 \(every part is"),
    ],
)
def test_a_loss_that_is_no_number_names_its_part(values: dict[str, float], message: str) -> None:
    walk = Walk()
    walk.break_at = {2: values}
    with pytest.raises(TrainingError, match=message):
        run(walk)
