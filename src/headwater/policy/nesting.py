"""Pages made to be as deep as they can be: to parse HTML takes a time that grows with the square of its depth.

So it does with the number of attributes of a tag, and with that of options to choose from.
"""

import re

_MAX_DEPTH = 5000
_MOST_OPTIONS = 20_000  # those of a second
_NESTING_TAG = re.compile(
    r"<(/?)(?!(?i:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|tbody|td|tfoot|th|thead"
    r"|tr|track|wbr)\b)[a-zA-Z]"
)
_OPTION = re.compile(r"<(?i:option)\b")
_TAG = re.compile(r"<[a-zA-Z](?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+")
_VALUE = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*')")
_LONG_TAG = 1000  # characters: the attributes of shorter ones take no time
_MOST_COMPARISONS = 20_000**2  # of names of attributes: those of a second
_MOST_ATTRIBUTES = 400_000  # those of a hundred megabytes


def is_too_deep(text: str) -> bool:
    """Tell whether so many elements of a page are open at once that parsing it could take minutes."""
    if text.count("<") <= _MAX_DEPTH:
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
    count = compared = 0
    for tag in _TAG.finditer(text):
        if is_long or tag.end() - tag.start() > _LONG_TAG:
            names = _VALUE.sub(" ", tag[0]).replace("/", " ").split()
            count += len(names)
            compared += len(set(names)) ** 2
            if count > _MOST_ATTRIBUTES or compared > _MOST_COMPARISONS:
                return True
    return False


def has_too_many_options(text: str) -> bool:
    """Tell whether a page has so many options to choose from that parsing it could take minutes."""
    return text.count("<") > _MOST_OPTIONS and sum(1 for _ in _OPTION.finditer(text)) > _MOST_OPTIONS
