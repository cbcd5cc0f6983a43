"""The terminal door: thin commands over the service."""

import os
import sys

from headwater.cli import show
from headwater.cli.app import app
from headwater.errors import HeadwaterError

__all__ = ["main"]


def main() -> None:
    """Run the command line: 0 done, 1 done but not as expected, 2 something to be put right first."""
    try:
        app()
    except HeadwaterError as error:
        sys.stderr.write(f"headwater: {show.visible(str(error))}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except (BrokenPipeError, UnicodeEncodeError) as error:
        # Whoever read our output has gone, or cannot take it; there is nobody to tell but the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"headwater: the output could not be written: {error}.\n")
        sys.exit(2)
