"""The page Search."""

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from headwater.api.errors import find_status
from headwater.core.dates import parse_moment
from headwater.core.errors import HeadwaterError
from headwater.documents.operations import ContentFilter
from headwater.web.texts import query_string
from headwater.web.view import View

_HITS = 20
_LAST_PAGE = 500
_LONGEST = 500


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""
    documents = view.operations.documents

    @app.get("/search")
    async def show(
        request: Request,
        q: Annotated[str, Query(max_length=_LONGEST)] = "",
        source: Annotated[str, Query(max_length=_LONGEST)] = "",
        category: Annotated[str, Query(max_length=_LONGEST)] = "",
        topic: Annotated[str, Query(max_length=_LONGEST)] = "",
        language: Annotated[str, Query(max_length=20)] = "",
        since: Annotated[str, Query(max_length=40)] = "",
        page: Annotated[int, Query(ge=1, le=_LAST_PAGE)] = 1,
    ) -> Response:
        chosen = {"source": source, "category": category, "topic": topic, "language": language, "since": since}
        chosen = {name: value.strip() for name, value in chosen.items()}
        words = q.strip()
        found, refusal, status = None, "", 200
        if words:
            try:
                moment = parse_moment(chosen["since"], "since") if chosen["since"] else None
                only = ContentFilter(
                    chosen["source"] or None,
                    chosen["category"] or None,
                    chosen["topic"] or None,
                    chosen["language"] or None,
                    moment,
                )
                found = await documents.search(words, only, limit=_HITS, offset=(page - 1) * _HITS)
            except HeadwaterError as error:
                refusal, status = str(error), find_status(error.reason)

        def link(**changes: object) -> str:
            return request.url.path + query_string(q=words, **(chosen | changes))

        return view.page(
            request,
            "search.html",
            status,
            words=words,
            chosen=chosen,
            used={name: value for name, value in chosen.items() if value},
            found=found,
            refusal=refusal,
            link=link,
            first_number=(page - 1) * _HITS + 1,
            first=link() if page > 1 else "",
            next=link(page=page + 1) if found and found.total > page * _HITS and page < _LAST_PAGE else "",
        )
