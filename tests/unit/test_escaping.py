"""Escaped Markdown (spec 1.6): the content of a PDF or a page is not markup, and prose stays readable."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from headwater.extraction.markdown_escape import escape_cell, escape_heading, escape_paragraph

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = "=#>-+*_`~|\\[]()<>&;!.:\"'/@ 1a\u00e9"
TEXTS = st.text(SIGNS, min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


def shown(token: Token) -> str:
    assert {child.type for child in token.children or ()} <= {"text", "text_special", "softbreak"}
    return "".join("\n" if child.type == "softbreak" else child.content for child in token.children or ())


@given(TEXTS)
def test_a_paragraph_renders_as_its_text(text: str) -> None:
    opened, inline, closed = READER.parse(escape_paragraph(text))
    assert (opened.type, shown(inline), closed.type) == ("paragraph_open", text, "paragraph_close")


def test_no_line_of_a_paragraph_begins_a_block() -> None:
    assert escape_paragraph("above\n---\n2. and\n# so on") == "above\n\\---\n2\\. and\n\\# so on"


@given(st.lists(TEXTS, min_size=2, max_size=3).map("\n".join))
@example("a|b\n-|-")
@example("a\n--")
@example("*1\n***")
@example("_1\n___")
@example("~~1\n~~~~~")
@example("[x\ny]: http://a.test/")
@example("[a]: b\n[x\ny]: http://a.test/")
def test_a_paragraph_of_several_lines_renders_as_its_text(text: str) -> None:
    opened, inline, closed = READER.parse(escape_paragraph(text))
    assert (opened.type, shown(inline), closed.type) == ("paragraph_open", text, "paragraph_close")


@given(TEXTS)
def test_a_heading_renders_as_its_text(text: str) -> None:
    opened, inline, _ = READER.parse(escape_heading(text, 2))
    assert (opened.tag, shown(inline)) == ("h2", text)


@given(st.lists(TEXTS, min_size=2, max_size=3))
def test_cells_render_as_their_texts(texts: list[str]) -> None:
    row = f"| {' | '.join(map(escape_cell, texts))} |"
    tokens = READER.parse("\n".join([row, "|" + " --- |" * len(texts), row]))
    assert [shown(token) for token in tokens if token.type == "inline"] == texts * 2


@pytest.mark.parametrize(
    "text",
    [
        "Smith* and Jones* agree; see the note below.",
        "Name: ______ Date: ______ (print)",
        "snake_case_names and https://a.test/b_c_d?e=1&f=2",
        "5 * 3 * 2 is 30, ~5 or ~6, x < 5 > 2, <5%, AT&T",
        "[sic] and (see note 4) [brackets]",
        "C:\\Users\\report",
        "-5 degrees, #1 of 3, 1.5 million, +4 percent",
        "A | B and one ` sign",
        "Is it so? Yes!",
    ],
)
def test_plain_prose_has_no_backslashes(text: str) -> None:
    assert escape_paragraph(text) == escape_heading(text, 1)[2:] == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# one", "\\# one"),
        ("> quoted", "\\> quoted"),
        ("- item", "\\- item"),
        ("+ item", "\\+ item"),
        ("1. Name", "1\\. Name"),
        ("12) Name", "12\\) Name"),
        ("---", "\\---"),
        ("```sh", "\\```sh"),
        ("<script>alert(1)</script>", "\\<script>alert(1)\\</script>"),
        ("[x](y)", "[x\\](y)"),
        ("*a* and _b_", "\\*a\\* and \\_b\\_"),
        ("`code`", "\\`code\\`"),
        ("&copy; 2024", "\\&copy; 2024"),
        ("[note]: below", "\\[note]: below"),
    ],
)
def test_markup_in_a_text_gets_one_backslash(text: str, written: str) -> None:
    assert escape_paragraph(text) == written
