"""The parts that all routes share: the shape of an error, and the token."""

from typing import Annotated

from fastapi import Depends, Query
from fastapi.security import HTTPBearer

from headwater.core.dates import parse_moment
from headwater.core.record import record
from headwater.documents.operations import ContentFilter

PAGES = "/ui/"
"""The pages are below this path. They are another door, which checks its own access."""
TOKEN = [Depends(HTTPBearer(auto_error=False))]
"""The dependencies of a route that writes. OpenAPI shows them; `api/app.py` checks the token itself."""


@record
class ErrorBody:
    """Why a request failed."""

    reason: str
    """A code from the closed list of reasons."""
    message: str
    """A sentence for a person."""
    run_id: int | None = None
    """With `run_under_way`: the running run. Null if a poll is running, and with all other reasons."""


@record
class ErrorAnswer:
    """The shape of every error."""

    error: ErrorBody


@record
class Health:
    """The state of the program."""

    status: str
    version: str


def _read_content_filter(
    source: str | None = None,
    category: Annotated[str | None, Query(description="Of the source; also those below it.")] = None,
    topic: Annotated[str | None, Query(description="A topic that the source gives.")] = None,
    language: Annotated[str | None, Query(description="Of the document, such as de.")] = None,
    since: Annotated[str | None, Query(description="A day or a time (UTC).")] = None,
) -> ContentFilter:
    moment = parse_moment(since, "since") if since is not None else None
    return ContentFilter(source, category, topic, language, moment)


Content = Annotated[ContentFilter, Depends(_read_content_filter)]
"""The query parameters that choose items or documents."""
