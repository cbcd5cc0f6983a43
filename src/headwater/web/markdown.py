"""Markdown from outside as HTML that only shows: no HTML of its own, no picture, no address but those of the web."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from headwater.web.texts import clean, is_web_address

PART_BYTES = 60_000  # of HTML, about: a page stays below 150 kB
_LONGEST_LINE = 8_000
_LARGEST_HTML = 100_000
_TAG_BYTES = 22  # of a paragraph or a cell
_TOP_HEADING = 2  # the page itself has the first
_LOWEST_HEADING = 6
_BLOCKS = {"paragraph_open", "heading_open", "list_item_open", "td_open", "th_open", "blockquote_open"}


class _Renderer(RendererHTML):
    """Renders links of the web only, and shows a picture as a link."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        label = self.renderInlineAsText(tokens[idx].children or [], options, env) or "picture"
        return _open_link(tokens[idx].attrGet("src")) + str(escape(label)) + "</a>"

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _open_link(tokens[idx].attrGet("href"))


def _open_link(url: object) -> str:
    """Open a link. An address that is none of the web leads nowhere."""
    if not is_web_address(url):
        return "<a>"
    return Markup('<a href="{}" class="outside" rel="noopener noreferrer nofollow">').format(clean(url))


_PARSER = MarkdownIt(
    "commonmark", {"html": False, "typographer": False, "linkify": False}, renderer_cls=_Renderer
).enable(["table", "strikethrough"])


def render_markdown(text: str) -> Markup:
    """Return Markdown as HTML. A text whose HTML would be too long for a page is shown as it is."""
    tokens = _PARSER.parse(clean(text))
    for token in tokens:
        if token.type in _BLOCKS:
            token.attrs = {"dir": "auto"}  # a column of a table would have a style
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(_LOWEST_HEADING, int(token.tag[1]) + _TOP_HEADING - 1)}"
    rendered = _PARSER.renderer.render(tokens, _PARSER.options, {})
    if len(rendered.encode()) > _LARGEST_HTML:
        return render_text(text)
    return Markup(rendered)  # noqa: S704 - the renderer escapes, and its rules above link to the web only


def render_text(text: str) -> Markup:
    """Return plain text as paragraphs."""
    paragraphs = (line.strip() for line in clean(text).split("\n"))
    return Markup("\n").join(Markup('<p dir="auto">{}</p>').format(line) for line in paragraphs if line)


def split_parts(text: str) -> list[str]:
    """Split a text at its empty lines, or else at its lines, into parts of about `PART_BYTES` bytes of HTML."""
    parts: list[list[str]] = [[]]
    used = 0
    for block in _split_blocks(text):
        cost = len(escape(block).encode()) + _TAG_BYTES * (1 + block.count("\n") + block.count("|"))
        if used and used + cost > PART_BYTES:
            parts.append([])
            used = 0
        parts[-1].append(block)
        used += cost
    return ["\n\n".join(part) for part in parts]


def _split_blocks(text: str) -> list[str]:
    blocks = []
    for block in re.split(r"\n{2,}", text):
        if len(block) <= _LONGEST_LINE:
            blocks.append(block)
            continue
        lines: list[str] = []
        for line in block.split("\n"):
            pieces = [line[start : start + _LONGEST_LINE] for start in range(0, len(line), _LONGEST_LINE)]
            for piece in pieces or [""]:
                if lines and len(lines[-1]) + len(piece) < _LONGEST_LINE:
                    lines[-1] += "\n" + piece
                else:
                    lines.append(piece)
        blocks += lines
    return blocks
