"""The pages of the frontier and of hosts, without JavaScript (spec 8.4, 11.13)."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from headwater.app.roles import RoleName
from headwater.core.settings import Settings
from headwater.history.recorder import mark_start, record_history
from tests.api import TOKEN
from tests.database_state import backdate
from tests.harness import AppHarness, open_harness
from tests.integration.test_pages import check_page
from tests.pages import Reader, open_reader
from tests.server import Answer, Site, page

GOOD, GONE, BLOCKED = "http://one.test/good", "http://one.test/gone", "http://two.test/private/x"


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """A frontier with a document, a dead URL, and a URL that robots.txt blocks."""
    site.answers[GOOD] = Answer(page("good"), headers={"Content-Type": "text/html"})
    site.answers["http://two.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 2\nDisallow: /private/")
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as opened:
        await opened.fetch(GOOD, GONE, BLOCKED)
        yield opened


async def test_the_frontier_shows_states_and_failures_by_reason(reader: Reader) -> None:
    shown = await reader.get("/ui/frontier")
    check_page(shown)
    assert shown.texts(".tiles dd")[:4] == ["0", "0", "1", "2"]
    assert {"not found", "robots blocked"} == set(shown.texts("td a"))
    listed = await reader.get(shown.links("td a")["robots blocked"])
    assert listed.links("td a")[BLOCKED] == "/ui/why?url=http%3A%2F%2Ftwo.test%2Fprivate%2Fx"
    assert listed.texts("td .badge") == ["dead"]


async def test_the_frontier_draws_its_history_with_restarts(reader: Reader, harness: AppHarness) -> None:
    context = harness.runtime.context
    await harness.execute("TRUNCATE history")
    await backdate(harness, "fetch_log.finished_at", timedelta(minutes=5))
    await mark_start(context, [RoleName.API])
    await record_history(context.database, context.clock.now())
    shown = await reader.get("/ui/frontier")
    check_page(shown)
    described = dict(zip(shown.texts(".plot > title"), shown.texts(".plot > desc"), strict=True))
    assert described["Attempts"].startswith("done: at most 1 at")
    assert "failed: at most 2 at" in described["Attempts"]
    assert "a rule forbids it: at most 1 at" in described["Failed attempts by class"]
    assert len(shown.tree.css(".plot .mark-restart")) == len(described) == 4
    for window in ("day", "month", "year"):
        check_page(await reader.get(f"/ui/frontier?window={window}"))
    assert (await reader.get("/ui/frontier?window=century")).status == 422


async def test_urls_that_match_a_filter_are_queued_again(reader: Reader, harness: AppHarness) -> None:
    for path in ("/ui/frontier/urls", "/ui/frontier/urls?status=pending"):
        assert "Fetch all that match again" not in (await reader.get(path)).texts("button")
    assert "Fetch all that match again" in (await reader.get("/ui/frontier/urls?status=dead")).texts("button")
    await reader.submit_form("/ui/frontier/urls/retry", status="dead", host="two.test")
    states = {url: line.status.value for url, line in (await harness.urls()).items()}
    assert states == {GOOD: "fetched", GONE: "dead", BLOCKED: "pending"}
    assert (await reader.submit_form("/ui/frontier/urls/retry")).status == 422


async def test_the_list_of_urls_has_pages(reader: Reader, harness: AppHarness) -> None:
    await harness.operations.frontier.submit([f"http://many.test/{number}" for number in range(60)])
    first = await reader.get("/ui/frontier/urls?host=many.test")
    second = await reader.get(first.links("[rel=next]")["Next page"])
    rows = [node.attributes["data-line"] for shown in (first, second) for node in shown.tree.css("tr[data-line]")]
    assert len(rows) == len(set(rows)) == 60
    check_page(first)


async def test_hosts_show_their_delay_and_its_origin(reader: Reader) -> None:
    shown = await reader.get("/ui/hosts")
    check_page(shown)
    assert shown.texts(".state-name") == ["one.test", "two.test"]
    shown = await reader.get("/ui/hosts/two.test")
    check_page(shown)
    assert shown.texts(".robots li") == ["User-agent: *", "Crawl-delay: 2", "Disallow: /private/"]
    assert "from its robots.txt" in " ".join(shown.texts(".facts dd"))
    assert (await reader.get("/ui/hosts?find=http://two.test/x")).texts("h1") == ["two.test"]
    assert (await reader.get("/ui/hosts?find=no.test")).status == 404
    assert (await reader.get("/ui/hosts/no.test")).status == 404


async def test_a_host_is_blocked_and_released(reader: Reader, harness: AppHarness) -> None:
    await harness.operations.frontier.submit(["http://two.test/waits"])
    shown = await reader.submit_form("/ui/hosts/two.test/block", hours="24")
    assert shown.texts("h1") == ["two.test"]
    assert shown.texts("main .badge")[0] == "closed"
    assert "http://two.test/waits" in shown.links("td a")
    assert (await reader.get("/ui/hosts?state=closed")).texts(".state-name") == ["two.test"]
    await reader.submit_form("/ui/hosts/two.test/release")
    assert (await harness.operations.frontier.get_host("two.test")).state != "closed"
    await reader.submit_form("/ui/block-host", host="new.test")
    assert (await harness.operations.frontier.get_host("new.test")).state == "closed"
    await reader.submit_form("/ui/release-hosts")
    assert not (await reader.get("/ui/hosts?state=closed")).texts(".state-name")


async def test_hosts_are_grouped_and_leave_their_group(reader: Reader, harness: AppHarness) -> None:
    await reader.submit_form("/ui/group-hosts", name="press", members="one.test\ntwo.test")
    frontier = harness.operations.frontier
    assert (await frontier.get_host("one.test")).shares_turn_of == "group:press"
    assert (await reader.get("/ui/hosts/group%3Apress")).status == 200
    await reader.submit_form("/ui/hosts/one.test/ungroup")
    assert (await frontier.get_host("one.test")).shares_turn_of is None
    assert (await reader.submit_form("/ui/group-hosts", name="NO GROUP", members="one.test")).status == 422


async def test_a_group_of_too_many_hosts_is_refused_whole(reader: Reader, harness: AppHarness) -> None:
    members = "\n".join(f"host{number}.test" for number in range(101))
    assert (await reader.submit_form("/ui/group-hosts", name="press", members=members)).status == 422
    assert (await reader.get("/ui/hosts/host0.test")).status == 404


async def test_a_hostile_robots_txt_is_text_of_limited_length(reader: Reader, harness: AppHarness) -> None:
    text = "<script>alert(1)</script> \u202e\x1b[31m\n" + "# " + "long " * 2000 + "\n" * 5000
    await harness.execute("UPDATE host_state SET robots_txt = $1 WHERE host = 'one.test'", text)
    shown = await reader.get("/ui/hosts/one.test")
    check_page(shown)
    assert shown.texts(".robots li")[0] == "<script>alert(1)</script>"


async def test_a_reader_without_the_scope_sees_no_buttons(harness: AppHarness) -> None:
    async with open_reader(harness.operations.settings) as reader:
        for path in ("/ui/frontier", "/ui/frontier/urls?status=dead", "/ui/hosts", "/ui/hosts/one.test"):
            shown = await reader.get(path)
            assert shown.status == 200
            assert not shown.tree.css("form[method=post]")
