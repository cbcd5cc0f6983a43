"""The pages of hosts: they show which URLs wait for a host, until when, and how often Headwater asks it."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.core.errors import BadRequest
from headwater.core.frontier import HostState, UrlFilter
from headwater.frontier.operations import UrlPage
from headwater.web.texts import count, query_string
from headwater.web.view import View

_LINES = 50
_WAITING = 20
_MOST_ROBOTS = 400  # lines of a robots.txt
_LONGEST_LINE = 200
_MOST_MEMBERS = 100
_FOR = {"": "until it is released", "1": "for an hour", "24": "for a day", "168": "for a week"}
Text = Annotated[str, Form(max_length=300)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_list(app, view)
    _add_host(app, view)
    _add_actions(app, view)


def _add_list(app: FastAPI, view: View) -> None:
    operations = view.operations

    @app.get("/hosts")
    async def show(
        request: Request,
        state: HostState | None = None,
        find: Annotated[str, Query(max_length=300)] = "",
        after: Annotated[str, Query(max_length=300)] = "",
    ) -> Response:
        if find.strip():
            host = await operations.frontier.get_host(find.strip())
            return view.redirect(request, _address(host.host))
        page = await operations.frontier.list_hosts(state=state, after=after, limit=_LINES)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**({"state": state or ""} | changes))

        return view.page(
            request,
            "hosts.html",
            hosts=page.hosts,
            states=list(HostState),
            state=state or "",
            counts=(await operations.frontier.get_stats()).hosts,
            budgets=None if after else await operations.budgets(),
            link=link,
            first=link() if after else "",
            next=link(after=page.next) if page.next else "",
        )


def _add_host(app: FastAPI, view: View) -> None:
    frontier = view.operations.frontier

    @app.get("/hosts/{host}")
    async def show(request: Request, host: str) -> Response:
        shown = await frontier.show_host(host)
        lines = (shown.robots_txt or "").splitlines()
        is_shared = shown.host.startswith(("group:", "domain:"))
        waiting = UrlPage([], None)
        if not is_shared:
            waiting = await frontier.list_urls(UrlFilter(status="pending", host=shown.host), limit=_WAITING)
        return view.page(
            request,
            "host.html",
            host=shown,
            is_shared=is_shared,
            waiting=waiting.urls,
            has_more=waiting.next is not None,
            durations=_FOR,
            robots=[line[:_LONGEST_LINE] for line in lines[:_MOST_ROBOTS]],
            robots_lines=len(lines),
        )


def _address(host: str) -> str:
    return f"/hosts/{host}"


def _add_actions(app: FastAPI, view: View) -> None:
    frontier = view.operations.frontier

    @app.post("/hosts/{host}/block")
    async def block(
        request: Request, host: str, hours: Annotated[Literal["", "1", "24", "168"], Form()] = ""
    ) -> Response:
        line = await frontier.close_host(host, timedelta(hours=int(hours)) if hours else None)
        return view.redirect(request, _address(line.host), f"No request is sent to {line.host} {_FOR[hours]}.")

    @app.post("/hosts/{host}/release")
    async def release(request: Request, host: str) -> Response:
        line = await frontier.open_host(host)
        return view.redirect(request, _address(line.host), f"{line.host} is released.")

    @app.post("/hosts/{host}/ungroup")
    async def ungroup(request: Request, host: str) -> Response:
        (line,) = await frontier.ungroup_hosts([host])
        return view.redirect(request, _address(line.host), f"{line.host} has the turn that the settings give it.")

    @app.post("/group-hosts")
    async def group(
        request: Request, name: Text = "", members: Annotated[str, Form(max_length=30_000)] = ""
    ) -> Response:
        given = [line.strip() for line in members.splitlines() if line.strip()]
        if len(given) > _MOST_MEMBERS:
            raise BadRequest(f"members: {len(given):,} hosts are more than {_MOST_MEMBERS}. Group them in parts.")
        await frontier.group_hosts(name.strip(), given)
        return view.redirect(
            request, "/hosts", f"{count(len(given), 'host')} of the group {name.strip()} share a turn."
        )

    @app.post("/block-host")
    async def block_named(request: Request, host: Text = "") -> Response:
        line = await frontier.close_host(host.strip())
        return view.redirect(request, _address(line.host), f"No request is sent to {line.host} {_FOR['']}.")

    @app.post("/release-hosts")
    async def release_all(request: Request) -> Response:
        released = await frontier.open_all_hosts()
        return view.redirect(request, "/hosts", f"{count(released.released, 'host')} released.")
