"""How log lines look, on standard error."""

import logging
import sys

import structlog


def set_up_logs(level: str, form: str) -> None:
    """Log from a level on, for people or for machines."""
    renderer: structlog.typing.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _tell_of_full_disk_in_words,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries speak only when something is wrong.
    form_of_libraries = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format=form_of_libraries, force=True)


def _tell_of_full_disk_in_words(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Leave out where the program was when the database's disk was full: each try fails so until there is space."""
    error = sys.exception() if event.get("exc_info") else None
    if error is None:
        return event
    from headwater.db.pool import find_full_disk  # only commands that work on a database need its driver

    if said := find_full_disk(error):
        del event["exc_info"]
        event["error"] = f"the database's disk has no space left: {said}"
    return event
