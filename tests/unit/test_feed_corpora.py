"""Spec 3.2: real feeds, and the expectations of feedparser's tests for titles, links and dates."""

import ast
import gzip
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from headwater.core.errors import Unreadable
from headwater.core.text import strip_markup
from headwater.feeds.parser import parse_feed

CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))
TESTS = CORPORA / "feedparser-tests" / "tests"
# The reasons why some expectations are not met.
NOT_MET = {
    "wellformed/atom/entry_updated_multiple_values.xml": "of two dates the first counts here, the last there",
    "wellformed/cdf/channel_lastmod_parsed.xml": "CDF is dead since 2001",
    "wellformed/cdf/item_href_map_link.xml": "CDF is dead since 2001",
    "wellformed/sanitize/xml_malicious_comment.xml": "an open comment hides all that follows, as in browsers",
}
DATES = {
    "published_parsed": ("published_at",),
    "created_parsed": ("published_at", "updated_at"),
    "updated_parsed": ("updated_at", "published_at"),
    "date_parsed": ("updated_at", "published_at"),
}

pytestmark = pytest.mark.skipif(not CORPORA.is_dir(), reason="no corpora: set HEADWATER_CORPORA")


def test_every_real_feed_is_read_with_every_entry() -> None:
    """An entry for each opening tag. In broken feeds, for each whole entry."""
    paths = sorted((CORPORA / "real-feeds-kagi" / "benchmark_data").glob("*.gz"))
    assert len(paths) >= 97
    wrong = {}
    for path in paths:
        body = gzip.decompress(path.read_bytes())
        entries = parse_feed(body, url="https://example.org/feed").entries
        without_contents = re.sub(rb"<!\[CDATA\[.*?\]\]>|<!--.*?-->", b"", body, flags=re.DOTALL)
        there = len(re.findall(rb"<(?:item|entry)[\s>]", without_contents))
        if len(entries) != there or not all(entry.url for entry in entries):
            wrong[path.name] = (len(entries), there)
    assert wrong == {}


def test_every_feed_of_feedparsers_tests_is_a_feed() -> None:
    paths = sorted(TESTS.rglob("*.xml"))
    assert len(paths) > 1000
    refused = [path.name for path in paths if not _is_feed(path.read_bytes())]
    assert refused == []


def _is_feed(body: bytes) -> bool:
    try:
        parse_feed(body, url="https://example.org/feed")
    except Unreadable:
        return False
    return True


@dataclass(frozen=True)
class Expectation:
    """The expected value of a field of the feed, or of one of its entries."""

    path: Path
    entry: int | None
    field: str
    value: object
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(TESTS))

    def is_met(self) -> bool:
        content_type = re.search(r"Header:\s*Content-type:\s*(.*)", self.text, re.IGNORECASE)
        location = re.search(r"Header:\s*Content-Location:\s*(\S+)", self.text, re.IGNORECASE)
        feed = parse_feed(
            self.path.read_bytes(),
            url=location[1] if location else "http://127.0.0.1:8097/feed.xml",
            content_type=content_type[1].strip() if content_type else None,
        )
        if self.entry is not None and self.entry >= len(feed.entries):
            return False
        about = feed if self.entry is None else feed.entries[self.entry]
        if self.field in DATES:
            moments: list[datetime] = list(filter(None, (getattr(about, name) for name in DATES[self.field])))
            wanted = tuple(self.value)[:6] if isinstance(self.value, tuple) else None
            return (tuple(moments[0].timetuple()[:6]) if moments else None) == wanted
        found = getattr(about, {"link": "link" if self.entry is None else "url"}.get(self.field, self.field)) or ""
        assert isinstance(self.value, str)
        # titles are plain text; an address without a path may have a slash
        return found in (self.value, strip_markup(self.value)) or found.rstrip("/") == self.value.rstrip("/")


def expectations() -> Iterator[Expectation]:
    for path in sorted([*TESTS.rglob("*.xml"), *TESTS.rglob("*.json")]):
        text = _readable(path.read_bytes())
        stated = re.search(r"Expect:\s*(.*?)\s*(?:-->|\n)", text)
        if not stated:
            continue
        try:
            expected = ast.parse(stated[1], mode="eval").body
        except SyntaxError:
            continue
        for part in expected.values if isinstance(expected, ast.BoolOp) else [expected]:
            if found := _understand(part):
                yield Expectation(path, *found, text)


def _readable(body: bytes) -> str:
    for codec in ("utf-8", "utf-16", "utf-32", "cp037"):
        text = body.decode(codec, "replace")
        if "Expect:" in text:
            return text
    return ""


def _understand(part: ast.expr) -> tuple[int | None, str, object] | None:
    """Parse `feed['title'] == 'x'` or `entries[0]['link'] == 'y'`."""
    match part:
        case ast.Compare(left=ast.Subscript(value=owner, slice=ast.Constant(value=str(field))), ops=[ast.Eq()]):
            pass
        case _:
            return None
    if field not in ("title", "link", *DATES):
        return None
    try:
        value = ast.literal_eval(part.comparators[0])
    except ValueError:
        return None
    match owner:
        case ast.Name(id="feed"):
            return None, field, value
        case ast.Subscript(value=ast.Name(id="entries"), slice=ast.Constant(value=int(number))):
            return number, field, value
    return None


def test_titles_links_and_dates_are_what_feedparsers_tests_expect() -> None:
    stated = list(expectations())
    assert len(stated) > 280
    not_met = {expectation.name for expectation in stated if not expectation.is_met()}
    assert not_met == NOT_MET.keys()
    assert len(not_met) / len(stated) < 0.03
