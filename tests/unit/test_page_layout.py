"""Issue 24: repeated siblings, the section of a block, and the words that show the kind of a page."""

from selectolax.lexbor import LexborHTMLParser

from headwater.extraction.html.blocks import Block, Element, read_blocks
from headwater.extraction.html.layout import PageLayout, layout_features, order_features
from headwater.extraction.html.page_kinds import page_features

URL = "https://shop.example/collections/lamps?page=2"
CARDS = "".join(f"<li class=card><h2>Lamp {number}</h2><div>${number}9.00</div></li>" for number in range(1, 7))
PAGE = f"<h1>Lamps</h1><ul class=grid>{CARDS}</ul><div class=footer><a href=/>Home</a></div><div>Lamps</div>"


def read(markup: str) -> tuple[list[Block], list[Element]]:
    body = LexborHTMLParser(f"<body>{markup}").body
    assert body is not None
    return read_blocks(body)


def features_by_text(markup: str) -> dict[str, set[str]]:
    blocks, elements = read(markup)
    layout = PageLayout(blocks, elements)
    found: dict[str, set[str]] = {}
    for number, block in enumerate(blocks):
        around, order = layout.aspects(number)
        found.setdefault(block.text, set()).update(layout_features(around), order_features(order))
    return found


def test_blocks_of_repeated_siblings_know_the_largest_repetition_around_them() -> None:
    features = features_by_text(PAGE)
    assert any(feature.startswith("repeat:top:") for feature in features["Lamp 3"])
    assert "repeat:none" in features["Home"]


def test_paragraphs_of_a_text_are_no_repeated_siblings() -> None:
    features = features_by_text("<div><p>One line.</p><p>Two lines.</p><p>Three lines.</p></div>")
    assert all("repeat:none" in of for of in features.values())


def test_blocks_know_their_position_to_the_main_heading_and_their_beginning() -> None:
    features = features_by_text(f"<div>Skip</div>{PAGE}")
    assert "h1:before" in features["Skip"]
    assert "h1:h1" in features["Lamps"]
    assert any(feature.startswith("text:price:") for feature in features["$19.00"])


def test_a_repeated_text_is_marked_at_its_first_and_its_later_places() -> None:
    features = features_by_text(PAGE)
    assert {"text:first", "text:again"} <= features["Lamps"]
    assert "text:no" in features["Home"]


def test_features_of_a_page_are_counts_names_and_parts_of_its_address() -> None:
    features = page_features(*read(PAGE), URL, {"og:product.group"})
    assert {"og:product.group", "path:collections", "host:shop", "address:query", "name:card"} <= features
    assert {"tag:li>=1", "tag:li>=4", "repeated:card>=4"} <= features
    assert "tag:li>=5" not in features


def test_an_address_without_a_host_has_no_features() -> None:
    assert page_features([], [], "http://[", set()) == set()
    assert not {feature for feature in page_features(*read(PAGE), "", set()) if feature.startswith("address:")}
