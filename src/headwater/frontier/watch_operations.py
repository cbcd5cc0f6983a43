"""Operations on watched pages: set a re-fetch policy, take it away, list. They use only the database."""

from dataclasses import dataclass, replace

from headwater.core.errors import BadRequest, InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.refetch import parse_policy
from headwater.core.url_input import redact
from headwater.db import watches
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.watches import WatchRow
from headwater.frontier.operations import FrontierOperations
from headwater.frontier.submit import find_url
from headwater.frontier.watches import Watch, describe_watch, plan_anew


@record
class WatchPage:
    """A page of watched pages, the oldest URL first."""

    watches: list[Watch]
    next: int | None
    """The `after` of the next page; null on the last page."""


@dataclass(frozen=True, slots=True)
class WatchOperations:
    """Operations on watched pages."""

    context: DatabaseContext
    frontier: FrontierOperations

    async def watch(self, url: str, policy: str, source: str | None = None) -> Watch:
        """Give a page a re-fetch policy of its own. An unknown URL is submitted, for `manual` or another source."""
        try:
            parse_policy(policy)
        except ValueError as error:
            raise BadRequest(f"The re-fetch policy {redact(policy)!r} {error}.") from None
        if source is not None or await self.context.database.run(find_url, url) is None:
            (submitted,) = await self.frontier.submit([url], source)
            if submitted.refusal:
                raise InvalidURL(submitted.refusal, url=submitted.given)
        return await self.context.database.transact(self._set, url, policy)

    async def unwatch(self, url: str) -> Watch:
        """Take the policy of a page away. The policy of its source holds again."""
        return await self.context.database.transact(self._set, url, None)

    async def _set(self, connection: Connection, url: str, policy: str | None) -> Watch:
        known = await find_url(connection, url)
        if known is None:
            raise OperatorError(f"{redact(url)} has never been seen here.", reason=Reason.UNKNOWN_URL)
        row = replace(await _get(connection, known.id), own_policy=policy)
        if policy or (row.policy and row.has_document):
            await watches.set_policy(connection, policy, plan_anew(row, self.context.clock.now()))
        else:
            await watches.end_watches(connection, [row.url_id])
        return describe_watch(await _get(connection, known.id))

    async def list_watches(self, *, with_sources: bool = False, after: int = 0, limit: int = 100) -> WatchPage:
        """List the pages with a re-fetch policy of their own, or also those that only their source watches."""
        rows = await self.context.database.transact(
            watches.list_watches, with_sources=with_sources, after=after, limit=limit
        )
        return WatchPage([describe_watch(row) for row in rows], rows[-1].url_id if len(rows) == limit else None)


async def _get(connection: Connection, url_id: int) -> WatchRow:
    (row,) = await watches.get_watches(connection, [url_id])
    return row
