"""Lists of sources that people keep in files: OPML, as feed readers write it, and YAML, as people do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import yaml

from headwater.core.charset import decode_xml
from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.feeds.opml import parse_opml

LARGEST = 8 * 1024 * 1024
_DEEPEST = 20
_OWN_KEYS = ("name", "kind", "enabled", "settings")


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A source as a file lists it; `name` is empty where it has none, `why_not` says why it cannot be used."""

    where: str  # in the file, for people
    name: str = ""
    kind: str = "site"
    enabled: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    why_not: str | None = None


def read_source_list(body: bytes) -> list[ListedSource]:
    """Return what a file lists, in its order. Raises Unreadable where it is neither OPML nor YAML of sources."""
    if len(body) > LARGEST:
        raise _unusable(f"The file is larger than {LARGEST // 1024 // 1024} MB")
    if body.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n").startswith(b"<"):
        return _read_opml(body)
    return _read_yaml(decode_xml(body, None))


def write_yaml(entries: list[dict[str, Any]]) -> bytes:
    """Return a YAML file of sources."""
    # Written as they are, these would be read as ends of lines.
    speaks_all = not any(mark in str(entries) or repr(mark)[1:-1] in str(entries) for mark in "\x85\u2028\u2029")
    return yaml.safe_dump({"sources": entries}, allow_unicode=speaks_all, sort_keys=False, width=1000).encode()


def _read_opml(body: bytes) -> list[ListedSource]:
    found = []
    for number, feed in enumerate(parse_opml(body), 1):
        settings = {"feed_url": feed.url, "site_url": feed.site_url, "category": feed.category}
        kept = {name: value for name, value in settings.items() if value}
        found.append(ListedSource(f"feed {number}", settings=kept, title=feed.title))
    return found


def _read_yaml(text: str) -> list[ListedSource]:
    try:
        _refuse_bombs(text)
        loader = yaml.CSafeLoader(text)
        try:
            return [_entry(loader, node) for node in _entries(loader.get_single_node())]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _unusable(f"This is not YAML: {line}{error.problem}") from None
    except yaml.YAMLError as error:
        raise _unusable(f"This is not YAML: {' '.join(str(error).split())}") from None


def _refuse_bombs(text: str) -> None:
    """Refuse anchors and aliases, a few lines of which can stand for more than any memory holds, and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if getattr(event, "anchor", None):
            raise _unusable(f"Line {event.start_mark.line + 1}: anchors and aliases (& and *) are not taken")
        if depth > _DEEPEST:
            raise _unusable(f"Line {event.start_mark.line + 1}: it is nested too deep")


def _entries(root: yaml.Node | None) -> list[yaml.Node]:
    """Return the nodes of the sources: a list, as the whole file or under `sources`."""
    if isinstance(root, yaml.MappingNode):
        by_key = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
        others = [str(key) for key in by_key if key != "sources"]
        if others or len(root.value) != 1:
            raise _unusable(f"A list of sources has them under `sources` and nothing beside, not {', '.join(others)}")
        root = by_key["sources"]
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise _unusable("This is no list of sources: neither OPML, nor YAML with a list under `sources`")
    return list(root.value)


def _entry(loader: yaml.CSafeLoader, node: yaml.Node) -> ListedSource:
    where = f"line {node.start_mark.line + 1}"
    try:
        given = _plain(loader, node)
    except (ValueError, yaml.YAMLError) as error:
        problem = getattr(error, "problem", None) or str(error)
        return ListedSource(where, why_not=f"{problem}.")
    if not isinstance(given, dict):
        return ListedSource(where, why_not="A source is a mapping, such as `feed_url: https://example.org/feed`.")
    name = given.get("name", "")
    if why_not := _why_not(given):
        return ListedSource(where, str(name), why_not=why_not)
    flat = {key: value for key, value in given.items() if key not in _OWN_KEYS}
    settings = {**given.get("settings", {}), **flat}
    return ListedSource(where, name, given.get("kind", "site"), given.get("enabled", True), settings)


def _why_not(given: dict[str, Any]) -> str | None:
    for key, kind, told in (
        ("name", str, "text; put it in quotes"),
        ("kind", str, "text"),
        ("enabled", bool, "true or false"),
        ("settings", dict, "a mapping"),
    ):
        if not isinstance(given.get(key, kind()), kind):
            return f"{key}: must be {told}."
    twice = sorted(given.get("settings", {}).keys() & given.keys() - _OWN_KEYS)
    return f"{twice[0]}: is given twice." if twice else None


def _plain(loader: yaml.CSafeLoader, node: yaml.Node) -> Any:
    """Return what a node stands for, in JSON's types; refuse what has a key twice, or one that is not text."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(loader, part) for part in node.value]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in _pairs(loader, node):
            if key in found:
                raise ValueError(f"{key}: is given twice")
            found[key] = _plain(loader, value)
        return found
    try:
        value = loader.construct_object(node)
    except AttributeError:  # a tag says what it is, and it is not
        raise ValueError(f"{node.value}: is not what its tag says") from None
    if isinstance(value, date):  # a datetime is one too
        return node.value
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"{node.value}: is not text, a number, true or false")


def _pairs(loader: yaml.CSafeLoader, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in node.value:
        name = loader.construct_object(key) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(name, str):
            raise ValueError(f"line {key.start_mark.line + 1}: a name must be text")
        yield name, value


def _unusable(why: str) -> Unreadable:
    return Unreadable(f"{why}.", reason=Reason.PARSE_FAILED)
