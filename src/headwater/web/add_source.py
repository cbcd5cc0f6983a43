"""The pages that add sources: by an address, by a kind, or from a file; and the page that tests an address."""

from typing import Annotated, Any, get_args

from fastapi import FastAPI, File, Form, Request, Response, UploadFile

from headwater.api.common import WRITE
from headwater.api.errors import find_status
from headwater.core.errors import BadRequest, HeadwaterError
from headwater.discovery.source_operations import AddedSource
from headwater.sources.import_export import MAX_FILE_BYTES
from headwater.sources.kinds.site import IngestionMode
from headwater.sources.registry import get_kinds
from headwater.web.setting_text import parse_settings
from headwater.web.texts import count
from headwater.web.view import View

_LONGEST_URL = 4000
_LONGEST_SETTINGS = 50_000
_MOST_SHOWN = 100  # of an import
_LONGEST_AGAIN = 60_000  # characters of a list that the form shows again
_MODES = {
    "feed": "its feed or sitemaps",
    "list": "this page, as a list of others",
    "spider": "the links of its pages",
    "both": "its feed and the links of its pages",
}
Url = Annotated[str, Form(max_length=_LONGEST_URL)]
Name = Annotated[str, Form(max_length=100)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_forms(app, view)
    _add_test(app, view)
    _add_import(app, view)


def _add_forms(app: FastAPI, view: View) -> None:
    sources = view.operations.sources

    def render(request: Request, status: int = 200, refusal: str = "", **given: Any) -> Response:
        empty = {"url": "", "name": "", "mode": "feed", "kind": "", "settings": "", "category": ""}
        values = {"modes": _MODES, "kinds": sorted(get_kinds()), "refusal": refusal, "given": empty | given}
        return view.page(request, "add_source.html", status, **values)

    @app.get("/add-source", dependencies=WRITE)
    async def form(request: Request, url: str = "") -> Response:
        return render(request, url=url[:_LONGEST_URL])

    @app.post("/add-source")
    async def add(
        request: Request,
        url: Url = "",
        name: Name = "",
        mode: Annotated[str, Form(max_length=20)] = "feed",
        category: Annotated[str, Form(max_length=200)] = "",
    ) -> Response:
        given = {"url": url.strip(), "name": name.strip(), "mode": mode, "category": category.strip()}
        settings = {"category": given["category"]} if given["category"] else {}
        try:
            if mode not in get_args(IngestionMode):
                raise BadRequest(f"mode: choose one of {', '.join(get_args(IngestionMode))}.")
            if not given["url"]:
                raise BadRequest("url: give the address of a feed or of a site.")
            added = await sources.add(given["url"], given["name"] or None, settings, mode=mode)
        except HeadwaterError as error:
            return render(request, find_status(error.reason), str(error), **given)
        return view.redirect(request, f"/sources/{added.name}", _describe(added))

    @app.post("/add-source/kind")
    async def create(
        request: Request,
        name: Name = "",
        kind: Annotated[str, Form(max_length=100)] = "",
        settings: Annotated[str, Form(max_length=_LONGEST_SETTINGS)] = "",
    ) -> Response:
        try:
            source = await sources.create(name.strip(), kind, parse_settings(settings))
        except HeadwaterError as error:
            given = {"name": name.strip(), "kind": kind, "settings": settings}
            return render(request, find_status(error.reason), str(error), **given)
        return view.redirect(request, f"/sources/{source.name}", f"Source {source.name} is added.")


def _describe(added: AddedSource) -> str:
    title = f" ({added.title})" if added.title else ""
    if added.links is not None:
        return f"Source {added.name} is added. Its start page has {count(added.links, 'link')}; a spider follows them."
    if added.deferred:
        return f"Source {added.name} is added. Its first poll has not ended; the running program continues it."
    found = f"{count(added.items, 'item')}, {count(added.new_urls, 'new page')} to fetch"
    return f"Source {added.name}{title} is added: {found}."


def _add_test(app: FastAPI, view: View) -> None:
    @app.get("/test-source", dependencies=WRITE)
    async def form(request: Request, target: str = "") -> Response:
        return view.page(request, "test_source.html", target=target[:_LONGEST_URL], result=None, refusal="")

    @app.post("/test-source")
    async def test(request: Request, target: Url = "") -> Response:
        wanted, result, refusal, status = target.strip(), None, "", 200
        try:
            result = await view.operations.sources.test(wanted)
        except HeadwaterError as error:
            refusal, status = str(error), find_status(error.reason)
        return view.page(request, "test_source.html", status, target=wanted, result=result, refusal=refusal)


def _add_import(app: FastAPI, view: View) -> None:
    def render(request: Request, status: int = 200, **values: Any) -> Response:
        empty = {"text": "", "result": None, "refusal": "", "most": _MOST_SHOWN}
        return view.page(request, "import_sources.html", status, **(empty | values))

    @app.get("/import-sources", dependencies=WRITE)
    async def form(request: Request) -> Response:
        return render(request)

    @app.post("/import-sources")
    async def read(
        request: Request,
        file: Annotated[UploadFile | None, File()] = None,
        text: Annotated[str, Form(max_length=MAX_FILE_BYTES)] = "",
        dry_run: Annotated[bool, Form()] = False,
    ) -> Response:
        body = await file.read(MAX_FILE_BYTES + 1) if file and file.filename else text.encode()
        shown = body.decode(errors="replace") if dry_run or not (file and file.filename) else ""
        again = shown if len(shown) <= _LONGEST_AGAIN else ""
        try:
            if not body.strip():
                raise BadRequest("file: choose an OPML or YAML file, or paste its text.")
            result = await view.operations.sources.import_list(body, dry_run=dry_run)
        except HeadwaterError as error:
            return render(request, find_status(error.reason), text=again, refusal=str(error))
        return render(request, text=again if dry_run else "", result=result)
