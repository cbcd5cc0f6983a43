"""The terminal door: thin commands over the service."""

import signal
import sys

from headwater.cli import show
from headwater.cli.app import command
from headwater.cli.common import STOP_SIGNALS
from headwater.cli.output import OutputLost, find_lost_output, set_up_output
from headwater.core.errors import HeadwaterError

__all__ = ["main"]

_CUT_SHORT = {128 + number for number in (signal.SIGINT, *STOP_SIGNALS)}


def main() -> None:
    """Run the command line; README.md tells what its exit codes mean."""
    set_up_output()
    try:
        command()
    except HeadwaterError as error:
        _say(str(error))
        sys.exit(2)
    except (OutputLost, ExceptionGroup) as error:
        lost = find_lost_output(error)
        if lost is None:
            raise
        if not lost.unheard:
            _say(str(lost))
        sys.exit(lost.exit_code)
    except SystemExit as ending:
        if ending.code in _CUT_SHORT:
            _say(" ".join(["stopped.", *getattr(ending, "__notes__", ())]))
        raise


def _say(words: str) -> None:
    sys.stderr.write(f"headwater: {show.visible(words)}\n")
