"""Redirects: a fetch follows them within a host, and no page is downloaded twice (spec 4.2)."""

import itertools
from collections.abc import Callable
from datetime import date

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html; charset=utf-8"}
OLD, NEW = "http://news.test/old", "http://news.test/new"
ABROAD = "http://other.test/new"
STATUSES = (301, 302, 303, 307, 308)


def moved(target: str, status: int = 302) -> Answer:
    return Answer(status=status, headers={"Location": target})


async def fetch_moved(site: Site, harness: AppHarness, target: str, location: str) -> dict[str, tuple[str | None, ...]]:
    """Fetch pages that moved with each status. Return the reasons of the old and of the new addresses."""
    for status in STATUSES:
        site.answers[f"{OLD}{status}"] = moved(location.format(status), status)
        site.answers[f"{target}{status}"] = Answer(page(f"moved by {status}"), headers=HTML)
    outcomes = await harness.fetch(*(f"{OLD}{status}" for status in STATUSES))
    assert len(outcomes) == 2 * len(STATUSES)
    return {url: tuple({outcomes[f"{url}{status}"] for status in STATUSES}) for url in (OLD, target)}


async def test_within_the_host_a_redirect_is_followed_in_place(site: Site, harness: AppHarness) -> None:
    assert await fetch_moved(site, harness, NEW, "/new{}") == {OLD: ("stored",), NEW: ("same_page",)}
    assert all(site.visits(url) == 1 for url in site.answers)
    assert await harness.operations.documents.count() == (len(STATUSES), len(STATUSES))


async def test_to_another_host_a_redirect_ends_the_url_and_submits_the_other(site: Site, harness: AppHarness) -> None:
    """With one hop more."""
    location = f"{ABROAD}{{}}?utm_medium=r"
    assert await fetch_moved(site, harness, ABROAD, location) == {OLD: ("redirect",), ABROAD: ("stored",)}
    assert set(await harness.rows("SELECT host, hops FROM url_frontier")) == {("news.test", 0), ("other.test", 1)}


@pytest.mark.both_servers
async def test_the_target_of_a_redirect_is_not_downloaded_again_when_a_feed_lists_it(
    site: Site, harness: AppHarness
) -> None:
    """Each URL on the way is an alias of the page, and an item with any of them finds its document."""
    site.answers[OLD] = moved("/between")
    site.answers["http://news.test/between"] = moved("/new")
    site.answers[NEW] = Answer(page("moving house"), headers=HTML)
    await harness.fetch(OLD)
    site.answers[FEED] = rss(NEW, "http://news.test/between", OLD)
    polled = await harness.operations.sources.add(FEED)
    assert (polled.items, polled.new_urls) == (3, 0)
    await harness.work()
    assert site.visits(NEW) == 1
    items = (await harness.operations.days.day(date(2026, 3, 12))).items
    found = [await harness.operations.documents.get(item.document_id or 0) for item in items]
    assert [document.url for document in found] == [OLD] * 3


@pytest.mark.both_servers
@pytest.mark.parametrize("target", [NEW, ABROAD], ids=["within the host", "to another host"])
@pytest.mark.parametrize("known_as", ["queued", "fetched"])
async def test_a_redirect_to_a_page_that_is_known_ends_there_and_downloads_nothing_twice(
    known_as: str, target: str, site: Site, harness: AppHarness
) -> None:
    site.answers[OLD] = moved(target)
    site.answers[target] = Answer(page("known already"), headers=HTML)
    if known_as == "fetched":
        await harness.fetch(target)
    site.answers[FEED] = rss(OLD, target)
    await harness.operations.sources.add(FEED)
    await harness.work()
    assert await harness.outcomes() == {OLD: "redirect", target: "stored"}
    assert site.visits(target) == 1
    items = (await harness.operations.days.day(date(2026, 3, 12))).items
    assert len({item.document_id for item in items}) == 1
    assert all(item.document_id for item in items)


async def test_a_redirect_that_only_adds_a_slash_or_a_parameter_is_followed_as_it_is(
    site: Site, harness: AppHarness
) -> None:
    """Most blogs do that. The request uses the server's form of the URL, and the frontier the normalized form."""
    site.answers[FEED] = Answer(status=301, headers={"Location": "/feed/"})
    site.answers[FEED + "/"] = rss("http://news.test/story/", OLD)
    site.answers["http://news.test/story"] = Answer(status=301, headers={"Location": "/story/"})
    site.answers["http://news.test/story/"] = Answer(page("a story"), headers=HTML)
    site.answers[OLD] = moved("/new?utm_source=x&b=1&a=2")
    site.answers["http://news.test/new?utm_source=x&b=1&a=2"] = Answer(page("an old one"), headers=HTML)
    await harness.operations.sources.add(FEED)
    await harness.work()
    assert await harness.outcomes() == {
        "http://news.test/story": "stored",
        OLD: "stored",
        "http://news.test/new?a=2&b=1": "same_page",
    }


async def test_an_item_finds_its_document_behind_a_redirect_to_another_host(site: Site, harness: AppHarness) -> None:
    """Spec 8.4."""
    site.answers[FEED] = rss(OLD)
    site.answers[OLD] = moved(ABROAD)
    site.answers[ABROAD] = Answer(page("the long one"), headers=HTML)
    await harness.operations.sources.add(FEED)
    await harness.work()
    items = (await harness.operations.days.day(date(2026, 3, 12))).items
    document = await harness.operations.documents.get(items[0].document_id or 0)
    assert document.url == ABROAD
    assert document.published_at is not None


@pytest.mark.parametrize(("hops", "fate"), [(5, "stored"), (6, "redirect_limit")])
@pytest.mark.parametrize("hosts", [("news",), ("news", "other")], ids=["within a host", "from host to host"])
async def test_five_hops_are_followed_and_no_more(
    hosts: tuple[str, ...], hops: int, fate: str, site: Site, harness: AppHarness
) -> None:
    """However often the host changes on the way."""
    way = [f"http://{hosts[hop % len(hosts)]}.test/{hop}" for hop in range(hops + 1)]
    for here, there in itertools.pairwise(way):
        site.answers[here] = moved(there)
    site.answers[way[-1]] = Answer(page("the end of the way"), headers=HTML)
    outcomes = await harness.fetch(way[0])
    ends = {reason for reason in outcomes.values() if reason not in ("redirect", "same_page")}
    assert ends == {fate}
    assert site.visits(way[-1]) == (1 if fate == "stored" else 0)


async def test_redirects_without_end_or_aim_are_given_up(site: Site, harness: AppHarness) -> None:
    site.answers["http://news.test/loop"] = moved("/loop")
    site.answers["http://news.test/nowhere"] = Answer(status=302)
    site.answers["http://news.test/javascript"] = moved("javascript:alert(1)")
    site.answers["http://a.test/ping"] = moved("http://b.test/pong")
    site.answers["http://b.test/pong"] = moved("http://a.test/ping")
    outcomes = await harness.fetch(
        "http://news.test/loop", "http://news.test/nowhere", "http://news.test/javascript", "http://a.test/ping"
    )
    assert outcomes == {
        "http://news.test/loop": "redirect_limit",
        "http://news.test/nowhere": "bad_redirect",
        "http://news.test/javascript": "bad_redirect",
        "http://a.test/ping": "redirect",
        "http://b.test/pong": "redirect",
    }


async def test_a_private_address_is_refused_at_connect_time_and_on_a_hop(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.3."""
    site.answers[OLD] = moved("http://169.254.169.254/latest")
    async with open_harness(make_settings(connect_to=site.connect_to)) as harness:
        outcomes = await harness.fetch("http://10.1.2.3/x", OLD, "http://[::1]/y")
        refused = [one for one in await harness.log() if one.reason is Reason.ADDRESS_REFUSED]
        assert refused
        assert not [one for one in refused if one.sent_at]
    assert outcomes == {
        "http://10.1.2.3/x": "address_refused",
        "http://[::1]/y": "address_refused",
        OLD: "redirect",
        "http://169.254.169.254/latest": "address_refused",
    }


async def test_a_host_that_turns_private_is_refused_on_the_next_hop(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.3: the very address that is connected to counts, not the name that passed before."""
    site.answers[OLD] = moved("http://inside.test/secret")
    inside = "inside.test=10.9.8.7:80"
    async with open_harness(make_settings(connect_to=(*site.connect_to, inside))) as harness:
        assert await harness.fetch(OLD) == {OLD: "redirect", "http://inside.test/secret": "address_refused"}
