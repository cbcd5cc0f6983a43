"""Log lines on standard error."""

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import structlog


def set_up_logs(level: str, form: str) -> None:
    """Write the log lines of a level and above, for people or as JSON."""
    import structlog  # most commands that only print help need no logs

    renderer: structlog.typing.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _shorten_full_disk_error,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries log errors only.
    library_format = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format=library_format, force=True)


def _shorten_full_disk_error(
    _: "structlog.typing.WrappedLogger", __: str, event: "structlog.typing.EventDict"
) -> "structlog.typing.EventDict":
    """Replace the stack trace of a full database disk by a message: each try fails until there is space."""
    error = sys.exception() if event.get("exc_info") else None
    if error is None:
        return event
    from headwater.app.operations import find_full_disk  # only commands that work on a database need its driver

    if said := find_full_disk(error):
        del event["exc_info"]
        event["error"] = f"the database's disk has no space left: {said}"
    return event
