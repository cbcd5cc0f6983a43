"""Sources from files and into files."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.poll import first_poll_at
from headwater.core.source import SOURCE_NAME, Source
from headwater.core.url_input import redact
from headwater.db import sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.feeds.opml import write_opml
from headwater.feeds.results import OpmlFeed
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.registry import prepare_settings
from headwater.sources.settings import save_fetch_profile
from headwater.sources.source_lists import LARGEST, ListedSource, read_source_list, write_yaml

LARGEST_FILE = LARGEST
_SLICE = 500  # sources added at once
_READ_SECONDS = 60.0
# What addresses of feeds say of themselves tells nothing about their source.
_IDLE_WORDS = frozenset(
    {"aspx", "atom", "blog", "default", "feed", "feeds", "htm", "html", "index", "json", "php", "rdf", "rss", "xml"}
)


@dataclass(frozen=True, slots=True)
class Refused:
    """What could not be used of a file, and why."""

    where: str
    given: str
    why: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of each source in a file; `back` are those added that had been removed before."""

    added: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    back: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _New:
    name: str
    kind_name: str
    kind: Kind
    settings: dict[str, Any]
    enabled: bool


async def import_sources(
    context: DatabaseContext, sandbox: Sandbox, body: bytes, interval: timedelta, *, dry_run: bool
) -> Imported:
    """Add the sources that a file lists; their first polls are spread over an interval. Unreadable: it lists none."""
    listed = await sandbox.run(read_source_list, body, returns=list[ListedSource], seconds=_READ_SECONDS)
    if not listed:
        raise Unreadable("There is no source in it: neither a feed in OPML, nor an entry in YAML under `sources`.")
    async with context.database.connection() as connection:
        there = await sources.get_all_sources(connection)
    imported, new = _sort_out(listed, there)
    if dry_run:
        return imported
    now = context.clock.now()
    for start in range(0, len(new), _SLICE):
        due = {
            one.name: first_poll_at(now, interval=interval, index=index, count=len(new))
            for index, one in enumerate(new[start : start + _SLICE], start)
        }

        async def work(connection: Connection, due: Mapping[str, datetime] = due, start: int = start) -> set[str]:
            back = await sources.find_removed_names(connection, due)
            for one in new[start : start + _SLICE]:
                await _add(connection, one, due[one.name], interval, now)
            return back

        imported.back.extend(await context.database.transact(work))
    return imported


async def _add(connection: Connection, one: _New, due: datetime, interval: timedelta, now: datetime) -> None:
    """Add a source; one that somebody else has added meanwhile stays as it is."""
    methods = {method: due if gap else None for method, gap in one.kind.methods(interval).items()}
    source = await sources.add_source(connection, one.name, one.kind_name, one.settings, now=now, due=methods)
    if source:
        await save_fetch_profile(connection, source, one.kind)
    if source and not one.enabled:
        await sources.set_source_enabled(connection, source.id, enabled=False)


def _sort_out(listed: list[ListedSource], there: list[Source]) -> tuple[Imported, list[_New]]:
    """Tell the new from what is known and from what cannot be used, each feed and each name once."""
    known = {source.name: (source.kind, dict(source.settings)) for source in there}
    readers = {source.settings.get("feed_url"): source.name for source in there}
    imported, new = Imported(), list[_New]()
    for one in listed:
        given = one.name or one.settings.get("feed_url") or one.title or one.where
        given = redact(str(given))
        try:
            found = _usable(one, known)
        except HeadwaterError as error:
            imported.refused.append(Refused(one.where, given, str(error)))
            continue
        feed_url = found.settings.get("feed_url")
        if feed_url is not None and feed_url in readers:
            imported.known.append(readers[feed_url])
        elif found.name in known and known[found.name] == (found.kind_name, found.settings):
            imported.known.append(found.name)
        elif found.name in known:
            why = f"There is another source named {found.name} already."
            imported.refused.append(Refused(one.where, given, why))
        else:
            known[found.name] = (found.kind_name, found.settings)
            readers[feed_url] = found.name
            imported.added.append(found.name)
            new.append(found)
    return imported, new


def _usable(one: ListedSource, taken: Collection[str]) -> _New:
    """Return what can be added; a source that the file does not name gets the name that fits its feed."""
    if one.why_not:
        raise HeadwaterError(one.why_not)
    name = one.name or free_name(_address(one.settings), one.title, taken)
    kind, settings = prepare_settings(name, one.kind, one.settings)
    return _New(name, one.kind, kind, settings, one.enabled)


def _address(settings: Mapping[str, Any]) -> str:
    return next((str(settings[name]) for name in ("feed_url", "site_url", "sitemap_url") if settings.get(name)), "")


def free_name(url: str, title: str, taken: Collection[str]) -> str:
    """Name a source: as its title, if that can be a name, else by its host, and by more where that is taken."""
    if SOURCE_NAME.fullmatch(title) and title not in taken:
        return title
    name = host_name(url)
    if name not in taken:
        return name
    telling = [_slug(" ".join(_telling_words(url))), _slug(title)]
    names = [f"{name}-{words}"[:60].rstrip("._-") for words in telling if words]
    names += [f"{name[:56]}-{number}" for number in range(2, len(taken) + 3)]
    return next(candidate for candidate in names if candidate not in taken)


def host_name(url: str) -> str:
    """Make a source's name from where it is."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return _slug(host.removeprefix("www.")) or "source"


def _telling_words(url: str) -> list[str]:
    parts = urlsplit(url)
    words = re.split(r"[^a-z0-9]+", unquote(f"{parts.path} {parts.query}").lower())
    return [word for word in words if word and word not in _IDLE_WORDS]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:64].rstrip("._-")


def export_yaml(get_all_sources: list[Source]) -> bytes:
    """Return a file of sources, whole, that can be imported."""
    entries = []
    for source in get_all_sources:
        entry: dict[str, Any] = {"name": source.name, "kind": source.kind}
        if not source.enabled:
            entry["enabled"] = False
        entries.append(entry | {"settings": dict(source.settings)})
    return write_yaml(entries)


def export_opml(get_all_sources: list[Source], now: datetime) -> tuple[bytes, list[str]]:
    """Return the feeds as any feed reader takes them, and the names of the sources that have none."""
    feeds = [
        OpmlFeed(
            source.settings["feed_url"],
            source.name,
            source.settings.get("site_url"),
            source.settings.get("category") or "",
        )
        for source in get_all_sources
        if source.settings.get("feed_url")
    ]
    without = [source.name for source in get_all_sources if not source.settings.get("feed_url")]
    return write_opml(feeds, title="Headwater", now=now), without
