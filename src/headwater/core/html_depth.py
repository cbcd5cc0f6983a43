"""Detect markup that is nested too deep to parse. The time of parsing grows with the square of the depth."""

import re

_MAX_DEPTH = 5000
# A tag that nests. Parsers close the others by themselves.
_NESTING_TAG = re.compile(
    r"<(/?)(?!(?i:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|tbody|td|tfoot|th|thead"
    r"|tr|track|wbr)\b)[a-zA-Z]"
)


def is_too_deep(text: str) -> bool:
    """Return whether too many elements are open at once."""
    tags = text.count("<")
    if tags <= _MAX_DEPTH or tags - text.count("</") <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING_TAG.finditer(text):
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False
