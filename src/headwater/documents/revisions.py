"""What a door may ask of revisions: what changed from one to another."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import documents
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.documents.diff import TextDiff, diff_texts
from headwater.frontier.submit import find

_LARGEST_ID = 2**63 - 1
_LONGEST_ID = 19  # digits
_LARGEST_REVISION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Revisions:
    """Two revisions of a document, when each came and was last fetched, and what changed from one to the other."""

    document_id: int
    url: str
    before: int
    after: int
    last: int
    before_came_at: datetime
    after_came_at: datetime
    before_fetched_at: datetime
    after_fetched_at: datetime
    diff: TextDiff


class RevisionOperations:
    """Answers from the texts that are kept."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def find(self, given: str) -> int:
        """Return the number of a document that is given by it, or by its URL."""
        if given.isascii() and given.isdigit():
            number = given.lstrip("0") or "0"
            if len(number) > _LONGEST_ID:
                told = f"There is no document with a number of {len(number):,} digits."
                raise HeadwaterError(told, reason=Reason.UNKNOWN_DOCUMENT)
            return int(number)
        if "/" not in given and "." in given and given.replace(".", "").strip("+-").isdigit():
            told = f"{redact(given)} is no number of a document: those are whole, and from 1 on."
            raise HeadwaterError(told, reason=Reason.UNKNOWN_DOCUMENT)
        async with self._context.database.connection() as connection:
            known = await find(connection, make_storable(given))
            document_id = await documents.document_of_url(connection, known.id) if known else None
        if document_id is None:
            raise HeadwaterError(f"There is no document of {redact(given)}.", reason=Reason.UNKNOWN_DOCUMENT)
        return document_id

    async def diff(self, document_id: int, before: int | None = None, after: int | None = None) -> Revisions:
        """Compare two revisions, by default the last with the one before it."""
        async with self._context.database.connection() as connection:
            new = await self._revision(connection, document_id, after)
            if before is None and after == 1 < new["last_revision"]:
                raise HeadwaterError(
                    f"Revision 1 is the first of document {document_id}: nothing comes before it to compare it with; "
                    f"name another, up to {new['last_revision']}.",
                    reason=Reason.UNKNOWN_REVISION,
                )
            old = await self._revision(
                connection, document_id, max(1, new["revision"] - 1) if before is None else before
            )
        texts = (old["text"], new["text"], old["title"], new["title"])
        return Revisions(
            document_id,
            new["url"],
            old["revision"],
            new["revision"],
            new["last_revision"],
            old["came_at"],
            new["came_at"],
            old["fetched_at"],
            new["fetched_at"],
            await asyncio.to_thread(diff_texts, *texts),
        )

    async def _revision(self, connection: Connection, document_id: int, number: int | None) -> dict[str, Any]:
        if not 0 < document_id <= _LARGEST_ID:
            raise _unknown(document_id)
        wanted = None if number is None else min(number, _LARGEST_REVISION)
        found = await documents.revision_text(connection, document_id, wanted)
        if found:
            return found
        known = await documents.revision_text(connection, document_id, None)
        if known is None:
            raise _unknown(document_id)
        raise HeadwaterError(
            f"Document {document_id} has no revision {number}; its last is {known['last_revision']}.",
            reason=Reason.UNKNOWN_REVISION,
        )


def _unknown(document_id: int) -> HeadwaterError:
    return HeadwaterError(f"There is no document {document_id}.", reason=Reason.UNKNOWN_DOCUMENT)
