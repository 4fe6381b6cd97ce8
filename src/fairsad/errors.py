"""The errors a user can meet. Each message says what was found, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class FairsadError(Exception):
    """Anything the user can put right; the command line prints it in one line and exits with 2."""


class DataError(FairsadError, ValueError):
    """A table, a graph or a setting about them is not what was expected.

    Args:
        message: One defect, or several.
    """

    def __init__(self, message: str | Sequence[str]) -> None:
        self.defects = (message,) if isinstance(message, str) else tuple(message)
        super().__init__("; ".join(self.defects))


class DownloadError(FairsadError, OSError):
    """A file could not be fetched, or what came is not the published file."""


class ProtocolError(FairsadError, ValueError):
    """A combination of settings that has no meaning, such as a selection rule without validation nodes."""


class NotFittedError(FairsadError, AttributeError, ValueError):
    """A model was used before ``fit`` or ``load``."""
