"""The pages of sources: the list by health, a source with its polls and runs, its settings, and its removal."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

from fastapi import FastAPI, Form, Query, Request, Response
from starlette.datastructures import FormData

from headwater.api.common import ADMIN, WRITE
from headwater.api.errors import find_status
from headwater.core.errors import BadRequest, HeadwaterError
from headwater.core.source import Method
from headwater.discovery.operations import RunFilter
from headwater.history.sources import describe_event
from headwater.sources.health import SourceDetails, SourceHealth, SourceMethod
from headwater.sources.operations import EditedSource, SourceFilter
from headwater.web.history import draw_items, draw_source, format_lag
from headwater.web.setting_text import format_setting, parse_setting
from headwater.web.texts import count, query_string
from headwater.web.view import View

_LINES = 50
_RUNS = 8
_MOST_PROBLEMS = 20
_LONGEST = 200
_NOW = datetime.min.replace(tzinfo=UTC)  # before all planned times
Text = Annotated[str, Query(max_length=_LONGEST)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_list(app, view)
    _add_source(app, view)
    _add_actions(app, view)
    _add_edit(app, view)
    _add_removal(app, view)


def _add_list(app: FastAPI, view: View) -> None:
    @app.get("/sources")
    async def show(
        request: Request,
        health: SourceHealth | None = None,
        category: Text = "",
        name: Text = "",
        after: Annotated[str | None, Query(max_length=100)] = None,
    ) -> Response:
        chosen = {"health": health or "", "category": category, "name": name.strip()}
        only = SourceFilter(category or None, health, name.strip() or None)
        page = await view.operations.sources.list_page(only, limit=_LINES, after=after)
        trends = await view.operations.history.sources.list_trends([row.name for row in page.sources])

        def link(**changes: object) -> str:
            return request.url.path + query_string(**(chosen | changes))

        return view.page(
            request,
            "sources.html",
            rows=page.sources,
            trends=trends,
            draw_items=draw_items,
            format_lag=format_lag,
            healths=page.health,
            order=list(SourceHealth),
            all=sum(page.health.values()),
            chosen=chosen,
            link=link,
            first=link() if after else "",
            next=link(after=page.next) if page.next else "",
        )

    @app.get("/sources.yaml")
    async def yaml() -> Response:
        return _attach(await view.operations.sources.export_yaml(), "application/yaml", "sources.yaml")

    @app.get("/sources.opml")
    async def opml() -> Response:
        return _attach((await view.operations.sources.export_opml())[0], "text/x-opml", "sources.opml")


def _attach(body: bytes, kind: str, name: str) -> Response:
    return Response(body, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _add_source(app: FastAPI, view: View) -> None:
    @app.get("/sources/{name}")
    async def show(request: Request, name: str) -> Response:
        source = await view.operations.sources.show(name)
        runs = await view.operations.runs.list_runs(RunFilter(source=source.name), _RUNS)
        history = await view.operations.history.sources.show(source.name)
        return view.page(
            request,
            "source.html",
            source=source,
            runs=runs,
            history=history,
            next_polls=_sort_polls(source),
            drawn=draw_source(history),
            describe=describe_event,
            format_lag=format_lag,
            most=_MOST_PROBLEMS,
            can_backfill=any(method.method is Method.SITEMAP for method in source.methods),
            **_list_settings(source),
        )


def _sort_polls(source: SourceDetails) -> list[SourceMethod]:
    """Return the methods that are polled next, the last one first. A poll that runs is the last of the list."""
    times = [(_NOW if method.polling else method.next_poll_at, method) for method in source.methods]
    planned = [(at, method) for at, method in times if at]
    return [method for _, method in sorted(planned, key=lambda pair: pair[0], reverse=True)]


def _list_settings(source: SourceDetails) -> dict[str, Any]:
    own = [(field, format_setting(value)) for field, value in sorted(source.settings.items())]
    defaults = [(field, format_setting(value)) for field, value in source.defaults.items() if value is not None]
    return {"own": own, "defaults": defaults}


def _add_actions(app: FastAPI, view: View) -> None:
    operations = view.operations

    @app.post("/sources/{name}/sync")
    async def sync(request: Request, name: str, method: Annotated[str, Form(max_length=20)] = "") -> Response:
        run = await operations.begin_sync(name, method or None)
        return view.redirect(request, _address(name), f"Run {run.id} reads the source now.")

    @app.post("/sources/{name}/enable")
    async def enable(request: Request, name: str) -> Response:
        await operations.sources.set_enabled(name, enabled=True)
        return view.redirect(request, _address(name), "The source is enabled. It is polled when it is due.")

    @app.post("/sources/{name}/disable")
    async def disable(request: Request, name: str) -> Response:
        await operations.sources.set_enabled(name, enabled=False)
        notice = "The source is disabled: it is not polled. Its queued pages are still fetched."
        return view.redirect(request, _address(name), notice)

    @app.post("/sources/{name}/backfill")
    async def backfill(request: Request, name: str, since: Annotated[date, Form()]) -> Response:
        await operations.sources.request_backfill(name, since)
        return view.redirect(request, _address(name), f"The next poll of the sitemaps goes back to {since}.")


def _address(name: str) -> str:
    return f"/sources/{name}"


def _add_edit(app: FastAPI, view: View) -> None:
    sources = view.operations.sources

    def render(
        request: Request,
        source: SourceDetails,
        texts: Mapping[str, str],
        shown: Mapping[str, str],
        refusal: str = "",
        status: int = 200,
    ) -> Response:
        fields = sorted({*source.settings, *source.defaults})
        return view.page(
            request,
            "source_edit.html",
            status,
            source=source,
            fields=fields,
            texts=texts,
            shown=shown,
            defaults={field: format_setting(value) for field, value in source.defaults.items() if value is not None},
            refusal=refusal,
        )

    @app.get("/sources/{name}/edit", dependencies=WRITE)
    async def show(request: Request, name: str) -> Response:
        source = await sources.show(name)
        own = {field: format_setting(value) for field, value in source.settings.items()}
        return render(request, source, own, own)

    @app.post("/sources/{name}/edit")
    async def edit(request: Request, name: str) -> Response:
        source = await sources.show(name)
        form = await request.form()
        sent, shown = _read_texts(form, "set."), _read_texts(form, "shown.")
        # A poll may have learned a setting since the form was shown.
        edits = {field: text for field, text in sent.items() if text != shown.get(field, "")}
        changes = {field: parse_setting(text) for field, text in edits.items() if text}
        unset = [field for field, text in edits.items() if not text and field in source.settings]
        if not changes and not unset:
            return view.redirect(request, _address(name), "The settings are as they were.")
        try:
            edited = await sources.edit(name, changes, unset)
        except HeadwaterError as error:
            return render(request, source, sent, shown, str(error), find_status(error.reason))
        return view.redirect(request, _address(name), _describe_changes(edited))


def _read_texts(form: FormData, prefix: str) -> dict[str, str]:
    """Return the texts of the fields whose names begin with a prefix, by the rest of the name."""
    return {
        key.removeprefix(prefix): value.strip()
        for key, value in form.items()
        if key.startswith(prefix) and isinstance(value, str)
    }


def _describe_changes(edited: EditedSource) -> str:
    changed = (
        f"{one.field} was {format_setting(one.before)}, is {format_setting(one.after)}" for one in edited.changed
    )
    return "; ".join(changed) + "." if edited.changed else "The settings are as they were."


def _add_removal(app: FastAPI, view: View) -> None:
    operations = view.operations

    @app.get("/sources/{name}/remove", dependencies=WRITE)
    async def ask(request: Request, name: str) -> Response:
        return view.page(request, "source_remove.html", source=await operations.sources.show(name))

    @app.post("/sources/{name}/remove")
    async def remove(request: Request, name: str) -> Response:
        removed = await operations.sources.remove(name)
        kept = "Its items and documents are kept" if removed.kept else "It had no items"
        ended = f", and {count(removed.ended_urls, 'queued page')} will not be fetched" if removed.ended_urls else ""
        return view.redirect(request, "/sources", f"Source {name} is removed. {kept}{ended}.")

    @app.post("/sources/{name}/purge", dependencies=ADMIN)
    async def purge(request: Request, name: str, confirm: Annotated[str, Form(max_length=100)] = "") -> Response:
        if confirm.strip() != name:
            raise BadRequest(f"confirm: type the name {name} to delete everything of this source. Nothing was changed.")
        await operations.upkeep.begin_purge(name)
        notice = f"Source {name} is removed. The running program deletes its items, URLs, documents and raw files."
        return view.redirect(request, "/sources", notice)
