"""The pages of a document: its text, its fields and their origin, its revisions and their differences, its raw file."""

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from markupsafe import Markup

from headwater.api.common import attach
from headwater.core.errors import HeadwaterError
from headwater.core.record import RowId
from headwater.documents.operations import Document
from headwater.web.markdown import render_markdown, render_text, split_parts
from headwater.web.stories import list_shown
from headwater.web.view import View

_MARKDOWN_SECONDS = 1.5
_LARGEST_RAW = 2_000_000  # bytes; a larger file takes too long to read for a page
_MOST_ROWS = 40  # of a table that the text cannot show
_MOST_CELLS = 20
_MOST_REVISIONS = 20
_FIELDS = {
    "title": "Title",
    "byline": "Author",
    "published_at": "Published",
    "updated_at": "Updated",
    "language": "Language",
    "abstract": "Abstract",
    "image": "Picture",
    "canonical_url": "Canonical address",
    "text": "Text",
}


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    documents = view.operations.documents

    @app.get("/documents/{document_id}")
    async def show(request: Request, document_id: RowId, part: Annotated[int, Query(ge=1, le=100_000)] = 1) -> Response:
        document = await documents.get(document_id)
        trace = await documents.trace(document_id)
        stories = (await view.operations.stories.list_of([document_id])).stories
        markdown = await _read_markdown(document)
        text = _drop_title(document.text if markdown is None else markdown, document.title)
        parts = await asyncio.to_thread(split_parts, text)
        part = min(part, len(parts))
        render = render_text if markdown is None else render_markdown
        body: Markup = await asyncio.to_thread(render, parts[part - 1])
        tables = [
            (table, [row[:_MOST_CELLS] for row in table["rows"][:_MOST_ROWS]]) for table in document.artifacts[:5]
        ]
        return view.page(
            request,
            "document.html",
            document=document,
            trace=trace,
            story=stories[0] if stories else None,
            abstract=None if _begins_with(document.text, document.abstract) else document.abstract,
            body=body,
            is_formatted=markdown is not None,
            part=part,
            parts=len(parts),
            tables=tables if part == len(parts) else [],
            fields={name: label for name, label in _FIELDS.items() if name in document.provenance},
            revisions=document.revisions[:_MOST_REVISIONS],
        )

    async def _read_markdown(document: Document) -> str | None:
        """Return the text as Markdown, if it can be read at once."""
        if document.normalizer.startswith("pdf"):
            return document.text  # it is Markdown
        if document.raw_bytes > _LARGEST_RAW:
            return None
        try:
            async with asyncio.timeout(_MARKDOWN_SECONDS):
                return await documents.make_markdown(document.id)
        except (HeadwaterError, TimeoutError):
            return None

    @app.get("/documents/{document_id}/diff")
    async def diff(
        request: Request,
        document_id: RowId,
        before: Annotated[int | None, Query(alias="from", ge=1)] = None,
        after: Annotated[int | None, Query(alias="to", ge=1)] = None,
    ) -> Response:
        document = await documents.get(document_id)
        found = await documents.diff(document_id, before, after)
        shown = list_shown(found.changes)
        return view.page(
            request,
            "diff.html",
            document=document,
            diff=found,
            changes=shown,
            is_whole=found.has_all_changes and len(shown) == len(found.changes),
            numbers=range(found.last, max(0, found.last - _MOST_REVISIONS), -1),
        )

    @app.get("/documents/{document_id}/raw")
    async def raw(document_id: RowId) -> Response:
        return attach(await documents.read_raw(document_id))


def _drop_title(text: str, title: str) -> str:
    """Return a text without its first line, if that is the title, which the page shows above."""
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if title and first.lstrip("# ").replace("\\", "") == title else text


def _begins_with(text: str, abstract: str | None) -> bool:
    """Return whether the text repeats its abstract near its beginning, so that the page shows it once."""
    return abstract is not None and abstract.rstrip(".… ") in text[: 3 * len(abstract) + 500]
