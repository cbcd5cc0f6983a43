"""CSS selectors that a source gives for the fields of its pages."""

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

SELECTOR_KEYS = ("body", "title", "byline", "published", "image")
_LONGEST = 500


def check_selector(selector: str) -> None:
    """Raise ValueError, saying why, for a selector that no page can be asked with."""
    if len(selector) > _LONGEST:
        raise ValueError(f"has over {_LONGEST} characters")
    try:
        LexborHTMLParser("<p>").css_first(selector)
    except SelectolaxError:
        raise ValueError(f"{selector!r} is not CSS that can be used") from None
