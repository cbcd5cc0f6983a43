"""Read a page that lists other pages as entries: a title, an address and, if the page shows it, a date (issue 24).

A list repeats its markup: links with the same tags and names around them form a group. The group whose links look most
like titles is the list. Further groups join it if their links lead to addresses of the same shape.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from headwater.core.charset import decode_html
from headwater.core.dates import parse_date
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import is_too_deep, one_line
from headwater.core.urls import join_url
from headwater.extraction.html.blocks import HEADINGS
from headwater.extraction.html.page_outline import OutlineElement, PageOutline, clean_title
from headwater.extraction.html.visible_dates import date_in_address, first_date

MAX_ENTRIES = 1_000
_MIN_ENTRIES = 3
_MAX_TAGS = 150_000
_MAX_NEAR = 100  # elements around a link
_HEADING_DISTANCE = 5  # elements between a link and its heading
_LONG_TITLE = 70  # characters; a longer title is no better
_SHORT_TITLE = 25  # a shorter link is the title of an entry only if the links of the group are
_COMMON_TEXT = 3  # a text of links to so many addresses, such as "Read more", is no title
_MIN_PROSE = 40  # characters before a link within a sentence
_SAME_SHAPE = 0.6  # of the addresses of a list
_MAX_DATE_LENGTH = 80
_MAX_DATE_TEXTS = 40  # texts of an entry in which a date is searched
_SLUG = re.compile(r"[^\W_][-_][^\W_]+[-_][^\W_]|\d{4}")
_DIGITS = re.compile(r"\d+")
Shape = tuple[object, ...]  # of an address


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list. Its date is in UTC, or None if the page shows none."""

    url: str
    title: str
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PageList:
    """The title of a page, and the entries that it lists, in its order. Each address occurs once."""

    title: str
    entries: tuple[ListEntry, ...] = ()


def read_list(body: bytes, url: str, content_type: str | None = None) -> PageList:
    """Return the entries that the page at `url` lists. A page without a list has none.

    Raises Unreadable if the page is too large or nested too deep.
    """
    text = decode_html(body, content_type)
    if text.count("<") > _MAX_TAGS:
        raise Unreadable(f"The page has over {_MAX_TAGS:,} tags.", reason=Reason.BODY_TOO_LARGE, url=url)
    if is_too_deep(text):
        raise Unreadable("The elements of the page are nested too deep.", url=url)
    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    page_title = clean_title(title.text()) if title is not None else ""
    if tree.body is None:
        return PageList(page_title)
    base = tree.css_first("base[href]")
    page_url = (_join(base.attributes.get("href") or "", url) if base is not None else None) or url
    reader = _ListReader(PageOutline(tree.body), url, page_url, month_first=_is_american(tree, url))
    return PageList(page_title, tuple(reader.read_entries()))


def _is_american(tree: LexborHTMLParser, url: str) -> bool:
    """Return whether 11/02/2026 is the second of November: by the host or the language of the page."""
    html = tree.css_first("html[lang]")
    language = (html.attributes.get("lang") or "") if html is not None else ""
    host = urlsplit(url).hostname or ""
    return host.endswith((".gov", ".mil")) or language.strip().replace("_", "-").lower() == "en-us"


@dataclass(slots=True, eq=False)
class _Link:
    """The link to an address that looks most like its title."""

    url: str
    element: OutlineElement
    title: str
    is_heading: bool
    shape: Shape
    quality: float

    @property
    def is_title(self) -> bool:
        """Whether the link may be the title of an entry by itself."""
        return self.is_heading or len(self.title) >= _SHORT_TITLE


class _ListReader:
    """Finds the list of a page, and its entries."""

    def __init__(self, outline: PageOutline, page_url: str, base: str, *, month_first: bool) -> None:
        self._outline = outline
        self._base = base
        self._own = {page_url, base, page_url.rstrip("/"), f"{page_url}/"}
        self._month_first = month_first

    def read_entries(self) -> Iterator[ListEntry]:
        """Yield the entries in the order of the page."""
        links = _choose_list(self._find_title_links())[:MAX_ENTRIES]
        starts = [link.element.start for link in links]
        items = [_item_around(link.element, starts) for link in links]
        dates = [self._find_date(link, item.start, item.end) for link, item in zip(links, items, strict=True)]
        if links and not any(dates):
            dates = self._find_dates_between(links, items)
        for link, moment in zip(links, dates, strict=True):
            yield ListEntry(link.url, link.title, moment or parse_date(date_in_address(link.url) or ""))

    def _find_dates_between(self, links: Sequence[_Link], items: Sequence[OutlineElement]) -> list[datetime | None]:
        """Return the dates of entries without elements of their own: all follow the titles, or all precede them."""
        first, last = items[0].parent, items[-1].parent
        starts = [first.start if first else 0, *(item.end for item in items)]
        ends = [*(item.start for item in items), last.end if last else 0]
        owners = [*links, links[-1]]
        found = [self._find_date(*gap) for gap in zip(owners, starts, ends, strict=True)]
        return found[:-1] if found[0] and not found[-1] else found[1:]

    def _find_title_links(self) -> list[_Link]:
        """Return the link to each address outside of the frame of the page that looks most like a title."""
        outline = self._outline
        found: dict[str, list[tuple[OutlineElement, str, bool]]] = defaultdict(list)
        linked: set[int] = set()  # headings that have a link
        for element, target, label in outline.links:
            near = list(islice(element.ancestors(), _MAX_NEAR))
            url = None if any(ancestor.is_frame for ancestor in near) else _join(target, self._base)
            if url is None or url in self._own:
                continue
            around = next((one for one in near[1:_HEADING_DISTANCE] if one.tag in HEADINGS), None)
            heading = around or outline.heading_within(element)
            if heading:
                linked.add(heading.start)
            text = outline.text_of(element if around or heading is None else heading) or clean_title(label)
            if text and not (heading is None and self._is_in_prose(near)):
                found[url].append((element, text, heading is not None))
        counts = Counter(text for of_url in found.values() for text in {text for _, text, _ in of_url})
        links: list[_Link] = []
        for url, of_url in found.items():
            element, title, is_heading = max(of_url, key=lambda one: (one[2], _quality(one[1], counts)))
            if not is_heading and counts[title] >= _COMMON_TEXT:
                heading = next((h for one, _, _ in of_url if (h := self._heading_near(one, linked))), None)
                if heading is None:
                    continue
                linked.add(heading.start)
                title, is_heading = outline.text_of(heading), True
            if title:
                links.append(
                    _Link(url, element, title, is_heading, _shape_of(url), _quality(title, is_heading=is_heading))
                )
        return sorted(links, key=lambda link: link.element.start)

    def _is_in_prose(self, near: Sequence[OutlineElement]) -> bool:
        """Return whether the paragraph around a link begins with other words."""
        paragraph = next((one for one in near[1:_HEADING_DISTANCE] if one.tag == "p"), None)
        if paragraph is None:
            return False
        before = self._outline.texts_within(paragraph.start, near[0].start, _MAX_DATE_TEXTS)
        return sum(map(len, before)) > _MIN_PROSE

    def _heading_near(self, element: OutlineElement, linked: set[int]) -> OutlineElement | None:
        """Return the heading of a link such as "Read more". A heading with a link of its own belongs to that link."""
        for ancestor in islice(element.ancestors(), 1, _HEADING_DISTANCE + 2):
            if heading := self._outline.heading_within(ancestor):
                return None if heading.start in linked else heading
        return None

    def _find_date(self, link: _Link, start: int, end: int) -> datetime | None:
        """Return the date between two places: marked, or visible in a short text that is no part of the title."""
        if (marked := self._outline.time_within(start, end)) and (moment := parse_date(marked)):
            return moment
        texts = (one_line(text) for text in self._outline.texts_within(start, end, _MAX_DATE_TEXTS))
        short = (text for text in texts if len(text) <= _MAX_DATE_LENGTH and text not in link.title)
        return first_date(short, month_first=self._month_first)


def _quality(text: str, counts: Mapping[str, int] = MappingProxyType({}), *, is_heading: bool = False) -> float:
    """Return how much a text looks like a title. A menu has many short texts, so long texts count much more."""
    if counts.get(text, 0) >= _COMMON_TEXT:
        return 0.0
    return (min(len(text), _LONG_TITLE) / _LONG_TITLE) ** 2 * (1.5 if is_heading else 1.0)


def _choose_list(links: Sequence[_Link]) -> list[_Link]:
    """Return the links of the group that looks most like titles, and of the groups that are like it."""
    groups: dict[object, list[_Link]] = defaultdict(list)
    for link in links:
        parent = link.element.parent
        groups[link.element.path, link.element.names, parent and parent.names].append(link)
    main = max(groups.values(), key=lambda group: sum(link.quality for link in group), default=[])
    if len(main) < _MIN_ENTRIES:
        return []
    shape = _find_shape(main)
    first, average = main[0], _average_quality(main)
    chosen = list(main)
    for group in groups.values():
        if group is main:
            continue
        element = group[0].element
        is_alike = (
            element.path == first.element.path
            or (element.names == first.element.names and bool(element.names) and group[0].is_heading)
        ) and group[0].is_heading == first.is_heading
        if is_alike and _average_quality(group) >= average / 2:
            chosen += group
        else:
            chosen += (link for link in group if shape and link.is_title and link.shape[: len(shape)] == shape)
    return sorted(chosen, key=lambda link: link.element.start)


def _find_shape(links: Sequence[_Link]) -> Shape | None:
    """Return the shape of most of the addresses: with their first folder, or else without."""
    for size in (len(links[0].shape), len(links[0].shape) - 1):
        shape, number = Counter(link.shape[:size] for link in links).most_common(1)[0]
        if number >= _SAME_SHAPE * len(links):
            return shape
    return None


def _average_quality(group: Sequence[_Link]) -> float:
    return sum(link.quality for link in group) / len(group)


def _item_around(element: OutlineElement, starts: Sequence[int]) -> OutlineElement:
    """Return the largest element with only this link of the list."""
    item = element
    for ancestor in islice(element.ancestors(), _MAX_NEAR):
        if bisect_left(starts, ancestor.end) - bisect_left(starts, ancestor.start) > 1:
            break
        item = ancestor
    return item


def _shape_of(url: str) -> Shape:
    """Return the host, the number of folders, whether the last name is long or has a number, and the first folder."""
    parts = urlsplit(url)
    folder, _, name = parts.path.strip("/").rpartition("/")
    first = _DIGITS.sub("0", folder.partition("/")[0])
    return parts.netloc, folder.count("/") + bool(folder), _SLUG.search(name) is not None, first


def _join(target: str, base: str) -> str | None:
    try:
        return join_url(target.strip(), base)
    except InvalidURL:
        return None
