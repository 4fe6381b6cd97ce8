"""The command line: one command per file, all errors in one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

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
        code = app([argument for argument in given if argument != "--debug"], standalone_mode=False)
    except (FairsadError, TyperException) as error:
        if debug:
            raise
        message = error.format_message() if isinstance(error, TyperException) else str(error)
        print(f"fairsad: error: {message}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except (KeyboardInterrupt, Abort) as stop:
        print(f"fairsad: {str(stop) or 'stopped.'}", file=sys.stderr)
        sys.exit(STOPPED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
