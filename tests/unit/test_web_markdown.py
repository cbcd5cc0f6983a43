"""Markdown from outside as HTML (spec 11.13)."""

import pytest
from selectolax.lexbor import LexborHTMLParser

from headwater.web.markdown import render_markdown, render_text, split_parts

LARGEST_PART = 110_000  # bytes of HTML


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<b>)",
        "[x](//evil.test/)",
        "![x](http://a.test/p.png)",
        '![x](http://a.test/p.png "onload=alert(1)")',
        "<http://a.test/>",
        "[x]: javascript:alert(1)\n\n[x]",
        "```<script>\n</code><script>\n```",
        "| a | b |\n|:--|--:|\n| <i onclick=x> | 2 |",
        "\x1b[31mred \u202eevil",
    ],
)
def test_markdown_from_outside_cannot_act(hostile: str) -> None:
    tree = LexborHTMLParser(render_markdown(hostile))
    assert not tree.css("script, img, iframe, style, object, form, i")
    for node in tree.css("*"):
        assert not [name for name in node.attributes if name.startswith("on") or name in ("style", "src", "title")]
    for link in tree.css("a[href]"):
        assert (link.attributes["href"] or "").startswith("http://a.test/")
        assert link.attributes["rel"] == "noopener noreferrer nofollow"


def test_the_form_of_markdown_is_kept_below_the_title_of_the_page() -> None:
    tree = LexborHTMLParser(render_markdown("# One\n\nText\n\n- a\n- b\n\n| h |\n|---|\n| c |\n\n###### Six"))
    assert [node.tag for node in tree.css("h1, h2, h3, h4, h5, h6")] == ["h2", "h6"]
    assert len(tree.css("li")) == 2
    assert tree.css_first("td").text() == "c"
    assert {node.attributes["dir"] for node in tree.css("p, h2, td")} == {"auto"}


@pytest.mark.parametrize(
    "text",
    [
        "word " * 100_000,
        "<" * 200_000,
        "a\n\n" * 50_000,
        "a\n" * 50_000,
        "|a" * 30_000,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 20_000,
        "> " * 3_000 + "x",
        "本" * 100_000,
        "",
    ],
)
def test_each_part_of_a_long_text_fits_a_page(text: str) -> None:
    parts = split_parts(text)
    assert parts
    for part in {*parts[:2], parts[-1]}:
        assert len(render_markdown(part).encode()) < LARGEST_PART
        assert len(render_text(part).encode()) < LARGEST_PART
    assert "".join("".join(parts).split()) == "".join(text.split())
