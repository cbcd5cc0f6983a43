"""Read the metadata of a page in JSON-LD."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator

from headwater.core.json_values import JsonObject

# Comment marks that hide the script from XML or from old browsers, and a semicolon at its end.
_WRAPPING = re.compile(
    r"^(?:<!--|(?://|/\*)?\s{0,9}<!\[CDATA\[(?:\s{0,9}\*/)?)|(?:-->|(?://|/\*)?\s{0,9}\]\]>(?:\s{0,9}\*/)?|;)$"
)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_TYPE = re.compile(r'"@type"\s{0,9}:\s{0,9}"(?:https?://schema.org/)?([A-Za-z]{1,40})"')
_ARTICLE = re.compile(r"(?:Article|Posting|Report|Review)$")
# Linked data can be as large as the page, but the article is near its beginning.
_MAX_OBJECTS = 2000
_MAX_VALUES = 100  # of one field
_MAX_LENGTH = 2_000_000  # characters; parsing takes forty times as much memory


def find_article(scripts: Iterable[str]) -> JsonObject:
    """Return the first object that describes an article, else one with a date, else an empty one."""
    dated: JsonObject = {}
    for script in scripts:
        if len(script) > _MAX_LENGTH:
            continue
        document = _load(script)
        for thing in _objects(document):
            if any(_ARTICLE.search(kind) for kind in _types(thing)):
                return _resolve_authors(thing, document)
            if not dated and "datePublished" in thing:
                dated = thing
    return dated


def find_types(scripts: Iterable[str]) -> set[str]:
    """Return the names of all types in the scripts."""
    return {name for script in scripts if len(script) <= _MAX_LENGTH for name in _TYPE.findall(script)}


def read_texts(value: object) -> Iterator[str]:
    """Yield the texts of a value: a text, an object with a name, or a list of these."""
    for one in value[:_MAX_VALUES] if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from read_texts(one.get("name"))


def read_addresses(value: object) -> Iterator[str]:
    """Yield the addresses of a value: an address, an object with one, or a list of these."""
    for one in value[:_MAX_VALUES] if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from read_addresses(one.get("url") or one.get("contentUrl") or one.get("@id"))


def _load(script: str) -> object:
    script = script.strip()
    if not script.startswith(("{", "[")) or not script.endswith(("}", "]")):
        script = _WRAPPING.sub("", script)
    return _parse(script) or _parse(_TRAILING_COMMA.sub("", script))


def _parse(script: str) -> object:
    try:
        # Strict parsing refuses line breaks within texts, which many pages have.
        return json.loads(script, strict=False)
    except (ValueError, RecursionError):
        return None


def _resolve_authors(article: JsonObject, document: object) -> JsonObject:
    """Return an article with its authors. If it only refers to them, they are described elsewhere in the document."""
    stated = article.get("author")
    authors = stated[:_MAX_VALUES] if isinstance(stated, list) else [stated]
    if all("name" in author for author in authors if isinstance(author, dict)):
        return article
    described = {_id(thing): thing for thing in _objects(document) if _id(thing) and "name" in thing}
    return {**article, "author": [described.get(_id(author), author) for author in authors]}


def _id(value: object) -> str:
    name = value.get("@id") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def _objects(document: object) -> Iterator[JsonObject]:
    waiting = deque([document])
    for _ in range(_MAX_OBJECTS):
        if not waiting:
            return
        value = waiting.popleft()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.get(name) for name in ("@graph", "mainEntity", "mainEntityOfPage"))
        elif isinstance(value, list):
            waiting.extend(value[:_MAX_OBJECTS])


def _types(thing: JsonObject) -> Iterator[str]:
    kinds = thing.get("@type")
    return (kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str))
