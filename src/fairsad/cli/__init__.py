"""The command line: one command per file, all errors in one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer.exceptions import TyperException

USER_ERROR = 2
STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; anything the user can put right is one line on stderr and exit code 2."""
    from typer import Abort
    from typer.exceptions import TyperException

    from fairsad.cli.app import app
    from fairsad.errors import FairsadError

    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = app(
            [argument for argument in given if argument != "--debug"], prog_name="fairsad", standalone_mode=False
        )
    except (FairsadError, TyperException) as error:
        if debug:
            raise
        message = _usage_message(error) if isinstance(error, TyperException) else str(error)
        if message:  # without one, Typer has shown the help in its place
            print(f"fairsad: error: {message}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except (KeyboardInterrupt, Abort) as stop:
        print(f"fairsad: {str(stop) or 'stopped.'}", file=sys.stderr)
        sys.exit(STOPPED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a place that cannot be written to, a full disk
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(
            f"fairsad: error: {where}{error.strerror or error}; expected a place that can be read and written. "
            "Check the path, its permissions and the space left.",
            file=sys.stderr,
        )
        sys.exit(USER_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_message(error: TyperException) -> str:
    """What was wrong with the command line, and where to read what is right."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if not message or context is None:
        return message
    return f"{message.rstrip('.')}. See '{context.command_path} --help'."
