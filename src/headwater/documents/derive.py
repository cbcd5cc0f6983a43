"""What a document's raw file says when it is read again; its Markdown, which is not kept, whenever it is wanted."""

import asyncio
import hashlib
from contextlib import AbstractAsyncContextManager

from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.db.context import DatabaseContext
from headwater.db.verify import StoredDocument, documents_to_verify
from headwater.extraction.registry import NormalizedPage, normalize_as
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus

_LARGEST_ID = 2**63 - 1


class Deriving:
    """Makes Markdown of documents, one at a time: whoever asks often must not take the sandbox from the crawl."""

    def __init__(self, context: DatabaseContext, *, patience_seconds: float = 5.0) -> None:
        self._context = context
        self.patience_seconds = patience_seconds  # that one waits for another
        self.turn = asyncio.Lock()

    async def markdown(self, lent: AbstractAsyncContextManager[Sandbox], document_id: int) -> str:
        """Return a document as Markdown, in the sandbox and by the normalizer that read it first."""
        document = await _stored(self._context, document_id)
        try:
            async with asyncio.timeout(self.patience_seconds):
                await self.turn.acquire()
        except TimeoutError:
            raise HeadwaterError(Reason.BUSY.sentence, reason=Reason.BUSY) from None
        try:
            return await self._derived(lent, document)
        finally:
            self.turn.release()

    async def _derived(self, lent: AbstractAsyncContextManager[Sandbox], document: StoredDocument) -> str:
        body = await asyncio.to_thread(_raw, self._context, document)
        async with lent as sandbox:
            page = await derive(sandbox, document, body, self._context.settings.sandbox_seconds)
        return page.article.markdown or page.article.text


async def derive(sandbox: Sandbox, document: StoredDocument, body: bytes, seconds: float) -> NormalizedPage:
    """Read the raw file of a document as it was read when it was stored."""
    return await sandbox.run(
        normalize_as,
        document.normalizer,
        body,
        document.fetched_url or document.url,
        document.content_type,
        document.selectors,
        returns=NormalizedPage,
        seconds=seconds,
    )


async def _stored(context: DatabaseContext, document_id: int) -> StoredDocument:
    found = []
    if 0 < document_id <= _LARGEST_ID:
        found = await context.database.transact(
            lambda connection: documents_to_verify(
                connection, after=document_id - 1, last=document_id, source_id=None, limit=1
            )
        )
    if not found:
        raise HeadwaterError(f"There is no document {document_id}.", reason=Reason.UNKNOWN_DOCUMENT)
    return found[0]


def _raw(context: DatabaseContext, document: StoredDocument) -> bytes:
    try:
        body = Corpus(context.settings.data_dir / "corpus").read(document.raw_path, document.raw_bytes + 1)
    except OSError:
        body = b""
    if hashlib.sha256(body).digest() != document.raw_hash:
        raise StorageFailed(
            f"The raw file of document {document.id} is not the one it was made from; `headwater verify` tells more."
        )
    return body
