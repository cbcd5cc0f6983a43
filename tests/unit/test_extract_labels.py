"""Issue 24: blocks are labelled by the alignment of a page with its correct text."""

from bench.extract_labels import align, label_blocks
from bench.extract_pages import CORPORA, Page
from selectolax.lexbor import LexborHTMLParser

from headwater.extraction.html.blocks import read_blocks


def test_words_are_matched_in_the_order_of_both() -> None:
    page = ["home", "shop", "red", "lamp", "ten", "euros", "blue", "lamp", "nine", "euros", "about", "us", "home"]
    text = ["red", "lamp", "ten", "euros", "blue", "lamp", "nine", "euros"]
    assert align(page, text) == [False] * 2 + [True] * 8 + [False] * 3


def test_a_short_line_of_a_menu_is_not_matched_with_the_same_words_in_the_text() -> None:
    body = LexborHTMLParser("<p>Lamps</p><p>About</p><h1>Lamps</h1><li>Lamp one, ten euros</li><li>About</li>").body
    assert body is not None
    blocks, _ = read_blocks(body)
    labels = label_blocks(Page("wcxb", "1", CORPORA, "", text="Lamps Lamp one, ten euros"), blocks)
    assert labels == [False, False, True, True, False]


def test_a_page_without_the_text_has_no_matches() -> None:
    assert align(["a", "b"], ["c"]) == [False, False]
