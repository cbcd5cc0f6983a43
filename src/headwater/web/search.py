"""The page Search."""

from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request, Response

from headwater.api.errors import find_status
from headwater.core.dates import parse_moment
from headwater.core.errors import HeadwaterError
from headwater.search.operations import LONGEST_QUERY, ContentFilter
from headwater.web.stories import fold_stories
from headwater.web.texts import query_string
from headwater.web.view import View

_HITS = 20
_LONGEST = 500


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""
    search = view.operations.search

    @app.get("/search")
    async def show(
        request: Request,
        q: Annotated[str, Query(max_length=LONGEST_QUERY)] = "",
        source: Annotated[str, Query(max_length=_LONGEST)] = "",
        category: Annotated[str, Query(max_length=_LONGEST)] = "",
        topic: Annotated[str, Query(max_length=_LONGEST)] = "",
        language: Annotated[str, Query(max_length=20)] = "",
        since: Annotated[str, Query(max_length=40)] = "",
        sort: Literal["best", "newest"] = "best",
        cursor: Annotated[str, Query(max_length=_LONGEST)] = "",
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
                newest_first = sort == "newest"
                found = await search.find(words, only, limit=_HITS, cursor=cursor or None, newest_first=newest_first)
            except HeadwaterError as error:
                refusal, status = str(error), find_status(error.reason)

        def link(**changes: object) -> str:
            order = {} if sort == "best" else {"sort": sort}
            return request.url.path + query_string(q=words, **(chosen | order | changes))

        return view.page(
            request,
            "search.html",
            status,
            words=words,
            chosen=chosen,
            used={name: value for name, value in chosen.items() if value},
            found=found,
            lines=await fold_stories(view, found.hits, lambda hit: hit.id) if found else [],
            refusal=refusal,
            link=link,
            sort=sort,
            first=link() if cursor else "",
            next=link(cursor=found.next) if found and found.next else "",
        )
