"""The main text of a page, without what stands around it."""

import logging

from lxml import etree, html
from selectolax.lexbor import LexborHTMLParser

from headwater.policy.text import blocks_of_markup, join_blocks

# trafilatura says on the log what it returns anyway; without a handler Python would print it.
logging.getLogger("trafilatura").addHandler(logging.NullHandler())

_AROUND_THE_TEXT = ["nav", "header", "footer", "aside", "form", "button", "dialog", "menu"]


def extract_main_text(text: str) -> tuple[str, str]:
    """Return the main text, its blocks separated by empty lines, and where it came from; empty where there is none."""
    extracted = _by_trafilatura(text)
    if extracted:
        return extracted, "trafilatura"
    return _all_but_navigation(text), "dom"


def _by_trafilatura(text: str) -> str:
    # imported here: it brings half a dozen libraries, which a process that only reads metadata does not need
    from trafilatura import extract

    tree = _lxml_tree(text)
    if tree is None:
        return ""
    extracted = extract(tree, fast=True, include_comments=False, include_tables=True)
    return join_blocks(extracted.split("\n")) if extracted else ""


def _lxml_tree(text: str) -> html.HtmlElement | None:
    parser = html.HTMLParser(encoding="utf-8", collect_ids=False, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text.encode(), parser=parser)
    except etree.ParserError:
        return None


def _all_but_navigation(text: str) -> str:
    """Return all text of a page that is too small, or nested too deep, to tell what in it is the article."""
    tree = LexborHTMLParser(text)
    tree.strip_tags(_AROUND_THE_TEXT)
    body = tree.body
    return blocks_of_markup(body.html or "") if body is not None else ""
