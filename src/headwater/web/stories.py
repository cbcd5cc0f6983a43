"""The pages of stories, and the lines of other pages that open to a story."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import FastAPI, Query, Request, Response

from headwater.core.record import RowId
from headwater.documents.diff import ParagraphChange
from headwater.stories.operations import FoldedLine, fold_lines
from headwater.web.texts import query_string
from headwater.web.view import View

T = TypeVar("T")
_STORIES = 30
_MOST_CHANGE_BYTES = 70_000  # of a comparison


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    stories = view.operations.stories

    @app.get("/stories")
    async def show_list(request: Request, before: RowId | None = None) -> Response:
        page = await stories.list_page(limit=_STORIES, before=before)
        return view.page(
            request,
            "stories.html",
            stories=page.stories,
            first=request.url.path if before else "",
            next=request.url.path + query_string(before=page.next) if page.next else "",
        )

    @app.get("/stories/{document_id}")
    async def show(request: Request, document_id: RowId) -> Response:
        story = await stories.get(document_id)
        return view.page(request, "story.html", story=story, members={one.id: one for one in story.documents})

    @app.get("/stories/{document_id}/diff")
    async def diff(
        request: Request, document_id: RowId, other: Annotated[RowId | None, Query(alias="from")] = None
    ) -> Response:
        found = await stories.diff(document_id, other)
        changes = list_shown(found.changes)
        is_whole = found.has_all_changes and len(changes) == len(found.changes)
        return view.page(request, "story_diff.html", diff=found, changes=changes, is_whole=is_whole)


def list_shown(changes: Sequence[ParagraphChange]) -> list[ParagraphChange]:
    """Return the first changes, as many as fit a page."""
    shown: list[ParagraphChange] = []
    used = 0
    for change in changes:
        used += sum(len(piece.text.encode()) + 30 for piece in change.pieces)
        if used > _MOST_CHANGE_BYTES and shown:
            break
        shown.append(change)
    return shown


async def fold_stories(view: View, lines: Sequence[T], document_of: Callable[[T], int | None]) -> list[FoldedLine[T]]:
    """Return one line for each story. It is where the first document of the story is among the lines."""
    ids = [number for line in lines if (number := document_of(line)) is not None]
    stories = (await view.operations.stories.list_of(ids)).stories if ids else []
    return fold_lines(lines, document_of, stories)
