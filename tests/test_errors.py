from __future__ import annotations

import pytest

from fairsad.errors import DataError, DownloadError, FairsadError, NotFittedError, ProtocolError


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(DataError, ValueError), (DownloadError, OSError), (ProtocolError, ValueError), (NotFittedError, AttributeError)],
)
def test_errors_are_caught_by_the_closest_builtin(error: type[FairsadError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match="what happened"):
        raise error("what happened")
    assert issubclass(error, FairsadError)


def test_a_data_error_keeps_its_defects_apart() -> None:
    error = DataError(["first defect.", "second defect."])
    assert error.defects == ("first defect.", "second defect.")
    assert str(error) == "first defect.; second defect."
    assert DataError("only one.").defects == ("only one.",)
