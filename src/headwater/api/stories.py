"""Routes that read stories."""

from typing import Annotated

from fastapi import FastAPI, Query

from headwater.app.operations import Operations
from headwater.core.record import RowId
from headwater.stories.operations import DocumentStories, StoryDiff, StoryPage

_TAG = "reading"


def add_stories(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    stories = operations.stories

    @app.get("/stories", tags=[_TAG])
    async def list_stories(
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        before: Annotated[RowId | None, Query(description="The `next` of the page before.")] = None,
    ) -> StoryPage:
        """List the stories of two documents or more, the one that got a document last first."""
        return await stories.list_page(limit=limit, before=before)

    @app.get("/stories/of", tags=[_TAG])
    async def list_stories_of(
        ids: Annotated[list[RowId], Query(alias="id", min_length=1, max_length=200, description="Of documents.")],
    ) -> DocumentStories:
        """Return the stories that documents belong to. A document that is alone in its story is left out."""
        return await stories.list_of(ids)

    app.get("/stories/{document_id}", tags=[_TAG])(stories.get)

    @app.get("/stories/{document_id}/diff", tags=[_TAG])
    async def diff_documents(
        document_id: int,
        other: Annotated[
            RowId | None,
            Query(
                alias="from", description="A document of the story; by default the one it copied, or else the oldest."
            ),
        ] = None,
    ) -> StoryDiff:
        """Compare a document with another one of its story by paragraphs and words."""
        return await stories.diff(document_id, other)
