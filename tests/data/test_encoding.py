from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from fairsad.data.columns import Table, as_table
from fairsad.data.encoding import (
    Attribute,
    AttributeFeature,
    CategoryFeature,
    NumberFeature,
    TableEncoding,
    encode_like,
    fit_attribute,
    fit_features,
    fit_label,
)
from fairsad.errors import DataError


def table(**columns: object) -> Table:
    return as_table(pd.DataFrame(columns), "people.csv")


def fit(people: Table, train: list[int] | None = None, **settings: object) -> TableEncoding:
    mask = np.zeros(len(people), dtype=bool)
    mask[train if train is not None else slice(None)] = True
    options = {"categorical": (), "attributes": (), "missing": "error", **settings}
    features = fit_features(people, people.names, mask, **options)  # type: ignore[arg-type]
    return TableEncoding(features, ("0", "1"), options["attributes"], options["missing"])  # type: ignore[arg-type]


@given(st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=30))
def test_numbers_are_scaled_as_scikit_learn_does_it_on_the_training_nodes(whole: list[int]) -> None:
    values = [number / 100 for number in whole]
    train = list(range(len(values) - 1))
    encoded = fit(table(v=values), train).encode(table(v=values))[:, 0]
    if max(values[:-1]) == min(values[:-1]):
        assert (encoded == 0).all()
        return
    scaler = MinMaxScaler((-1, 1)).fit(np.array(values)[train, None])
    assert encoded == pytest.approx(scaler.transform(np.array(values)[:, None])[:, 0], rel=1e-5, abs=1e-5)


def test_a_value_beyond_the_training_range_stays_beyond() -> None:
    encoding = fit(table(v=[0.0, 10.0, 20.0]), train=[0, 1])
    assert encoding.encode(table(v=[0.0, 10.0, 20.0, -10.0]))[:, 0].tolist() == [-1, 1, 3, -3]


def test_words_are_encoded_as_scikit_learn_does_it_and_the_unseen_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    jobs = ["cook", "nurse", "cook", "clerk", "pilot"]
    encoding = fit(table(job=jobs), train=[0, 1, 2, 3])
    judge = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(np.array(jobs)[:4, None])
    with caplog.at_level(logging.WARNING):
        encoded = encoding.encode(table(job=jobs))
    assert (encoded == judge.transform(np.array(jobs)[:, None])).all()
    assert encoding.feature_names == ("job=clerk", "job=cook", "job=nurse")
    assert "'pilot' in row 4 is a category that the training data did not have (rows of this kind: 1)" in caplog.text


def test_numbers_that_are_names() -> None:
    encoding = fit(table(code=[10, 9, 9]), categorical=("code",))
    assert encoding.feature_names == ("code=9", "code=10")
    assert encoding.encode(table(code=["9", "9.0", "11"])).tolist() == [[1, 0], [1, 0], [0, 0]]


def test_truth_values_are_numbers() -> None:
    encoding = fit(table(own=[True, False]))
    assert encoding.encode(table(own=["true", "False"]))[:, 0].tolist() == [1, -1]


def test_missing_values_are_filled_only_where_asked_for() -> None:
    people = table(age=[20.0, 40.0, None, 90.0], job=["cook", None, "nurse", "cook"])
    with pytest.raises(DataError, match=r"column 'age' has no value in row 2\. Fill in what is missing, drop"):
        fit(people)
    with pytest.raises(DataError, match=r"column 'job' has no value in row 1\..*missing = \"mean\""):
        fit(table(job=["cook", None, "nurse"]))
    encoding = fit(people, train=[0, 1], missing="mean")
    # the mean of the training nodes, 30, is halfway between their 20 and 40
    assert encoding.encode(people)[:, 0].tolist() == [-1, 1, 0, 6]
    assert encoding.encode(people)[1, 1:].tolist() == [0]


def test_a_column_that_only_later_has_gaps_is_refused_then() -> None:
    encoding = fit(table(age=[20.0, 40.0], job=["cook", "nurse"]))
    with pytest.raises(DataError, match=r"column 'age' has no value in row 1"):
        encoding.encode(table(age=[1.0, None], job=["cook", "nurse"]))
    with pytest.raises(DataError, match=r"column 'job' has no value in row 0"):
        encoding.encode(table(age=[1.0, 2.0], job=[None, "nurse"]))


def test_a_sensitive_attribute_among_the_features() -> None:
    sex, region = Attribute("sex", ("f", "m")), Attribute("region", ("east", "north", "west"))
    people = table(sex=["f", "m", None], region=["west", None, "east"])
    encoding = fit(people, attributes=(sex, region))
    assert encoding.feature_names == ("sex", "region=east", "region=north", "region=west")
    assert encoding.encode(people).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0.5, 1, 0, 0]]
    assert encoding.features_from("sex") == (0,)
    assert encoding.features_from("region") == (1, 2, 3)
    assert encoding.features_from("sex", "age") == (0,)


def test_an_attribute_cut_into_groups_is_a_number_among_the_features() -> None:
    people = table(age=[20, 25, 59, 60, 80])
    attribute = fit_attribute(people.column("age"), cuts=(25, 60), categorical=False)
    assert attribute.values == ("under 25", "25 to under 60", "60 and over")
    assert attribute.encode(people.column("age")).tolist() == [0, 1, 1, 2, 2]
    assert attribute.encode(table(age=[None, 24.9]).column("age")).tolist() == [-1, 0]
    assert fit(people, attributes=(attribute,)).feature_names == ("age",)


def test_an_unseen_group_is_unknown_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        codes = Attribute("sex", ("f", "m")).encode(table(sex=["m", "x", None]).column("sex"))
    assert codes.tolist() == [1, -1, -1]
    assert "'x' in row 1 is a group that the training data did not have (rows of this kind: 1)" in caplog.text


def test_labels_are_sorted_unless_one_is_positive() -> None:
    assert fit_label(table(y=["yes", "no", None]).column("y"), None) == ("no", "yes")
    assert fit_label(table(y=["good", "bad"]).column("y"), "bad") == ("good", "bad")
    assert fit_label(table(y=[10, 9, 1]).column("y"), None) == ("1", "9", "10")
    assert fit_label(table(y=[True, False]).column("y"), None) == ("false", "true")


def test_stored_as_json_and_read_again() -> None:
    people = table(age=[20, 30, 40], job=["cook", "nurse", "cook"], sex=["f", "m", "f"])
    attributes = (Attribute("sex", ("f", "m")), Attribute("age", ("under 25", "25 and over"), (25.0,)))
    encoding = fit(people, attributes=attributes)
    stored = json.loads(json.dumps(encoding.to_dict()))
    assert TableEncoding.from_dict(stored) == encoding
    assert [type(feature) for feature in encoding.features] == [NumberFeature, CategoryFeature, AttributeFeature]
    frame = pd.DataFrame({"sex": ["m"], "extra": [1], "job": ["cook"], "age": [40]})
    assert encode_like(stored, frame).tolist() == [[1, 1, 0, 1]]


def test_an_encoding_of_another_version() -> None:
    with pytest.raises(DataError, match=r"table encoding of format None; expected 1\. Build the graph again"):
        encode_like({}, pd.DataFrame({"a": [1]}))


def test_a_table_without_a_column_of_the_model() -> None:
    encoding = fit(table(age=[1, 2], sex=["f", "m"]))
    with pytest.raises(DataError, match=r"has no column 'sex', named as a feature of the model; its columns are age"):
        encoding.encode(table(age=[1]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["2020-01-01", "2020-01-02"],
            "column 'c' holds dates, of which no feature can be made; write them as numbers",
        ),
        ([[1], [2]], "column 'c' holds list<.*> values; expected numbers or words"),
        ([1.0, float("inf")], "column 'c' is infinite in row 1; expected finite"),
        (["1", "2", "3o"], r"column 'c' holds numbers, but '3o' in row 2 is none .words in all: 1.\. Correct them"),
        (["3,5", "4", "1,000,000"], "column 'c' holds numbers with commas, such as '1,000,000'; add decimal = \",\""),
        ([f"name {i}" for i in range(30)], r"has 30 different words among 30 training nodes .* drop = \['c'\]"),
        ([f"w{i % 201}" for i in range(500)], "has 201 different words among 500 training nodes"),
    ],
)
def test_columns_of_which_no_feature_can_be_made(values: list[object], message: str) -> None:
    with pytest.raises(DataError, match=rf"people\.csv: .*{message}"):
        fit(table(c=values))


def test_a_column_without_a_value_among_the_training_nodes() -> None:
    with pytest.raises(DataError, match=r"column 'c' has no value among the training nodes\. Drop it"):
        fit(table(c=[None, None, 1.0]), train=[0, 1], missing="mean")


def test_what_is_listed_as_categorical_may_have_as_many_values_as_it_has() -> None:
    assert len(fit(table(c=[f"w{i}" for i in range(300)]), categorical=("c",)).feature_names) == 300
    assert fit(table(c=["1", "2", "3o"]), categorical=("c",)).feature_names == ("c=1", "c=2", "c=3o")


def test_codes_with_leading_zeros_are_no_misprint() -> None:
    assert fit(table(c=["012", "34", "56"])).feature_names == ("c=34", "c=56", "c=012")


def test_words_where_numbers_are_expected() -> None:
    encoding = fit(table(age=[1, 2]))
    with pytest.raises(DataError, match=r"column 'age' holds words, such as 'old' in row 1; the feature is encoded as"):
        encoding.encode(table(age=["3", "old"]))
    with pytest.raises(
        DataError, match=r"column 'age' holds words, such as 'old' in row 0; bins cuts 'age' as numbers"
    ):
        fit_attribute(table(age=["old", "3"]).column("age"), cuts=(25,), categorical=False)


@pytest.mark.parametrize(
    ("values", "cuts", "message"),
    [
        (["f", "f", None], (), "column 'sex', named as sensitive, has only the value 'f'; expected at least two"),
        ([None, None], (), "named as sensitive, has no value at all"),
        ([30, 40], (25,), "named as sensitive, has only the value '25 and over'"),
        (list(range(21)), (), r"has 21 different numbers, too many for groups; cut it .*\[bins\] sex = \[25, 60\]"),
        ([f"g{i}" for i in range(201)], (), "has 201 different values, named as sensitive; expected at most 200"),
    ],
)
def test_columns_that_are_no_groups(values: list[object], cuts: tuple[float, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_attribute(table(sex=values).column("sex"), cuts=cuts, categorical=False)


def test_numbers_that_are_names_may_be_many_groups() -> None:
    column = table(region=list(range(30))).column("region")
    assert len(fit_attribute(column, cuts=(), categorical=True).values) == 30


@pytest.mark.parametrize(
    ("values", "positive", "message"),
    [
        (["no", "no"], None, "column 'y', named as label, has only the value 'no'"),
        (list(np.arange(51) / 7), None, "has 51 different values, named as label; expected classes, at most 50"),
        (["no", "yes"], "Yes", "has the values no, yes; positive = 'Yes' expects two values, one of them this"),
        (["a", "b", "c"], "a", "has the values a, b, c; positive = 'a' expects two values"),
    ],
)
def test_columns_that_are_no_labels(values: list[object], positive: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_label(table(y=values).column("y"), positive)
