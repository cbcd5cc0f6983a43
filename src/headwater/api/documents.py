"""Routes that read and delete documents and explain URLs."""

from typing import Annotated, Literal

from fastapi import FastAPI, Query, Response

from headwater.api.common import ADMIN, Content, attach
from headwater.app.operations import Operations
from headwater.core.record import RowId
from headwater.documents.operations import DocumentDiff, DocumentLeads, DocumentPage
from headwater.explain.operations import Why
from headwater.search.operations import LONGEST_QUERY, Hits

_TAG = "reading"


def add_documents(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    documents = operations.documents

    @app.get("/documents", tags=[_TAG])
    async def list_documents(
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
        source: str | None = None,
    ) -> DocumentPage:
        """List documents, newest first."""
        return await documents.list_page(limit=limit, before=before, source=source)

    app.get("/disk", tags=[_TAG])(operations.upkeep.measure_disk)
    app.get("/why", tags=[_TAG], response_model=Why)(operations.why)

    @app.get("/documents/leads", tags=[_TAG])
    async def list_leads(
        ids: Annotated[list[RowId], Query(alias="id", min_length=1, max_length=100, description="Of documents.")],
    ) -> DocumentLeads:
        """Return what documents are about. Unknown ids are left out."""
        return await documents.list_leads(ids)

    app.get("/documents/{document_id}", tags=[_TAG])(documents.get)

    app.delete("/documents/{document_id}", tags=[_TAG], dependencies=ADMIN)(documents.delete)

    @app.get("/documents/{document_id}/markdown", tags=[_TAG], response_class=Response)
    async def get_markdown(document_id: int) -> Response:
        """Return a document as Markdown, made from its raw file. One request at a time; others get 503 after a wait."""
        return Response(await documents.make_markdown(document_id), media_type="text/markdown; charset=utf-8")

    app.get("/documents/{document_id}/trace", tags=[_TAG])(documents.trace)

    @app.get("/documents/{document_id}/raw", tags=[_TAG], response_class=Response)
    async def get_raw(document_id: int) -> Response:
        """Return the raw file of a document as a download: the bytes of its page, which may be hostile."""
        return attach(await documents.read_raw(document_id))

    @app.get("/documents/{document_id}/diff", tags=[_TAG])
    async def diff_document(
        document_id: int,
        before: Annotated[int | None, Query(alias="from", ge=1, description="By default the one before.")] = None,
        after: Annotated[int | None, Query(alias="to", ge=1, description="By default the last.")] = None,
    ) -> DocumentDiff:
        """Compare two revisions of a document by paragraphs and words."""
        return await documents.diff(document_id, before, after)

    @app.get("/search", tags=[_TAG])
    async def search(
        q: Annotated[
            str,
            Query(
                min_length=1,
                max_length=LONGEST_QUERY,
                description='Words, "a phrase", or, -not, site: source: category: topic: lang: before: after: title:.',
            ),
        ],
        only: Content,
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        cursor: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
        sort: Annotated[Literal["best", "newest"], Query(description="Which hits are first.")] = "best",
    ) -> Hits:
        """Search titles, bylines and texts, best first."""
        return await operations.search.find(q, only, limit=limit, cursor=cursor, newest_first=sort == "newest")
