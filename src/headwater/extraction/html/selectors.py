"""CSS selectors of a source for the fields of its pages."""

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

SELECTOR_KEYS = ("body", "title", "byline", "published", "image")
_MAX_LENGTH = 500


def check_selector(selector: str) -> None:
    """Raise ValueError with the reason if a selector is unusable."""
    if len(selector) > _MAX_LENGTH:
        raise ValueError(f"has over {_MAX_LENGTH} characters")
    try:
        LexborHTMLParser("<p>").css_first(selector)
    except SelectolaxError:
        raise ValueError(f"{selector!r} is not valid CSS") from None
