"""Read a page as a sequence of blocks: paragraphs, headings, list items and table cells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.core.text import collapse_whitespace

UNSEEN = frozenset(
    """
    script style template svg iframe object embed canvas audio video map math head link meta img picture source input
    nav footer select option optgroup datalist textarea button progress meter area base frame frameset rt rp -comment
    """.split()  # noqa: SIM905 (as a list of literals it would fill the page)
)
BLOCK_TAGS = frozenset(
    """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure form
    h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu noscript ol p pre search section summary table tbody td tfoot
    th thead tr ul
    """.split()  # noqa: SIM905 (as a list of literals it would fill the page)
)
# Longer names, and more words of them, say little and take time.
_MAX_NAMES_LENGTH = 200
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}(?![a-z])")
_LOWER_WORD = re.compile(r"[a-z]{2,}")
_MAX_NEAR = 100
_HIDDEN = re.compile(r"display:\s*none|visibility:\s*hidden")
_MEDIA = frozenset({"img", "picture", "video", "iframe"})
_LINE = "\r"  # a <br>; the parser leaves no such character in texts
_EMPTY_LINE = re.compile(r"\r\s*\r")
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
# Closing quotation marks, and the full stops of Chinese, Hindi, Urdu and Burmese, also end sentences.
SENTENCE_ENDS = frozenset('.!?\u2026\u3002\uff01\uff1f\u0964\u06d4\u104b"\u201d\u00bb\u300d')


# The names of these elements say less than the names of their ancestors, and reading attributes takes time.
_RARELY_NAMED = frozenset(["td", "th", "tr", "tbody", "thead", "tfoot", "dd", "dt"])
# The tag of an element is one of its names.
TAG_NAMES = {tag: frozenset({f"<{tag}>"}) for tag in BLOCK_TAGS}
_HIDDEN_NAME = frozenset({"(hidden)"})


def _find_tag_ids() -> dict[int, str]:
    """Return the names of the tags that matter by the parser's tag ids, which are faster to read."""
    parser = LexborHTMLParser("<body><!-- -->text")
    assert parser.body
    tags = {node.tag_id: node.tag for node in parser.body.iter(include_text=True) if node.tag}
    for tag in {*BLOCK_TAGS, *UNSEEN, "a", "br"}.difference(tags.values()):
        tags[parser.create_node(tag).tag_id] = tag
    return tags


_TAGS = _find_tag_ids()


@dataclass(slots=True, eq=False)
class Element:
    """An element that begins a new line, with the sizes of all blocks in it."""

    tag: str
    parent: "Element | None"
    names: frozenset[str]
    order: int
    size: int = 0  # of all blocks in the element
    links: int = 0  # of the text within links
    prose: int = 0  # of the blocks that read like sentences

    def add(self, size: int, links: int, prose: int) -> None:
        """Add the sizes of a block, or of all blocks of a child."""
        self.size += size
        self.links += links
        self.prose += prose

    def ancestors(self) -> Iterator["Element"]:
        """Yield the element, its parent, and so on up to the body."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.parent

    def near(self) -> Iterator["Element"]:
        """Yield the same, but only as many as ordinary pages have, because this runs for each block."""
        return islice(self.ancestors(), _MAX_NEAR)


class Block:
    """A run of text between two line breaks."""

    __slots__ = ("element", "follows_media", "is_prose", "likeness", "links", "size", "text")

    def __init__(self, element: Element, text: str, links: int, *, follows_media: bool = False) -> None:
        self.follows_media = follows_media  # a picture or a video is between the block before and this one
        self.element = element
        self.text = text
        self.size = size = text_size(text)
        self.links = links = min(links, len(text)) * size // len(text)
        # The block reads like a sentence or more.
        self.is_prose = size >= 40 and links * 4 <= size and (size >= 100 or text[-1] in SENTENCE_ENDS)
        # Blocks whose elements and parents have the same names are alike.
        self.likeness = element.tag, element.names, element.parent and element.parent.names


def text_size(text: str) -> int:
    """Return about how many letters the same text has in English. Some scripts need fewer letters for a word."""
    return len(text) if text.isascii() else (len(text) + len(text.encode())) // 2


def read_blocks(body: LexborNode) -> tuple[list[Block], list[Element]]:
    """Return the blocks of a page and the elements that contain any, both in the order of the page."""
    element = Element("body", None, _names_of(body, "body"), 0)
    elements = [element]
    pending: list[tuple[str, LexborNode]] = []  # within `element`; they become elements when text follows
    blocks: list[Block] = []
    parts: list[str] = []
    links = within_links = 0
    has_media = False
    # The node after a subtree, and what ends there: an element, a link or nothing.
    waiting: list[tuple[LexborNode | None, str]] = []
    node = body.first_child

    def flush() -> None:
        nonlocal element, links, has_media
        joined = "".join(parts)
        is_preformatted = (pending[-1][0] if pending else element.tag) == "pre"
        paragraphs = _EMPTY_LINE.split(joined) if _LINE in joined and not is_preformatted else (joined,)
        for paragraph in paragraphs:
            if text := collapse_whitespace(paragraph):
                for tag, opening in pending:
                    names = TAG_NAMES[tag] if tag in _RARELY_NAMED else _names_of(opening, tag)
                    element = Element(tag, element, names, len(elements))
                    elements.append(element)
                pending.clear()
                block = Block(element, text, links, follows_media=has_media)
                has_media = False
                if is_preformatted:  # the words of preformatted text count like those of other blocks
                    block.text = _keep_lines(joined)
                blocks.append(block)
                element.add(block.size, block.links, block.size if block.is_prose else 0)
        parts.clear()
        links = 0

    while True:
        if node is None:
            if not waiting:
                break
            node, ending = waiting.pop()
            if ending == "element":
                if parts:
                    flush()
                if pending:
                    pending.pop()
                else:
                    assert element.parent
                    element.parent.add(element.size, element.links, element.prose)
                    element = element.parent
            elif ending == "link":
                within_links -= 1
            continue
        tag = _TAGS.get(node.tag_id, "")
        following = node.next
        if tag == "-text":
            text = node.text_content or ""
            if parts or not text.isspace():
                parts.append(text)
                if within_links:
                    links += len(text)
        elif tag in BLOCK_TAGS:
            if parts:
                flush()
            child = node.first_child
            if child is not None:
                pending.append((tag, node))
                waiting.append((following, "element"))
                node = child
                continue
        elif tag == "br":
            parts.append(_LINE)
        elif tag not in UNSEEN:
            child = node.first_child
            if child is not None:
                if tag == "a":
                    within_links += 1
                waiting.append((following, "link" if tag == "a" else ""))
                node = child
                continue
        elif tag in _MEDIA:
            has_media = True
        node = following
    flush()
    return blocks, elements


def _keep_lines(text: str) -> str:
    lines = [line.rstrip() for line in text.replace(_LINE, "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def _names_of(node: LexborNode, tag: str) -> frozenset[str]:
    attributes = node.attributes
    if not attributes:
        return TAG_NAMES[tag]
    names_text = attributes.get("class") or ""
    if names_text and len(attributes) == 1:
        return _split_names(tag, names_text[:_MAX_NAMES_LENGTH])
    for naming in ("id", "itemprop", "role"):
        if name := attributes.get(naming):
            names_text = f"{names_text} {name}"
    names = _split_names(tag, names_text[:_MAX_NAMES_LENGTH])
    is_hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
    return names | _HIDDEN_NAME if is_hidden or _HIDDEN.search(attributes.get("style") or "") else names


@lru_cache(maxsize=10_000)
def _split_names(tag: str, names: str) -> frozenset[str]:
    """Return the words of names. The words of articleBody, article-body and article_body are the same."""
    words = _LOWER_WORD.findall(names) if names.islower() else [word.lower() for word in _WORD.findall(names)]
    return TAG_NAMES[tag].union(words)
