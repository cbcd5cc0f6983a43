"""The parts that all routes share: the shape of an error, and the scope that a route needs."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from pydantic import BeforeValidator

from headwater.access.operations import Scope
from headwater.core.dates import parse_moment
from headwater.core.record import record
from headwater.documents.operations import ContentFilter, RawBody


@dataclass(frozen=True, slots=True)
class Needs:
    """Declares the scope that a route needs. `api/access.py` checks it before the body is read.

    By default a route that reads needs `read`, and any other route `write`. A mounted app declares it as `needs`.
    """

    scope: Scope | None

    async def __call__(self) -> None:
        """Do nothing: this only marks the route."""


OPEN = [Depends(Needs(None))]
"""The dependencies of a route that needs no token."""
WRITE = [Depends(Needs(Scope.WRITE))]
"""The dependencies of a route that reads, and needs the scope write."""
ADMIN = [Depends(Needs(Scope.ADMIN))]
"""The dependencies of a route that needs the scope admin."""


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


def _require_iso_day(value: Any) -> Any:
    """Refuse a number, which the library would read as seconds."""
    if not isinstance(value, date) and not re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        raise ValueError("must be a day such as 2026-03-29")
    return value


IsoDay = Annotated[date, BeforeValidator(_require_iso_day)]
"""A day as a query parameter or a field of a body."""


def attach(raw: RawBody) -> Response:
    """Return a raw file as a download that no browser shows or runs."""
    headers = {
        "Content-Disposition": f'attachment; filename="{raw.name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(raw.body, media_type="application/octet-stream", headers=headers)


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
