"""Lists of sources in files: OPML, as feed readers write it, and YAML. This module is pure: the sandbox runs it."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import yaml

from headwater.core.charset import decode_xml
from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.record import record
from headwater.core.source import Source
from headwater.core.url_input import redact
from headwater.feeds.opml import parse_opml, write_opml
from headwater.feeds.results import OpmlFeed

if TYPE_CHECKING:
    from headwater.sources.kind import Kind

MAX_FILE_BYTES = 8 * 1024 * 1024
_MAX_DEPTH = 20
_MAX_NUMBER = 2**63 - 1  # the largest one that fits in a message of the sandbox
_ENTRY_KEYS = ("name", "kind", "enabled", "settings")
# Many addresses of feeds contain these words. They do not distinguish one source from another.
_COMMON_WORDS = frozenset(
    {"aspx", "atom", "blog", "default", "feed", "feeds", "htm", "html", "index", "json", "php", "rdf", "rss", "xml"}
)


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source in a file. `name` is empty if the file gives none. `error` says why the entry cannot be used."""

    where: str  # the place in the file, for a person
    name: str = ""
    kind: str = "site"
    enabled: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    error: str | None = None


@record
class RefusedSource:
    """An entry of a file that cannot be used."""

    where: str
    given: str
    why: str


class ImportCandidate(NamedTuple):
    """A source that an import adds."""

    name: str
    kind_name: str
    kind: "Kind"
    settings: Mapping[str, Any]
    enabled: bool


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The entries of a file by what the import does with them. Known sources stay as they are."""

    new: list[ImportCandidate] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: list[RefusedSource] = field(default_factory=list)


PrepareSettings = Callable[[str, str, Mapping[str, Any]], tuple["Kind", Mapping[str, Any]]]


def plan_import(entries: Iterable[SourceEntry], existing: Iterable[Source], prepare: PrepareSettings) -> ImportPlan:
    """Compare the entries of a file with the existing sources. Each feed and each name is added once."""
    known: dict[str, tuple[str, Mapping[str, Any]]]
    known = {source.name: (source.kind, source.settings) for source in existing}
    feed_owners = {settings.get("feed_url"): name for name, (_, settings) in known.items()}
    plan = ImportPlan()
    for entry in entries:
        try:
            candidate = _make_candidate(entry, known, prepare)
        except HeadwaterError as error:
            plan.refused.append(_refuse(entry, str(error)))
            continue
        feed_url, source = candidate.settings.get("feed_url"), (candidate.kind_name, candidate.settings)
        if feed_url is not None and feed_url in feed_owners:
            plan.known.append(feed_owners[feed_url])
        elif known.get(candidate.name) == source:
            plan.known.append(candidate.name)
        elif candidate.name in known:
            plan.refused.append(_refuse(entry, f"There is another source named {candidate.name} already."))
        else:
            known[candidate.name] = source
            feed_owners[feed_url] = candidate.name
            plan.new.append(candidate)
    return plan


def _refuse(entry: SourceEntry, why: str) -> RefusedSource:
    given = entry.name or entry.settings.get("feed_url") or entry.title or entry.where
    return RefusedSource(entry.where, redact(str(given)), why)


def _make_candidate(entry: SourceEntry, taken: Collection[str], prepare: PrepareSettings) -> ImportCandidate:
    if entry.error:
        raise HeadwaterError(entry.error)
    address = next((url for key in ("feed_url", "site_url", "sitemap_url") if (url := entry.settings.get(key))), "")
    name = entry.name or _name_by_title(entry.title, str(address), taken)
    return ImportCandidate(name, entry.kind, *prepare(name, entry.kind, entry.settings), entry.enabled)


def choose_name(url: str, title: str, taken: Collection[str]) -> str:
    """Choose a free name for a source: by its host, with words of its path or of its title if the host is taken."""
    try:
        parts = urlsplit(url)
        host, path = parts.hostname or "", unquote(f"{parts.path} {parts.query}").lower()
    except ValueError:
        host = path = ""
    name = _slug(host.removeprefix("www.")) or "source"
    if name not in taken:
        return name
    words = " ".join(word for word in re.split(r"[^a-z0-9]+", path) if word not in _COMMON_WORDS)
    names = [f"{name}-{slug}"[:60].rstrip("._-") for slug in (_slug(words), _slug(title)) if slug]
    return _number_name(name, taken, names)


def _name_by_title(title: str, url: str, taken: Collection[str]) -> str:
    """Choose a free name for a source of a list: its title, with a number if the name is taken, or else by its host."""
    name = _slug(unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode())
    return _number_name(name, taken, [name]) if name else choose_name(url, title, taken)


def _number_name(name: str, taken: Collection[str], first: Sequence[str]) -> str:
    numbered = (f"{name[:56].rstrip('._-')}-{number}" for number in range(2, len(taken) + 3))
    return next(candidate for candidate in (*first, *numbered) if candidate not in taken)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:64].rstrip("._-")


def export_yaml(sources: Iterable[Source]) -> bytes:
    """Return a YAML file of all sources, which can be imported."""
    return write_yaml(
        [
            {"name": source.name, "kind": source.kind}
            | ({} if source.enabled else {"enabled": False})
            | {"settings": dict(source.settings)}
            for source in sources
        ]
    )


def export_opml(sources: Sequence[Source], now: datetime) -> tuple[bytes, list[str]]:
    """Return an OPML file of the feeds, and the names of the sources without a feed."""
    feeds = [
        OpmlFeed(feed_url, source.name, source.settings.get("site_url"), source.settings.get("category") or "")
        for source in sources
        if (feed_url := source.settings.get("feed_url"))
    ]
    without = [source.name for source in sources if not source.settings.get("feed_url")]
    return write_opml(feeds, title="Headwater", now=now), without


def write_yaml(entries: list[dict[str, Any]]) -> bytes:
    """Return a YAML file of sources."""
    # YAML readers take these characters for line ends, so they must be escaped.
    has_line_ends = any(mark in str(entries) or repr(mark)[1:-1] in str(entries) for mark in "\x85\u2028\u2029")
    text = yaml.safe_dump({"sources": entries}, allow_unicode=not has_line_ends, sort_keys=False, width=1000)
    return text.encode()


def read_source_list(body: bytes) -> list[SourceEntry]:
    """Return the entries of a file. Raises Unreadable if it is neither OPML nor YAML with a list of sources."""
    if len(body) > MAX_FILE_BYTES:
        raise Unreadable(f"The file is larger than {MAX_FILE_BYTES // 1024 // 1024} MB.")
    if body.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n").startswith(b"<"):
        return _read_opml(body)
    return _read_yaml(decode_xml(body, None))


def _read_opml(body: bytes) -> list[SourceEntry]:
    entries = []
    for number, feed in enumerate(parse_opml(body), 1):
        settings = {"feed_url": feed.url, "site_url": feed.site_url, "category": feed.category}
        filled = {name: value for name, value in settings.items() if value}
        entries.append(SourceEntry(f"feed {number}", settings=filled, title=feed.title))
    return entries


def _read_yaml(text: str) -> list[SourceEntry]:
    try:
        _refuse_bombs(text)
        loader = yaml.CSafeLoader(text)
        try:
            return [_read_entry(loader, node) for node in _find_entries(loader.get_single_node())]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Unreadable(f"This is not YAML: {line}{error.problem}.") from None
    except yaml.YAMLError as error:
        raise Unreadable(f"This is not YAML: {' '.join(str(error).split())}.") from None


def _refuse_bombs(text: str) -> None:
    """Refuse deep nesting, and anchors and aliases: with them a few lines can fill any memory."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if getattr(event, "anchor", None):
            raise Unreadable(f"Line {event.start_mark.line + 1}: anchors and aliases (& and *) are not allowed.")
        if depth > _MAX_DEPTH:
            raise Unreadable(f"Line {event.start_mark.line + 1}: it is nested too deep.")


def _find_entries(root: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(root, yaml.MappingNode):
        by_key = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
        others = [str(key) for key in by_key if key != "sources"]
        if others or len(root.value) != 1:
            found = ", ".join(others) or "an empty mapping"
            raise Unreadable(f"The list must be under `sources`, the only key of the file, not {found}.")
        root = by_key["sources"]
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise Unreadable("This is no list of sources: neither OPML, nor YAML with a list under `sources`.")
    return list(root.value)


def _read_entry(loader: yaml.CSafeLoader, node: yaml.Node) -> SourceEntry:
    where = f"line {node.start_mark.line + 1}"
    try:
        given = _read_node(loader, node)
    except (ValueError, yaml.YAMLError) as error:
        return SourceEntry(where, error=f"{getattr(error, 'problem', None) or error}.")
    if not isinstance(given, dict):
        return SourceEntry(where, error="A source is a mapping, such as `feed_url: https://example.org/feed`.")
    name = given.get("name", "")
    if problem := _find_error(given):
        return SourceEntry(where, str(name), error=problem)
    flat = {key: value for key, value in given.items() if key not in _ENTRY_KEYS}
    settings = {**given.get("settings", {}), **flat}
    return SourceEntry(where, name, given.get("kind", "site"), given.get("enabled", True), settings)


def _find_error(given: dict[str, Any]) -> str | None:
    for key, kind, expected in (
        ("name", str, "text; put it in quotes"),
        ("kind", str, "text"),
        ("enabled", bool, "true or false"),
        ("settings", dict, "a mapping"),
    ):
        if not isinstance(given.get(key, kind()), kind):
            return f"{key}: must be {expected}."
    twice = sorted(given.get("settings", {}).keys() & given.keys() - _ENTRY_KEYS)
    return f"{twice[0]}: is given twice." if twice else None


def _read_node(loader: yaml.CSafeLoader, node: yaml.Node) -> Any:
    """Return a node as JSON types. Raises ValueError for a key that is given twice or that is not text."""
    if isinstance(node, yaml.SequenceNode):
        return [_read_node(loader, part) for part in node.value]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in _read_pairs(loader, node):
            if key in found:
                raise ValueError(f"{key}: is given twice")
            found[key] = _read_node(loader, value)
        return found
    try:
        value = loader.construct_object(node)
    except AttributeError:  # the tag names a type that the value does not have
        raise ValueError(f"{node.value}: is not what its tag says") from None
    if isinstance(value, date):  # a datetime is a date too
        return node.value
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError(f"{node.value[:40]}: must be a number from -{_MAX_NUMBER} to {_MAX_NUMBER}")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"{node.value}: is not text, a number, true or false")


def _read_pairs(loader: yaml.CSafeLoader, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in node.value:
        name = loader.construct_object(key) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(name, str):
            raise ValueError(f"line {key.start_mark.line + 1}: a name must be text")
        yield name, value
