"""Pages made to be as deep as they can be: to parse HTML takes a time that grows with the square of its depth.

So it does with the number of attributes of a tag, and with that of options to choose from.
"""

import re
from collections.abc import Iterator

_MAX_DEPTH = 5000
_MOST_OPTIONS = 20_000  # those of a second
_NESTING_TAG = re.compile(
    r"<(/?)(?!(?i:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|tbody|td|tfoot|th|thead"
    r"|tr|track|wbr)\b)[a-zA-Z]"
)
_OPTION = re.compile(r"<(?i:option)\b")
_REST_OF_TAG = r"(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+"
_TAG = re.compile(f"<[a-zA-Z]{_REST_OF_TAG}")
_TAG_BEGINS = re.compile("<[a-zA-Z]")
_STRIDE = 2500  # the attributes of tags that are shorter than two of these take no time
_VALUE = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*')")
_MOST_COMPARISONS = 20_000**2  # of names of attributes: those of a second
_MOST_ATTRIBUTES = 400_000  # those of a hundred megabytes


def is_too_deep(text: str, tags: int | None = None) -> bool:
    """Tell whether so many elements of a page (of so many tags) are open at once that parsing it could take minutes."""
    if (text.count("<") if tags is None else tags) <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING_TAG.finditer(text):
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False


def has_too_many_attributes(text: str) -> bool:
    """Tell whether tags of a page have so many attributes that parsing it could take minutes, or half a gigabyte."""
    is_long = len(text) > 3 * _MOST_ATTRIBUTES
    tags = [tag[0] for tag in _TAG.finditer(text)] if is_long else list(_long_tags(text))
    if not is_long and sum(len(tag) ** 2 for tag in tags) < 4 * _MOST_COMPARISONS:  # a name and a blank each
        return False
    count = compared = 0
    for tag in tags:
        names = _VALUE.sub(" ", tag).replace("/", " ").split()
        count += len(names)
        compared += len(set(names)) ** 2
        if count > _MOST_ATTRIBUTES or compared > _MOST_COMPARISONS:
            return True
    return False


def _long_tags(text: str) -> Iterator[str]:
    """Yield the tags that reach over a stretch without a `>`, seen in a few strides.

    One that has a `>` in an attribute near its beginning is overlooked, and left to the sandbox's limit: to see it
    would take every page ten times as long.
    """
    place = 0
    while place < len(text):
        end = text.find(">", place)
        if end < 0:
            end = len(text)
        if end - place < _STRIDE:
            place += _STRIDE
            continue
        if tag := _TAG_BEGINS.search(text, text.rfind(">", 0, place) + 1, end):
            yield text[tag.start() : end]
        place = end + 1


def has_too_many_options(text: str, tags: int) -> bool:
    """Tell whether a page (of so many tags) has so many options to choose from that parsing it could take minutes."""
    return tags > _MOST_OPTIONS and sum(1 for _ in _OPTION.finditer(text)) > _MOST_OPTIONS
