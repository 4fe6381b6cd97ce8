from __future__ import annotations

import pytest

from fairsad.errors import DataError
from fairsad.methods.base import Method
from fairsad.methods.fairsad import REFERENCE_CODE, FairSAD
from fairsad.methods.parameters import check_parameters
from fairsad.methods.registry import make_method, method_class, method_names, published_settings


@pytest.mark.parametrize("name", method_names())
def test_every_name_makes_a_method_whose_defaults_are_allowed(name: str) -> None:
    method = make_method(name)
    assert isinstance(method, Method)
    assert type(method) is method_class(name)
    check_parameters(method)


def test_a_reading_is_a_constructor_of_the_same_class() -> None:
    code = make_method("fairsad-code", alpha=0.7)
    assert isinstance(code, FairSAD)
    assert code.get_params() == FairSAD(alpha=0.7, **REFERENCE_CODE).get_params()


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(DataError, match="no method is known as 'fairsat'; there are fairsad, "):
        make_method("fairsat")


@pytest.mark.parametrize("name", method_names())
def test_published_settings_are_settings_of_the_method(name: str) -> None:
    for graph in ("german", "bail", "credit", "pokec-z", "pokec-n"):
        check_parameters(make_method(name, **published_settings(name, graph)))
    assert published_settings(name, "my own graph") == {}


def test_the_paper_s_settings_of_fairsad() -> None:
    table = {
        graph: published_settings("fairsad", graph) for graph in ("german", "bail", "credit", "pokec-z", "pokec-n")
    }
    assert [settings["alpha"] for settings in table.values()] == [0.1, 0.001, 0.5, 0.001, 0.05]
    assert [settings["beta"] for settings in table.values()] == [1.0, 0.2, 0.1, 0.05, 0.001]
    assert [settings["learning_rate"] for settings in table.values()] == [1e-2, 1e-3, 1e-3, 1e-3, 1e-3]
