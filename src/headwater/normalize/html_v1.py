"""Pages to articles, version 1."""

from collections.abc import Mapping
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from headwater.errors import HeadwaterError, OperatorError, Unreadable
from headwater.model.article import Article
from headwater.model.reasons import Reason
from headwater.normalize.main_text import extract_main_text
from headwater.normalize.metadata import read_metadata
from headwater.policy.charset import decode_html
from headwater.policy.nesting import is_too_deep
from headwater.policy.text import blocks_of_markup, clean

SELECTOR_KEYS = ("body", "title", "byline", "published", "image")
_ABSTRACT_OVER = 40


def extract_html(body: bytes | str, *, url: str, selectors: Mapping[str, str] | None = None) -> Article:
    """Return the article on the page at `url`.

    `selectors` are CSS selectors for body, title, byline, published and image; one that matches something wins. Raises
    Unreadable where the page cannot be read or holds no text, and OperatorError for a selector that cannot be used.
    """
    try:
        text = clean(decode_html(body, None) if isinstance(body, bytes) else body)
        return _article(text, url, selectors or {})
    except (HeadwaterError, MemoryError):
        raise
    except Exception as error:
        # whatever a hostile page makes the libraries do, it is this page that cannot be read
        raise Unreadable(f"The page could not be read ({type(error).__name__}).", url=url) from error


def normalize_html(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    """Do the same with what HTTP says about the charset."""
    return extract_html(decode_html(body, content_type), url=url, selectors=selectors)


def _article(text: str, url: str, selectors: Mapping[str, str]) -> Article:
    if is_too_deep(text):
        raise Unreadable("The elements of the page are nested too deep.", url=url)
    tree = LexborHTMLParser(text)
    _check_selectors(tree, selectors)
    article = read_metadata(tree, url, selectors)
    main_text, origin = _selected_text(tree, selectors.get("body")), "selector"
    if not main_text:
        main_text, origin = extract_main_text(text)
    if not main_text:
        raise Unreadable("The page holds no text to keep.", reason=Reason.EMPTY_TEXT, url=url)
    provenance = {**article.provenance, "text": origin}
    abstract = article.abstract or _first_paragraph(main_text)
    if abstract:
        provenance.setdefault("abstract", origin)
    return replace(article, text=main_text, abstract=abstract, provenance=provenance)


def _check_selectors(tree: LexborHTMLParser, selectors: Mapping[str, str]) -> None:
    for key, selector in selectors.items():
        if key not in SELECTOR_KEYS:
            known = ", ".join(SELECTOR_KEYS)
            raise OperatorError(f"There is no selector {key!r}; there are: {known}.", reason=Reason.BAD_SOURCE)
        try:
            tree.css_first(selector)
        except SelectolaxError:
            message = f"The selector {key!r} is not CSS that can be used: {selector!r}."
            raise OperatorError(message, reason=Reason.BAD_SOURCE) from None


def _selected_text(tree: LexborHTMLParser, selector: str | None) -> str:
    return blocks_of_markup(" ".join(node.html or "" for node in tree.css(selector))) if selector else ""


def _first_paragraph(text: str) -> str | None:
    return next((paragraph for paragraph in text.split("\n\n") if len(paragraph) > _ABSTRACT_OVER), None)
