from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from fairsad.errors import DataError
from fairsad.methods.parameters import Search, check_parameters, parameter, parameters_of, parse_parameter


@dataclass(kw_only=True)
class Toy:
    rate: float = parameter(0.5, "A rate.", low=0.0, high=1.0, search=Search(0.1, 0.9))
    layers: int = parameter(2, "Layers.", low=1)
    patience: int | None = parameter(None, "Patience.", low=1)
    activation: Literal["relu", "none"] = parameter("relu", "Activation.")
    name: str = parameter("x", "A name.")
    verbose: bool = parameter(False, "Talk.")


def test_defaults_are_allowed_and_described() -> None:
    check_parameters(Toy())
    assert parameters_of(Toy)["rate"].search == Search(0.1, 0.9)
    assert parameters_of(Toy)["layers"].help == "Layers."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 1.5}, r"Toy: rate = 1.5; expected a number from 0 to 1. A rate."),
        ({"rate": "much"}, "rate = 'much'; expected a number from 0 to 1"),
        ({"rate": True}, "rate = True; expected a number"),
        ({"rate": float("nan")}, "rate = nan; expected a number"),
        ({"layers": 0}, "layers = 0; expected a whole number, at least 1"),
        ({"layers": 1.5}, "layers = 1.5; expected a whole number"),
        ({"layers": None}, "layers = None; expected a whole number"),
        ({"patience": 0}, "patience = 0; expected a whole number or none, at least 1"),
        ({"activation": "tanh"}, "activation = 'tanh'; expected one of 'relu', 'none'"),
        ({"verbose": 1}, "verbose = 1; expected true or false"),
    ],
)
def test_a_value_that_is_not_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_parameters(Toy(**changes))


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(DataError) as caught:
        check_parameters(Toy(rate=2.0, layers=0))
    assert len(caught.value.defects) == 2


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rate", "0.25", 0.25),
        ("rate", "1", 1.0),
        ("layers", "3", 3),
        ("patience", "none", None),
        ("patience", "5", 5),
        ("activation", "none", "none"),
        ("verbose", "true", True),
    ],
)
def test_texts_become_values(name: str, text: str, value: object) -> None:
    parsed = parse_parameter(Toy, name, text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_texts_that_mean_nothing() -> None:
    with pytest.raises(DataError, match="Toy has no setting 'speed'; it has activation, layers"):
        parse_parameter(Toy, "speed", "1")
    with pytest.raises(DataError, match="layers = '1.5'; expected a whole number"):
        parse_parameter(Toy, "layers", "1.5")
