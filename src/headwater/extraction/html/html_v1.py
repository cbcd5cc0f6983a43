"""Extract articles from HTML pages, version 1."""

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser

from headwater.core.charset import read_html
from headwater.core.errors import HeadwaterError, OperatorError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import clean, extract_blocks, is_too_deep
from headwater.extraction.article import Article, PageKind
from headwater.extraction.html.block_classifier import score_blocks
from headwater.extraction.html.blocks import read_blocks
from headwater.extraction.html.main_text import choose_blocks, join_texts
from headwater.extraction.html.metadata import SELECTOR_KEYS, TRUST, check_selector, read_metadata
from headwater.extraction.html.page_kinds import guess_page_kind
from headwater.extraction.html.site_blocks import SiteBlocks, remove_site_blocks
from headwater.extraction.sniffing import require_page

_MIN_ABSTRACT_LENGTH = 40
_MAX_INTERSTITIAL_LENGTH = 6_000  # without links; a page that is not found may present many other pages
_MAX_ABSTRACT_LENGTH = 5000
_MAX_TAGS = 150_000  # parsing more takes over two seconds
_MAX_PAGE_LENGTH = 10_000_000  # parsing a longer page may take a gigabyte
_DEPTH_CHECK_LENGTH = 2_000_000  # characters of a page with too many tags


def extract_html(body: bytes | str, *, url: str, selectors: Mapping[str, str] | None = None) -> Article:
    """Return the article on the page at `url`.

    `selectors` are CSS selectors for body, title, byline, published and image. A selector that matches something comes
    first. Raises Unreadable if the body is not a page or has no text, OperatorError for an unusable selector, and
    TypeError for an argument of another type.
    """
    _check_types(body, url, selectors)
    if isinstance(body, str):
        return _read(body, None, url, selectors or {})[0]
    require_page(body)
    return _read(*_decode(body, None), url, selectors or {})[0]


def normalize_html(
    body: bytes,
    url: str,
    content_type: str | None,
    selectors: Mapping[str, str] | None,
    known_blocks: Collection[int] = (),
) -> tuple[Article, SiteBlocks]:
    """Extract the article of bytes that are a page, with the charset of the HTTP header and without known blocks."""
    return _read(*_decode(body, content_type), url, selectors or {}, known_blocks)


def _check_types(body: object, url: object, selectors: object) -> None:
    """Raise TypeError for arguments of other types, so that a caller's mistake is not an unreadable page."""
    if not isinstance(body, bytes | str):
        raise TypeError(f"body must be bytes or str, not {type(body).__name__}")
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, not {type(url).__name__}")
    if selectors is None:
        return
    if not isinstance(selectors, Mapping):
        raise TypeError(f"selectors must be a mapping of str to str, not {type(selectors).__name__}")
    for key, selector in selectors.items():
        if not isinstance(selector, str):
            raise TypeError(f"selectors[{key!r}] must be a str, not {type(selector).__name__}")


def _read(
    text: str, markup: bytes | None, url: str, selectors: Mapping[str, str], known_blocks: Collection[int] = ()
) -> tuple[Article, SiteBlocks]:
    try:
        if len(text) > _MAX_PAGE_LENGTH:
            raise _too_long()
        with _paused_gc():
            return _article(text, markup or text.encode(errors="ignore"), url, selectors, known_blocks)
    except (HeadwaterError, MemoryError):
        raise
    except Exception as error:
        # A hostile page can raise any error in the libraries.
        raise Unreadable(f"The page could not be read ({type(error).__name__}).", url=url) from error


def _decode(body: bytes, content_type: str | None) -> tuple[str, bytes | None]:
    if len(body) > _MAX_PAGE_LENGTH * 4:  # a character has at most four bytes
        raise _too_long()
    return read_html(body, content_type)


def _too_long() -> Unreadable:
    return Unreadable(f"The page has over {_MAX_PAGE_LENGTH:,} characters.", reason=Reason.BODY_TOO_LARGE)


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Pause the garbage collector: a page has thousands of objects, but no cycles, so collecting wastes a tenth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _article(
    text: str, markup: bytes, url: str, selectors: Mapping[str, str], known_blocks: Collection[int]
) -> tuple[Article, SiteBlocks]:
    _check_size(text, url)
    _check_selectors(selectors)
    tree, body = LexborHTMLParser(markup), selectors.get("body")
    blocks, elements = read_blocks(tree.body) if tree.body is not None else ([], [])
    lines = [block.text for block in blocks]
    article, declared = read_metadata(tree, url, selectors, lines)
    kind = guess_page_kind(blocks, elements, url, declared)
    article = replace(article, page_kind=kind)
    selected = extract_blocks(" ".join(node.html or "" for node in tree.css(body))) if body else ""
    if selected:
        return _complete(article, selected, selected, "selector", 1.0), SiteBlocks()
    found = choose_blocks(text, blocks, score_blocks(blocks, elements, kind), kind, article.byline)
    if len(found.text) - sum(block.links for block in found.blocks) <= _MAX_INTERSTITIAL_LENGTH:
        # Imported here, because only short pages need its patterns.
        from headwater.extraction.interstitials import find_interstitial

        if reason := find_interstitial(tree, article, blocks, found.blocks):
            raise Unreadable(reason.sentence, reason=reason, url=url)
    if not found.text:
        raise Unreadable("The page contains no text.", reason=Reason.EMPTY_TEXT, url=url)
    site_blocks = SiteBlocks()
    if kind is PageKind.ARTICLE and found.origin == "dom":
        kept, site_blocks = remove_site_blocks(found.blocks, known_blocks)
        if site_blocks.removed:
            found = replace(found, blocks=kept, text=join_texts(kept))
    text, markdown = clean(found.text), found.markdown
    if text != found.text:  # cleaning changes the Markdown only if it changes the text
        markdown = clean(markdown)
    return _complete(article, text, markdown, found.origin, 1 - min(found.doubt, 1.0)), site_blocks


def _check_size(text: str, url: str) -> None:
    """Refuse pages that would take minutes or a gigabyte to parse."""
    has_too_many_tags = text.count("<") > _MAX_TAGS
    if is_too_deep(text[:_DEPTH_CHECK_LENGTH] if has_too_many_tags else text):
        raise Unreadable("The elements of the page are nested too deep.", url=url)
    if has_too_many_tags:
        raise Unreadable(f"The page has over {_MAX_TAGS:,} tags.", reason=Reason.BODY_TOO_LARGE, url=url)


def _complete(article: Article, text: str, markdown: str, origin: str, confidence: float) -> Article:
    abstract = article.abstract or next(
        (part[:_MAX_ABSTRACT_LENGTH] for part in text.split("\n\n") if len(part) > _MIN_ABSTRACT_LENGTH), None
    )
    origins = {"text": (origin, round(confidence, 2))}
    if abstract and not article.abstract:
        origins["abstract"] = (origin, TRUST.get(origin, TRUST["dom"]))
    return replace(
        article,
        text=text,
        markdown=markdown,
        abstract=abstract,
        provenance={**article.provenance, **{name: place for name, (place, _) in origins.items()}},
        confidence={**article.confidence, **{name: trust for name, (_, trust) in origins.items()}},
    )


def _check_selectors(selectors: Mapping[str, str]) -> None:
    for key, selector in selectors.items():
        if key not in SELECTOR_KEYS:
            known = ", ".join(SELECTOR_KEYS)
            raise OperatorError(
                f"The selector {key!r} is unknown. The selectors are {known}.", reason=Reason.BAD_SOURCE
            )
        try:
            check_selector(selector)
        except ValueError as error:
            raise OperatorError(f"The selector {key!r}: {error}.", reason=Reason.BAD_SOURCE) from None
