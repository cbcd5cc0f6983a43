"""The pages of saved searches and of secret feed addresses."""

from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.api.common import ADMIN
from headwater.api.errors import find_status
from headwater.core.errors import HeadwaterError
from headwater.notify.channels import DeliveryTimes, NewChannel
from headwater.notify.operations import AddedFeedAddress, FeedKind, NewFeedAddress, SearchTerms
from headwater.search.operations import LONGEST_QUERY
from headwater.web.view import View

_PATH = "/saved-searches"
_MOST_SHOWN = 100
Field = Annotated[str, Form(max_length=500)]
Words = Annotated[str, Form(max_length=4000)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_list(app, view)
    _add_search(app, view)
    _add_addresses(app, view)


def _add_list(app: FastAPI, view: View) -> None:
    saved = view.operations.saved_searches

    @app.get(_PATH)
    async def show(request: Request, q: Annotated[str, Query(max_length=LONGEST_QUERY)] = "") -> Response:
        return await _render_list(view, request, words=q)

    @app.post(_PATH)
    async def add(request: Request, name: Field = "", words: Words = "") -> Response:
        try:
            added = await saved.add(name.strip(), SearchTerms(words.strip()))
        except HeadwaterError as error:
            status = find_status(error.reason)
            return await _render_list(view, request, status, name=name, words=words, refusal=str(error))
        return view.redirect(request, f"{_PATH}/{added.name}", "The search is saved.")


async def _render_list(
    view: View, request: Request, status: int = 200, *, name: str = "", words: str = "", refusal: str = ""
) -> Response:
    found = (await view.operations.saved_searches.list_saved_searches()).saved_searches
    return view.page(
        request,
        "saved_searches.html",
        status,
        saved=found[:_MOST_SHOWN],
        more=len(found) - _MOST_SHOWN,
        name=name,
        words=words,
        refusal=refusal,
    )


def _add_search(app: FastAPI, view: View) -> None:
    saved = view.operations.saved_searches

    @app.get(_PATH + "/{name}")
    async def show(request: Request, name: str) -> Response:
        one = await saved.get(name)
        return await _render_search(view, request, name, SearchTerms(one.words, *_read_filters(one)))

    @app.post(_PATH + "/{name}")
    async def change(
        request: Request,
        name: str,
        words: Words = "",
        source: Field = "",
        category: Field = "",
        topic: Field = "",
        language: Field = "",
    ) -> Response:
        given = (one.strip() or None for one in (source, category, topic, language))
        terms = SearchTerms(words.strip(), *given)
        try:
            await saved.change(name, terms)
        except HeadwaterError as error:
            return await _render_search(view, request, name, terms, find_status(error.reason), str(error))
        return view.redirect(request, f"{_PATH}/{name}", "The search is changed.")

    @app.post(_PATH + "/{name}/channels")
    async def add_channel(
        request: Request, name: str, channel: Field = "", address: Words = "", daily_at: Field = "", zone: Field = ""
    ) -> Response:
        one = await saved.get(name)
        terms = SearchTerms(one.words, *_read_filters(one))
        try:
            times = DeliveryTimes(int(daily_at) if daily_at.isdecimal() else None, zone.strip() or None)
            await view.operations.channels.add(NewChannel(channel.strip(), address.strip(), name, times))
        except HeadwaterError as error:
            return await _render_search(view, request, name, terms, find_status(error.reason), str(error))
        return view.redirect(request, f"{_PATH}/{name}", "The channel is added. Test it on its page.")

    @app.post(_PATH + "/{name}/remove")
    async def remove(request: Request, name: str) -> Response:
        await saved.remove(name)
        return view.redirect(request, _PATH, f"The saved search {name} is removed.")


async def _render_search(
    view: View, request: Request, name: str, terms: SearchTerms, status: int = 200, refusal: str = ""
) -> Response:
    one = await view.operations.saved_searches.get(name)
    receivers = [each for each in await view.operations.webhooks.list_webhooks() if each.search == one.name]
    return view.page(request, "saved_search.html", status, saved=one, terms=terms, receivers=receivers, refusal=refusal)


def _read_filters(saved: object) -> list[str | None]:
    return [getattr(saved, name) for name in ("source", "category", "topic", "language")]


def _add_addresses(app: FastAPI, view: View) -> None:
    addresses = view.operations.feed_addresses

    async def render(
        request: Request,
        status: int = 200,
        *,
        kind: str = "",
        value: str = "",
        refusal: str = "",
        added: AddedFeedAddress | None = None,
    ) -> Response:
        found = (await addresses.list_feed_addresses()).feed_addresses
        return view.page(
            request,
            "feed_addresses.html",
            status,
            addresses=found[:_MOST_SHOWN],
            more=len(found) - _MOST_SHOWN,
            kinds=list(FeedKind),
            kind=kind,
            value=value,
            refusal=refusal,
            added=str(request.base_url.replace(path="")).rstrip("/") + added.path if added else "",
        )

    @app.get("/feed-addresses", dependencies=ADMIN)
    async def show(
        request: Request,
        kind: Annotated[str, Query(max_length=20)] = "",
        value: Annotated[str, Query(max_length=LONGEST_QUERY)] = "",
    ) -> Response:
        return await render(request, kind=kind, value=value)

    @app.post("/feed-addresses", dependencies=ADMIN)
    async def add(
        request: Request,
        kind: Annotated[FeedKind, Form()],
        name: Field = "",
        value: Words = "",
        full: Field = "",
    ) -> Response:
        """Add an address. This page is the only one that shows it."""
        try:
            added = await addresses.add(NewFeedAddress(name.strip(), kind, value.strip(), with_text=bool(full)))
        except HeadwaterError as error:
            return await render(request, find_status(error.reason), kind=kind, value=value, refusal=str(error))
        return await render(request, added=added)

    @app.post("/feed-addresses/{name}/remove", dependencies=ADMIN)
    async def remove(request: Request, name: str) -> Response:
        await addresses.remove(name)
        return view.redirect(request, "/feed-addresses", f"The feed address {name} is removed.")
