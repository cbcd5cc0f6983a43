"""The outline of a page for readers of lists: its links, headings, times and texts, each with its place."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from selectolax.lexbor import LexborNode

from headwater.core.text import make_storable, one_line
from headwater.extraction.html.blocks import HEADINGS

MAX_TITLE_LENGTH = 300
_MAX_LINKS = 10_000
_MAX_TITLE_TEXTS = 40
_MAX_TEXT_LENGTH = 4 * MAX_TITLE_LENGTH
_UNSEEN = frozenset(
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "select", "textarea", "head"]
)
_FRAME_TAGS = frozenset(["nav", "footer", "aside", "menu"])
_FRAME_ROLES = frozenset(["navigation", "contentinfo", "search", "complementary", "menu", "menubar"])
_FRAME_NAMES = frozenset(
    """
    nav navbar navigation menu menus footer breadcrumb breadcrumbs sidebar aside social share sharing cookie cookies
    consent pagination pager related trending popular megamenu dropdown submenu toolbar widget newsletter
    """.split()  # noqa: SIM905 (as a list of literals it would fill the page)
)
_MAX_FRAME_SHARE = 0.5  # of the links of the page; an element with more of them is no frame
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")
_NAME = re.compile(r"[a-z]+")
_MAX_NAMES_LENGTH = 200


@dataclass(slots=True, eq=False)
class OutlineElement:
    """An element. Its content is the range of places from `start` to `end`."""

    tag: str
    parent: "OutlineElement | None"
    start: int
    names: frozenset[str] = frozenset()
    path: int = 0  # the same for elements with the same tags around them
    end: int = 0
    is_frame: bool = False  # a menu, a footer and the like

    def ancestors(self) -> "Iterator[OutlineElement]":
        """Yield the element, its parent, and so on up to the body."""
        element: OutlineElement | None = self
        while element is not None:
            yield element
            element = element.parent


class PageOutline:
    """The elements and the texts of a page. Each has a place, and the content of an element is a range of places."""

    def __init__(self, body: LexborNode) -> None:
        self._texts: list[str] = []
        self._text_places: list[int] = []
        self.links: list[tuple[OutlineElement, str, str]] = []  # with the address and the label
        self._headings: list[OutlineElement] = []
        self._times: list[tuple[int, str]] = []
        self._paths: dict[tuple[int, str], int] = {}
        self._frames: list[OutlineElement] = []
        self._walk(body)
        self._mark_frames()

    def _walk(self, body: LexborNode) -> None:
        root = element = self._open(body, None, 0)
        place = 0
        waiting: list[LexborNode | None] = []
        node = body.first_child
        while True:
            place += 1
            if node is None:
                if not waiting:
                    break
                node = waiting.pop()
                element.end = place
                element = element.parent or root
                continue
            tag = node.tag or ""
            following = node.next
            if tag == "-text":
                text = node.text_content or ""
                if text and not text.isspace():
                    self._texts.append(text[:_MAX_TEXT_LENGTH])
                    self._text_places.append(place)
            elif tag not in _UNSEEN and (child := node.first_child) is not None:
                element = self._open(node, element, place)
                waiting.append(following)
                node = child
                continue
            elif tag in ("a", "time"):
                self._open(node, element, place).end = place + 1
            node = following
        root.end = self.end = place

    def _open(self, node: LexborNode, parent: OutlineElement | None, place: int) -> OutlineElement:
        tag = node.tag or ""
        attributes = node.attributes
        element = OutlineElement(tag, parent, place)
        if parent is not None:
            element.path = self._paths.setdefault((parent.path, tag), len(self._paths) + 1)
        words = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"[:_MAX_NAMES_LENGTH]
        element.names = frozenset(word.lower() for word in _WORD.findall(words))
        if tag == "a":
            if len(self.links) < _MAX_LINKS and (target := attributes.get("href")):
                self.links.append((element, target, attributes.get("aria-label") or ""))
        elif tag in HEADINGS:
            self._headings.append(element)
        elif tag == "time" and (moment := attributes.get("datetime")):
            self._times.append((place, moment))
        if (
            tag in _FRAME_TAGS
            or (attributes.get("role") or "").lower() in _FRAME_ROLES
            or not _FRAME_NAMES.isdisjoint(element.names)
            or not _FRAME_NAMES.isdisjoint(_NAME.findall(words.lower()))  # the whole of sideBar
        ):
            self._frames.append(element)
        return element

    def _mark_frames(self) -> None:
        """Mark the elements that frame the content. An element with most of the links is none."""
        places = [link.start for link, _, _ in self.links]
        for element in self._frames:
            share = bisect_left(places, element.end) - bisect_left(places, element.start)
            element.is_frame = element.tag in ("nav", "footer") or share <= _MAX_FRAME_SHARE * len(places)

    def texts_within(self, start: int, end: int, most: int) -> list[str]:
        """Return the first texts between two places."""
        first = bisect_left(self._text_places, start)
        last = bisect_left(self._text_places, end)
        return self._texts[first : min(last, first + most)]

    def text_of(self, element: OutlineElement) -> str:
        """Return the text of an element as one line."""
        return clean_title(" ".join(self.texts_within(element.start, element.end, _MAX_TITLE_TEXTS)))

    @cached_property
    def _heading_places(self) -> list[int]:
        return [heading.start for heading in self._headings]

    def heading_within(self, element: OutlineElement) -> OutlineElement | None:
        """Return the first heading in an element."""
        number = bisect_left(self._heading_places, element.start)
        found = self._headings[number] if number < len(self._headings) else None
        return found if found and found.start < element.end else None

    def time_within(self, start: int, end: int) -> str | None:
        """Return the first marked time between two places."""
        number = bisect_left(self._times, (start, ""))
        return self._times[number][1] if number < len(self._times) and self._times[number][0] < end else None


def clean_title(text: str) -> str:
    """Return a text as one line of limited length."""
    return one_line(make_storable(text[:_MAX_TEXT_LENGTH]))[:MAX_TITLE_LENGTH].rstrip()
