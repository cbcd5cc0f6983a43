"""Character references, in XML that may have been written by hand."""

import html
import re
from html.entities import html5

_REFERENCE = re.compile(r"&(?:(#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6}));|([a-zA-Z][a-zA-Z0-9]*;))")


def unescape(text: str) -> str:
    """Return the text with the references in it resolved, those that XML does not know but HTML does among them.

    An ampersand that begins none stands for itself: addresses are full of them ("?a=1&copy=2").
    """
    return _REFERENCE.sub(_meant, text) if "&" in text else text


def _meant(reference: re.Match[str]) -> str:
    return html.unescape(reference[0]) if reference[1] else html5.get(reference[2], reference[0])
