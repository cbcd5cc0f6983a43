"""Operations on saved searches and on secret addresses of feeds."""

import secrets
from datetime import timedelta
from hashlib import sha256

from headwater.core.errors import BadRequest, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.search_query import LONGEST_QUERY, parse_query
from headwater.core.source import SOURCE_NAME
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import feed_addresses, saved_searches
from headwater.db.context import DatabaseContext
from headwater.db.feed_addresses import FeedAddress as FeedAddress
from headwater.db.feed_addresses import FeedKind as FeedKind
from headwater.db.items import ContentFilter
from headwater.db.saved_searches import SavedSearch as SavedSearch
from headwater.db.saved_searches import SearchTerms as SearchTerms
from headwater.documents.content_filter import prepare_filter
from headwater.notify.feeds import FeedOperations, FeedTarget
from headwater.search.feed import DocumentFeed

_MOST = 1000  # saved searches, and addresses of feeds
_SECRET_PATH = "/feeds/secret"  # noqa: S105 (a path)
_USED_AGAIN = timedelta(minutes=1)


@record
class SavedSearchList:
    """All saved searches by name."""

    saved_searches: list[SavedSearch]


@record
class RemovedSavedSearch:
    """The name of a removed saved search."""

    name: str


@record
class NewFeedAddress:
    """A secret address of a feed, to make."""

    name: str
    """A word, such as the name of the reader that will use it."""
    kind: FeedKind
    """What the feed shows."""
    value: str
    """A day, `today` or `latest`; a source, a category, the words of a search, or the name of a saved search."""
    with_text: bool = False
    """Whether entries have the whole text."""


@record
class AddedFeedAddress(FeedAddress):
    """A new address. It is never shown again."""

    path: str
    """The path of the feed on this server as Atom. With `.json` in place of `.atom` it is a JSON Feed."""


@record
class FeedAddressList:
    """All addresses by name, without their secret parts."""

    feed_addresses: list[FeedAddress]


@record
class RemovedFeedAddress:
    """The name of a removed address."""

    name: str


class SavedSearchOperations:
    """Operations on saved searches."""

    def __init__(self, context: DatabaseContext) -> None:
        self._clock = context.clock
        self._database = context.database

    async def add(self, name: str, terms: SearchTerms) -> SavedSearch:
        """Save a search under a name: a word such as flood-news."""
        name, checked = _check_name(name), await self._check_terms(terms)
        if len(await self._database.run(saved_searches.list_saved_searches)) >= _MOST:
            raise BadRequest(f"There are {_MOST} saved searches. Remove one first.")
        if not await self._database.run(saved_searches.add_saved_search, name, checked, self._clock.now()):
            raise OperatorError(f"There is already a saved search {name}.", reason=Reason.SAVED_SEARCH_EXISTS)
        return await self.get(name)

    async def list_saved_searches(self) -> SavedSearchList:
        """List saved searches by name."""
        return SavedSearchList(await self._database.run(saved_searches.list_saved_searches))

    async def get(self, name: str) -> SavedSearch:
        """Return a saved search."""
        found = await self._database.run(saved_searches.list_saved_searches, make_storable(name))
        if not found:
            raise unknown_saved_search(name)
        return found[0]

    async def change(self, name: str, terms: SearchTerms) -> SavedSearch:
        """Change what a saved search finds. Its receivers get the documents that match from now on."""
        checked = await self._check_terms(terms)
        if not await self._database.run(saved_searches.change_saved_search, make_storable(name), checked):
            raise unknown_saved_search(name)
        return await self.get(name)

    async def remove(self, name: str) -> RemovedSavedSearch:
        """Remove a saved search with its receivers and what they have not got yet."""
        if not await self._database.run(saved_searches.remove_saved_search, make_storable(name)):
            raise unknown_saved_search(name)
        return RemovedSavedSearch(name)

    async def _check_terms(self, terms: SearchTerms) -> SearchTerms:
        """Return the terms as they are stored. Refuse a search that can find nothing."""
        words = make_storable(terms.words).strip()
        if not words or len(words) > LONGEST_QUERY:
            raise BadRequest(f"words: give 1 to {LONGEST_QUERY} characters.")
        parsed = parse_query(words)
        if parsed.notes:
            raise BadRequest(f"words: {parsed.notes[0]}")
        if parsed.is_empty:
            raise BadRequest("words: the search has no words and no filter, so it finds nothing.")
        given = ContentFilter(terms.source or None, terms.category or None, terms.topic or None, terms.language or None)
        only = await self._database.run(prepare_filter, given)
        return SearchTerms(words, only.source, only.category, only.topic, only.language)


class FeedAddressOperations:
    """Operations on secret addresses of feeds."""

    def __init__(self, context: DatabaseContext, feeds: FeedOperations) -> None:
        self._clock = context.clock
        self._database = context.database
        self._feeds = feeds

    async def add(self, new: NewFeedAddress) -> AddedFeedAddress:
        """Make an address that needs no token. Anyone who has it can read the feed until it is removed."""
        name, value = _check_name(new.name), make_storable(new.value).strip()
        await self._feeds.check(FeedTarget(new.kind, value))
        if len(await self._database.run(feed_addresses.list_feed_addresses)) >= _MOST:
            raise BadRequest(f"There are {_MOST} feed addresses. Remove one first.")
        secret, now = secrets.token_urlsafe(32), self._clock.now()
        added = await self._database.run(
            feed_addresses.add_feed_address, name, _hash(secret), new.kind, value, now, with_text=new.with_text
        )
        if added is None:
            raise OperatorError(f"There is already a feed address {name}.", reason=Reason.FEED_ADDRESS_EXISTS)
        return AddedFeedAddress(
            added.name,
            added.kind,
            added.value,
            added.with_text,
            added.created_at,
            added.last_used_at,
            f"{_SECRET_PATH}/{secret}.atom",
        )

    async def list_feed_addresses(self) -> FeedAddressList:
        """List addresses by name. Their secret parts are not stored."""
        return FeedAddressList(await self._database.run(feed_addresses.list_feed_addresses))

    async def remove(self, name: str) -> RemovedFeedAddress:
        """Remove an address. Readers that use it get 404 from now on."""
        if not await self._database.run(feed_addresses.remove_feed_address, make_storable(name)):
            raise OperatorError(
                f"There is no feed address {redact(name)}; `headwater feed-address list` lists them.",
                reason=Reason.UNKNOWN_FEED_ADDRESS,
            )
        return RemovedFeedAddress(name)

    async def read(self, secret: str, server: str) -> DocumentFeed:
        """Return the feed of a secret address. `server` is the address of this server."""
        found = await self._database.run(feed_addresses.find_feed_address, _hash(secret))
        if found is None:
            raise OperatorError(Reason.UNKNOWN_FEED_ADDRESS.sentence, reason=Reason.UNKNOWN_FEED_ADDRESS)
        now = self._clock.now()
        if found.last_used_at is None or now - found.last_used_at > _USED_AGAIN:
            await self._database.run(feed_addresses.set_feed_address_used, found.name, now, now - _USED_AGAIN)
        target = FeedTarget(found.kind, found.value)
        # The feed names its public address: an entry that is passed on does not reveal the secret one.
        return await self._feeds.make(target, address=server + target.path, with_text=found.with_text)


def unknown_saved_search(name: str) -> OperatorError:
    """Return the error of a name that no saved search has."""
    return OperatorError(
        f"There is no saved search {redact(name)}; `headwater saved-search list` lists them.",
        reason=Reason.UNKNOWN_SAVED_SEARCH,
    )


def _check_name(name: str) -> str:
    if not SOURCE_NAME.fullmatch(name):
        raise BadRequest(
            f"name: {redact(name)!r} must have 1 to 64 lower-case letters, digits, dots, dashes and underscores, "
            "and begin with a letter or digit."
        )
    return name


def _hash(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()
