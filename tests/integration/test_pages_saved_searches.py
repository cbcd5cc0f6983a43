"""The pages of saved searches and feed addresses (spec 11.11, 11.13)."""

from collections.abc import AsyncIterator, Callable

import feedparser
import pytest

from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.harness import open_harness
from tests.integration.test_pages import check_page
from tests.integration.test_search import PAGES
from tests.pages import Reader, open_reader
from tests.server import Site

HOSTILE = "<script>alert(1)</script> river"


@pytest.fixture
async def reader(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[Reader]:
    site.answers.update(PAGES)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.fetch(*PAGES)
    async with open_reader(settings) as opened:
        await opened.sign_in()
        yield opened


async def test_a_search_is_saved_from_its_page_changed_and_removed(reader: Reader) -> None:
    found = await reader.get("/ui/search?q=river")
    assert found.links()["Atom"] == "/feeds/search.atom?q=river"
    form = await reader.get(found.links()["Save"])
    check_page(form)
    assert form.tree.css_first("#field-words").attributes["value"] == "river"
    shown = await reader.submit_form("/ui/saved-searches", name="rivers", words=HOSTILE)
    check_page(shown)
    assert shown.tree.css_first("#field-words").attributes["value"] == HOSTILE
    refused = await reader.submit_form("/ui/saved-searches/rivers", words="river", source="none")
    assert refused.status == 404
    assert refused.texts("[role=alert] code") == ["headwater source list"]
    check_page(refused)
    shown = await reader.submit_form("/ui/saved-searches/rivers", words="river", language="en")
    assert shown.tree.css_first("#field-language").attributes["value"] == "en"
    listed = await reader.get("/ui/saved-searches")
    check_page(listed)
    assert listed.links()["rivers"] == "/ui/saved-searches/rivers"
    feed = await reader.get(listed.links()["Atom"])
    assert len(feedparser.parse(feed.text).entries) == 2
    removed = await reader.submit_form("/ui/saved-searches/rivers/remove")
    assert (removed.status, removed.texts("[role=status]")) == (200, ["The saved search rivers is removed."])
    assert "rivers" not in removed.links()


async def test_a_channel_is_added_on_the_page_of_its_search(reader: Reader) -> None:
    await reader.submit_form("/ui/saved-searches", name="rivers", words="river")
    path = "/ui/saved-searches/rivers/channels"
    refused = await reader.submit_form(path, channel="phone", address="nonsense://", daily_at="7")
    assert refused.status == 422
    check_page(refused)
    shown = await reader.submit_form(path, channel="phone", address="ntfy://ntfy.example/secret-topic", daily_at="7")
    check_page(shown)
    assert shown.links()["phone"] == "/ui/webhooks/phone"
    channel = await reader.get("/ui/webhooks/phone")
    check_page(channel)
    assert "secret-topic" not in shown.text + channel.text
    assert channel.links()["rivers"] == "/ui/saved-searches/rivers"
    assert "daily at 7 (" in channel.text


async def test_alarms_are_shown(reader: Reader, make_settings: Callable[..., Settings]) -> None:
    check_page(await reader.get("/ui/alarms"))
    async with open_harness(make_settings()) as harness:
        await harness.execute(
            "INSERT INTO alarms (kind, subject, message, began_at, ended_at) VALUES "
            "('source_failing', 'manual', $1, now(), NULL), ('disk_low', 'm:/data', 'Full.', now(), now()), "
            "('day_incomplete', '2026-03-01', '1.', now(), now())",
            HOSTILE,
        )
    shown = await reader.get("/ui/alarms")
    check_page(shown)
    assert shown.texts(".state-badge") == ["open", "over", "over"]
    assert shown.links()["manual"] == "/ui/sources/manual"
    assert shown.links()["2026-03-01"] == "/ui/completeness/2026-03-01"


async def test_a_feed_address_is_shown_once(reader: Reader) -> None:
    made = await reader.submit_form("/ui/feed-addresses", name="phone", kind="search", value="river", full="1")
    check_page(made)
    (address,) = made.texts("code.secret")
    assert address.startswith(f"{reader.base}/feeds/secret/")
    assert len(feedparser.parse((await reader.get(address.removeprefix(reader.base))).text).entries) == 2
    shown = await reader.get("/ui/feed-addresses")
    check_page(shown)
    assert address not in shown.text
    await reader.submit_form("/ui/feed-addresses/phone/remove")
    assert (await reader.get(address.removeprefix(reader.base))).status == 404


async def test_pages_of_a_day_and_a_source_name_their_feeds(reader: Reader) -> None:
    for page, feed in (
        ("/ui/days/2026-03-01", "/feeds/day/2026-03-01.atom"),
        ("/ui/sources/manual", "/feeds/source/manual.atom"),
        ("/ui/search?q=river", "/feeds/search.atom?q=river"),
    ):
        shown = await reader.get(page)
        assert [one.attributes["href"] for one in shown.tree.css("link[rel=alternate]")] == [feed]
        assert (await reader.get(feed)).status == 200
