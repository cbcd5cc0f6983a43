"""What a page says of itself in JSON-LD."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

# What pages written as XML, or for browsers without scripts, put around it; and the end of a statement, as in a script.
_WRAPPING = re.compile(
    r"^(?:<!--|(?://|/\*)?\s{0,9}<!\[CDATA\[(?:\s{0,9}\*/)?)|(?:-->|(?://|/\*)?\s{0,9}\]\]>(?:\s{0,9}\*/)?|;)$"
)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_ARTICLE = re.compile(r"(?:Article|Posting|Report|Review)$")
# Linked data can be as large as the page it describes; the article stands near its beginning.
_MAX_OBJECTS = 2000
_MOST_VALUES = 100  # of one field
_LONGEST = 2_000_000  # characters; read, they take forty times as much memory


def find_article(scripts: Iterable[str]) -> dict[str, Any]:
    """Return the first object that describes an article, else one that has a date; empty where there is none."""
    dated: dict[str, Any] = {}
    for script in scripts:
        if len(script) > _LONGEST:
            continue
        document = _load(script)
        for thing in _objects(document):
            if any(_ARTICLE.search(kind) for kind in _types(thing)):
                return _with_authors(thing, document)
            if not dated and "datePublished" in thing:
                dated = thing
    return dated


def texts(value: object) -> Iterator[str]:
    """Yield the texts of a value that may be a text, an object with a name or a list of those."""
    for one in value[:_MOST_VALUES] if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from texts(one.get("name"))


def addresses(value: object) -> Iterator[str]:
    """Yield the addresses of a value that may be an address, an object with one or a list of those."""
    for one in value[:_MOST_VALUES] if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from addresses(one.get("url") or one.get("contentUrl") or one.get("@id"))


def _load(script: str) -> object:
    script = script.strip()
    if not script.startswith(("{", "[")) or not script.endswith(("}", "]")):
        script = _WRAPPING.sub("", script)
    return _parsed(script) or _parsed(_TRAILING_COMMA.sub("", script))


def _parsed(script: str) -> object:
    try:
        # not strict: line breaks inside texts are a common slip
        return json.loads(script, strict=False)
    except (ValueError, RecursionError):
        return None


def _with_authors(article: dict[str, Any], document: object) -> dict[str, Any]:
    """Return an article with its authors as the document describes them elsewhere, where it only refers to them."""
    stated = article.get("author")
    authors = stated[:_MOST_VALUES] if isinstance(stated, list) else [stated]
    if all("name" in author for author in authors if isinstance(author, dict)):
        return article
    described = {_id(thing): thing for thing in _objects(document) if _id(thing) and "name" in thing}
    return {**article, "author": [described.get(_id(author), author) for author in authors]}


def _id(value: object) -> str:
    name = value.get("@id") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def _objects(document: object) -> Iterator[dict[str, Any]]:
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


def _types(thing: dict[str, Any]) -> Iterator[str]:
    kinds = thing.get("@type")
    return (kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str))
