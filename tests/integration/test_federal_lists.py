"""Lists of federal sources that come late, empty or broken: no item counts as gone or as read (spec 1.1)."""

from typing import Any

import pytest

from headwater.core.poll import PollResult
from tests.database_state import items
from tests.harness import AppHarness
from tests.server import Answer, Site, page

INDEX = "http://gov.test/sitemapindex.xml"
CHANGED = "2026-01-15T08:00:00Z"


def _series(name: str) -> str:
    return f"http://gov.test/119{name}/sitemap.xml"


def _bill(kind: str, number: int) -> str:
    return f"http://gov.test/bulkdata/BILLSTATUS-119{kind}{number}.xml"


def _sitemap(kind: str, *numbers: int) -> Answer:
    urls = "".join(f"<url><loc>{_bill(kind, number)}</loc><lastmod>{CHANGED}</lastmod></url>" for number in numbers)
    return Answer(f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>')


def _index(*kinds: str) -> Answer:
    maps = "".join(f"<sitemap><loc>{_series(kind)}</loc><lastmod>{CHANGED}</lastmod></sitemap>" for kind in kinds)
    return Answer(
        f'<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{maps}</sitemapindex>'
    )


async def _read(harness: AppHarness) -> PollResult:
    known = [source.name for source in await harness.operations.sources.list_sources()]
    if "bills" not in known:
        given: dict[str, Any] = {"sitemap_url": INDEX, "lookups_per_run": 0, "fetch_items": False, "congresses": [119]}
        quick = {"rate_per_second": 1000, "retry": {"attempts": 1, "base_seconds": 0}}
        await harness.operations.sources.create("bills", "bills", {**given, **quick})
    return await harness.operations.sources.sync("bills")


async def _bills(harness: AppHarness) -> set[str]:
    return {item.url for item in await items(harness)}


ODD = {
    "empty": Answer(""),
    "of no bills": _sitemap("hr"),
    "a page under 200": Answer(page("an outage"), headers={"Content-Type": "text/html"}),
    "broken off": Answer(str(_sitemap("hr", 1, 2).body)[:150]),
    "500": Answer(status=500),
    "404": Answer(status=404),
}


@pytest.mark.parametrize("name", ODD)
async def test_a_sitemap_that_cannot_be_read_keeps_no_other_and_is_read_the_next_time(
    name: str, site: Site, harness: AppHarness
) -> None:
    """Though the index says that it has not changed since."""
    site.answers |= {INDEX: _index("hr", "s"), _series("hr"): ODD[name], _series("s"): _sitemap("s", 1)}
    assert (await _read(harness)).error is None
    assert await _bills(harness) == {_bill("s", 1)}
    site.answers[_series("hr")] = _sitemap("hr", 1, 2)
    assert (await _read(harness)).error is None
    assert await _bills(harness) == {_bill("s", 1), _bill("hr", 1), _bill("hr", 2)}
    assert site.visits(_series("s")) == 1, "it was read whole"


@pytest.mark.parametrize("name", ["empty", "a page under 200", "500", "404"])
async def test_an_index_that_cannot_be_read_fails_the_run_and_loses_nothing(
    name: str, site: Site, harness: AppHarness
) -> None:
    site.answers |= {INDEX: _index("hr"), _series("hr"): _sitemap("hr", 1)}
    await _read(harness)
    site.answers |= {INDEX: ODD[name], _series("hr"): _sitemap("hr", 1, 2)}
    failed = await _read(harness)
    assert failed.error
    assert failed.reason != "polled"
    assert await _bills(harness) == {_bill("hr", 1)}


async def test_an_index_of_nothing_is_incomplete(site: Site, harness: AppHarness) -> None:
    site.answers[INDEX] = _index()
    assert (await _read(harness)).reason == "incomplete"


async def test_bills_that_are_missing_from_a_sitemap_are_not_taken_for_gone(site: Site, harness: AppHarness) -> None:
    """They lag, and are at times incomplete."""
    site.answers |= {INDEX: _index("hr"), _series("hr"): _sitemap("hr", 1, 2)}
    await _read(harness)
    later = str(_index("hr").body).replace("08:00", "12:00")
    site.answers |= {INDEX: Answer(later), _series("hr"): _sitemap("hr", 2, 3)}
    assert (await _read(harness)).error is None
    assert await _bills(harness) == {_bill("hr", number) for number in (1, 2, 3)}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(ODD["a page under 200"], "not_a_feed"), (ODD["500"], "http_5xx"), (Answer(status=403), "http_4xx")],
)
async def test_a_feed_of_gao_that_is_none_fails_with_its_reason_and_is_read_again(
    answer: Answer, reason: str, site: Site, harness: AppHarness
) -> None:
    feed = "http://gao.test/rss/reports.xml"
    item = "<item><title>Ferries</title><link>http://gao.test/products/gao-26-107908</link></item>"
    site.answers[feed] = [answer, Answer(f'<rss version="2.0"><channel><title>t</title>{item}</channel></rss>')]
    given = {"feed_url": feed, "fetch_items": False, "rate_per_second": 1000}
    await harness.operations.sources.create("gao", "gao_reports", given)
    assert (await harness.operations.sources.sync("gao")).reason == reason
    assert await _bills(harness) == set()
    assert (await harness.operations.sources.sync("gao")).error is None
    assert await _bills(harness) == {"http://gao.test/assets/gao-26-107908.pdf"}
