"""Pages made to be as deep as they can be: to parse HTML takes a time that grows with the square of its depth."""

import re

_MAX_DEPTH = 5000
_NESTING_TAG = re.compile(
    r"<(/?)(?!(?i:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|tbody|td|tfoot|th|thead"
    r"|tr|track|wbr)\b)[a-zA-Z]"
)


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
