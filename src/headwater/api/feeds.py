"""The routes of feeds, of saved searches, and of secret addresses of feeds."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Request, Response

from headwater.api.common import ADMIN, OPEN, Content
from headwater.app.operations import Operations
from headwater.notify.alarms import AlarmList
from headwater.notify.feeds import MOST_ENTRIES, FeedTarget
from headwater.notify.operations import AddedFeedAddress, FeedAddressList, FeedKind
from headwater.search.feed import (
    ATOM_TYPE,
    JSON_TYPE,
    DocumentFeed,
    is_unchanged,
    make_tag,
    write_atom,
    write_json,
)
from headwater.search.operations import LONGEST_QUERY

_FEEDS = "feeds"
_SAVED = "saved searches"
Form = Literal["atom", "json"]
Limit = Annotated[int, Query(ge=1, le=100)]
Full = Annotated[bool, Query(description="Whether entries have the whole text.")]


def add_feeds(app: FastAPI, operations: Operations) -> None:
    """Add the routes of feeds."""
    feeds = operations.feeds

    @app.get("/feeds/search.{form}", tags=[_FEEDS], response_class=Response)
    async def search_feed(
        request: Request,
        form: Form,
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY, description="As of `/search`.")],
        only: Content,
        limit: Limit = 50,
        full: Full = False,
    ) -> Response:
        """Return the newest documents that match a search, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        feed = await operations.search.make_feed(q, only, address=str(request.url), limit=limit, with_text=full)
        return _answer(request, await feeds.fold(feed), form)

    @app.get("/feeds/category.{form}", tags=[_FEEDS], response_class=Response)
    async def category_feed(
        request: Request,
        form: Form,
        category: Annotated[str, Query(min_length=1, max_length=500, description="Also those below it.")],
        limit: Limit = 50,
        full: Full = False,
    ) -> Response:
        """Return the newest documents of a category, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        return await make(request, FeedTarget(FeedKind.CATEGORY, category), form, limit, full=full)

    @app.get("/feeds/day/{day}.{form}", tags=[_FEEDS], response_class=Response)
    async def day_feed(
        request: Request,
        day: Annotated[str, Path(description="A day such as 2026-03-29, `today` or `latest`.")],
        form: Form,
        limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = MOST_ENTRIES,
        full: Full = False,
    ) -> Response:
        """Return the NEW and LATEST items of a day, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        return await make(request, FeedTarget(FeedKind.DAY, day), form, limit, full=full)

    @app.get("/feeds/source/{name}.{form}", tags=[_FEEDS], response_class=Response)
    async def source_feed(request: Request, name: str, form: Form, limit: Limit = 50, full: Full = False) -> Response:
        """Return the newest documents of a source, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        return await make(request, FeedTarget(FeedKind.SOURCE, name), form, limit, full=full)

    @app.get("/feeds/saved/{name}.{form}", tags=[_FEEDS], response_class=Response)
    async def saved_feed(request: Request, name: str, form: Form, limit: Limit = 50, full: Full = False) -> Response:
        """Return the newest documents of a saved search, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        return await make(request, FeedTarget(FeedKind.SAVED, name), form, limit, full=full)

    @app.get("/feeds/story/{document_id}.{form}", tags=[_FEEDS], response_class=Response)
    async def story_feed(
        request: Request, document_id: str, form: Form, limit: Limit = 50, full: Full = False
    ) -> Response:
        """Return the documents of the story of a document, as Atom 1.0 or JSON Feed 1.1. 304 if nothing changed."""
        return await make(request, FeedTarget(FeedKind.STORY, document_id), form, limit, full=full)

    @app.get("/feeds/secret/{secret}.{form}", tags=[_FEEDS], response_class=Response, dependencies=OPEN)
    async def secret_feed(request: Request, secret: str, form: Form) -> Response:
        """Return the feed of a secret address, which needs no token. 304 if nothing changed."""
        feed = await operations.feed_addresses.read(secret, str(request.base_url).rstrip("/"))
        return _answer(request, feed, form, is_secret=True)

    async def make(request: Request, target: FeedTarget, form: Form, limit: int, *, full: bool) -> Response:
        return _answer(request, await feeds.make(target, address=str(request.url), limit=limit, with_text=full), form)

    addresses = operations.feed_addresses

    @app.get("/feed-addresses", tags=[_FEEDS], dependencies=ADMIN)
    async def list_feed_addresses() -> FeedAddressList:
        """List secret addresses by name. Their secret parts are not stored."""
        return await addresses.list_feed_addresses()

    app.post("/feed-addresses", tags=[_FEEDS], status_code=201, dependencies=ADMIN, response_model=AddedFeedAddress)(
        addresses.add
    )
    app.delete("/feed-addresses/{name}", tags=[_FEEDS], dependencies=ADMIN)(addresses.remove)


def add_saved_searches(app: FastAPI, operations: Operations) -> None:
    """Add the routes of saved searches."""
    saved = operations.saved_searches
    app.get("/saved-searches", tags=[_SAVED])(saved.list_saved_searches)
    app.post("/saved-searches/{name}", tags=[_SAVED], status_code=201)(saved.add)
    app.get("/saved-searches/{name}", tags=[_SAVED])(saved.get)
    app.put("/saved-searches/{name}", tags=[_SAVED])(saved.change)
    app.delete("/saved-searches/{name}", tags=[_SAVED])(saved.remove)


def add_channels(app: FastAPI, operations: Operations) -> None:
    """Add the route that adds a channel. The routes of webhooks show, test, disable and remove it."""
    app.post("/channels", tags=["webhooks"], status_code=201)(operations.channels.add)


def add_alarms(app: FastAPI, operations: Operations) -> None:
    """Add the route that lists alarms."""

    @app.get("/alarms", tags=["operation"])
    async def list_alarms(
        only_open: Annotated[bool, Query(description="Leave out alarms that are over.")] = False,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> AlarmList:
        """List alarms: open ones first, then the last ones."""
        return await operations.alarms.list_alarms(only_open=only_open, limit=limit)


def _answer(request: Request, feed: DocumentFeed, form: Form, *, is_secret: bool = False) -> Response:
    body, kind = (write_atom(feed), ATOM_TYPE) if form == "atom" else (write_json(feed), JSON_TYPE)
    headers = {"ETag": make_tag(body)}
    if is_secret:
        headers["Cache-Control"] = "private, no-cache"
    if is_unchanged(headers["ETag"], request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=kind, headers=headers)
