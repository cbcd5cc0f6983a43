"""The command line: thin commands that call operations."""

import signal
import sys

from headwater.cli import show
from headwater.cli.app import command
from headwater.cli.common import STOP_SIGNALS
from headwater.cli.output import OutputLost, find_lost_output, set_up_output
from headwater.core.errors import HeadwaterError

__all__ = ["main"]

_STOPPED = {128 + number for number in (signal.SIGINT, *STOP_SIGNALS)}


def main() -> None:
    """Run the command line. README.md explains the exit codes."""
    set_up_output()
    try:
        command()
    except HeadwaterError as error:
        _print_error(str(error))
        sys.exit(2)
    except (OutputLost, ExceptionGroup) as error:
        lost = find_lost_output(error)
        if lost is None:
            raise
        if not lost.is_silent:
            _print_error(str(lost))
        sys.exit(lost.exit_code)
    except SystemExit as ending:
        if ending.code in _STOPPED:
            _print_error(" ".join(["stopped.", *getattr(ending, "__notes__", ())]))
        raise


def _print_error(message: str) -> None:
    sys.stderr.write(f"headwater: {show.visible(message)}\n")
