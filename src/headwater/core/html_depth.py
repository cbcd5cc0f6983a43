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
_TO_ITS_END = rb"(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+"
_TAG = re.compile(rb"<[a-zA-Z]" + _TO_ITS_END)
_SCRIPT = re.compile(rb"<script(?=[\s/>])" + _TO_ITS_END)
_STRIDE = 2500  # the attributes of tags that are shorter than two of these take no time
_BETWEEN_NAMES = b" \t\n\r\f/\"'"
_VALUE = re.compile(rb"=\s*(?:\"[^\"]*\"|'[^']*')")
_MOST_COMPARISONS = 20_000**2  # of names of attributes: those of a second
_MOST_ATTRIBUTES = 400_000  # those of a hundred megabytes


def is_too_deep(text: str, tags: int | None = None) -> bool:
    """Tell whether so many elements of a page (of so many tags) are open at once that parsing it could take minutes."""
    if tags is None:
        tags = text.count("<")
    if tags <= _MAX_DEPTH or tags - text.count("</") <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING_TAG.finditer(text):
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False


def has_too_many_attributes(markup: bytes) -> bool:
    """Tell whether tags of a page have so many attributes that parsing it could take minutes, or half a gigabyte.

    Attributes that are hidden from a quick look, behind a quoted `>` in every few of them or a script that is in a
    comment, are left to the sandbox's limit: to see those would take every page ten times as long.
    """
    shortest = 0
    if len(markup) <= 3 * _MOST_ATTRIBUTES:
        shortest = _STRIDE
        if not _has_room(markup):
            return False
        markup = _without_scripts(markup)
        if not (_has_room(markup) and _has_gaps(markup)):
            return False
    count = compared = 0
    for tag in _TAG.finditer(markup):
        if tag.end() - tag.start() < shortest:
            continue
        names = _VALUE.sub(b" ", tag[0]).replace(b"/", b" ").split()
        count += len(names)
        compared += len(set(names)) ** 2
        if count > _MOST_ATTRIBUTES or compared > _MOST_COMPARISONS:
            return True
    return False


def _has_room(markup: bytes) -> bool:
    """Tell whether too many names, of two characters each with what stands between, could be without a `>`."""
    return sum((end - start) ** 2 for start, end in _stretches(markup)) > 4 * _MOST_COMPARISONS


def _has_gaps(markup: bytes) -> bool:
    """Tell whether there are as many places there at which a name could end."""
    stretches = (markup[start:end] for start, end in _stretches(markup))
    gaps = (len(stretch) - len(stretch.translate(None, _BETWEEN_NAMES)) for stretch in stretches)
    return sum(number**2 for number in gaps) > _MOST_COMPARISONS


def _stretches(markup: bytes) -> Iterator[tuple[int, int]]:
    """Tell from where to where there is no `>`, of those that are seen in strides."""
    place = 0
    while place < len(markup):
        end = markup.find(b">", place)
        if end < 0:
            end = len(markup)
        if end - place < _STRIDE:
            place += _STRIDE
            continue
        yield markup.rfind(b">", 0, place) + 1, end
        place = end + 1


def _without_scripts(markup: bytes) -> bytes:
    """Return the markup without what is in scripts, where `i<n` is no tag."""
    parts, place = [], 0
    while tag := _SCRIPT.search(markup, place):
        parts.append(markup[place : tag.end()])
        place = markup.find(b"</script", tag.end())
        if place < 0:
            return b"".join(parts)
    return b"".join([*parts, markup[place:]])


def has_too_many_options(text: str, tags: int) -> bool:
    """Tell whether a page (of so many tags) has so many options to choose from that parsing it could take minutes."""
    return tags > _MOST_OPTIONS and sum(1 for _ in _OPTION.finditer(text)) > _MOST_OPTIONS
