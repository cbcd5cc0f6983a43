"""The pages of sources, without JavaScript (spec 8.4, 11.13)."""

import io
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.settings import Settings
from headwater.history.sources import measure_sources
from headwater.sources.import_export import MAX_FILE_BYTES
from tests.api import TOKEN
from tests.harness import AppHarness, open_harness
from tests.integration.test_pages import check_page
from tests.pages import Page, Reader, open_reader
from tests.server import Answer, Site, page, rss
from tests.waiting import until

FEED = "http://news.test/feed"
OPML = """<opml version="2.0"><body><outline text="Other &quot;news&quot;" xmlUrl="http://other.test/feed"/></body></opml>"""
HOSTILE = '<script>alert(1)</script> \u202e"it\'s" \x1b[31mred'
FORMS = ("/add-source", "/import-sources", "/test-source", "/sources/news.test/edit", "/sources/news.test/remove")


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """A database with one source."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    site.answers["http://news.test/a"] = Answer(page("a"), headers={"Content-Type": "text/html"})
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as opened:
        await opened.operations.sources.add(FEED)
        yield opened


def names(shown: Page) -> list[str]:
    return shown.texts(".state-name")


async def test_sources_are_listed_with_the_worst_health_first(reader: Reader, harness: AppHarness) -> None:
    for name in ("aaa", "bbb"):
        await harness.operations.sources.create(name, "site", {"feed_url": f"http://{name}.test/feed"})
    await harness.execute(
        "UPDATE poll_state SET consecutive_errors = 2, last_error = $1, last_polled_at = now() "
        "FROM sources s WHERE s.id = source_id AND s.name = 'bbb' AND method = 'main'",
        HOSTILE,
    )
    shown = await reader.get("/ui/sources")
    check_page(shown)
    assert names(shown)[0] == "bbb"
    assert shown.texts(".state-badge")[0] == "failing"
    assert "<script>" in shown.texts(".state-why")[0]
    assert names(await reader.get("/ui/sources?health=failing")) == ["bbb"]
    assert names(await reader.get("/ui/sources?name=AA")) == ["aaa"]
    assert (await reader.get("/ui/sources?health=ill")).status == 422


async def test_a_source_shows_its_timeline_its_charts_and_how_fresh_it_is(
    reader: Reader, harness: AppHarness, site: Site
) -> None:
    await harness.execute("UPDATE items SET published_at = first_seen_at")
    await harness.work()
    site.answers[FEED] = Answer("", status=500)
    await harness.poll("news.test")
    await harness.operations.sources.edit("news.test", {"category": HOSTILE})
    await harness.execute("UPDATE poll_log SET error = $1 WHERE error IS NOT NULL", HOSTILE)
    await harness.execute("DELETE FROM source_days")
    shown = await reader.get("/ui/sources/news.test")
    assert not shown.tree.css(".plot")
    context = harness.runtime.context
    await measure_sources(context.database, context.clock.now())
    shown = await reader.get("/ui/sources/news.test")
    check_page(shown)
    events = shown.texts(".event")
    assert events[0].startswith("in")
    assert "setting" in next(event for event in events if "category was" in event)
    assert "<script>" in next(event for event in events if "http 5xx" in event)
    assert any("2 new of 2 items" in event for event in events)
    assert len(shown.tree.css(".plot")) == 3
    assert shown.tree.css(".mark-setting")
    listed = await reader.get("/ui/sources")
    check_page(listed)
    assert listed.tree.css(".sparkline")
    assert "fetched" in listed.texts(".state-lags")[0]


async def test_the_list_of_sources_has_pages(reader: Reader, harness: AppHarness) -> None:
    for number in range(60):
        await harness.operations.sources.create(f"s{number:02}", "manual", {})
    first = await reader.get("/ui/sources")
    second = await reader.get(first.links("[rel=next]")["Next page"])
    assert (len(names(first)), len(names(second))) == (50, 11)
    assert not set(names(first)) & set(names(second))
    check_page(first)


async def test_a_source_shows_its_polls_its_settings_and_its_items(reader: Reader, harness: AppHarness) -> None:
    await harness.operations.sources.edit("news.test", {"category": HOSTILE.replace("\x1b", "")})
    await harness.execute("UPDATE items SET title = $1", HOSTILE)
    await harness.execute("UPDATE poll_state SET last_error = $1, next_poll_why = $1", HOSTILE)
    shown = await reader.get("/ui/sources/news.test")
    check_page(shown)
    assert shown.texts("h1") == ["news.test"]
    assert "alert(1)" in shown.texts(".error-text")[0]
    assert "category" in shown.texts(".sidebar .settings dt")
    assert (await reader.get("/ui/sources/nothing")).status == 404


async def test_a_form_adds_a_source_and_shows_why_another_cannot_be_added(reader: Reader, site: Site) -> None:
    site.answers["http://second.test/feed"] = rss("http://second.test/x")
    shown = await reader.submit_form("/ui/add-source", url="http://second.test/feed", name="second", category="policy")
    assert shown.status == 200
    assert shown.texts("h1") == ["second"]
    assert shown.texts(".notice[role=status]")
    shown = await reader.submit_form("/ui/add-source", url="http://nowhere.test/feed", name="third")
    assert shown.status >= 400
    assert shown.texts("[role=alert]")
    (field,) = shown.tree.css("#field-url")
    assert field.attributes["value"] == "http://nowhere.test/feed"
    assert sorted(names(await reader.get("/ui/sources"))) == ["news.test", "second"]


async def test_a_form_adds_a_source_of_another_kind(reader: Reader, harness: AppHarness) -> None:
    shown = await reader.submit_form(
        "/ui/add-source/kind",
        name="laws",
        kind="site",
        settings='feed_url=http://laws.test/feed\npriority=7\ncategory="7"',
    )
    assert shown.texts("h1") == ["laws"]
    assert (await harness.operations.sources.show("laws")).settings == {
        "feed_url": "http://laws.test/feed",
        "priority": 7,
        "category": "7",
    }
    refused = await reader.submit_form("/ui/add-source/kind", name="more", kind="site", settings="priority")
    assert refused.status == 422


async def test_an_edit_sets_and_unsets_settings_and_keeps_a_refused_form(reader: Reader, harness: AppHarness) -> None:
    await harness.operations.sources.edit("news.test", {"category": "7", "priority": 6})
    path = "/ui/sources/news.test/edit"
    given = list_fields(await reader.get(path))
    assert (given["set.category"], given["set.priority"], given["set.timezone"]) == ('"7"', "6", "")
    shown = await reader.submit_form(path, **given | {"set.priority": "", "set.rate_per_second": "0.5"})
    assert shown.texts("h1") == ["news.test"]
    settings = (await harness.operations.sources.show("news.test")).settings
    assert (settings["category"], settings["rate_per_second"]) == ("7", 0.5)
    assert "priority" not in settings
    refused = await reader.submit_form(path, **given | {"set.priority": "many"})
    assert refused.status == 422
    assert refused.tree.css_first("#field-priority").attributes["value"] == "many"


async def test_an_edit_keeps_a_setting_that_a_poll_learned_meanwhile(reader: Reader, harness: AppHarness) -> None:
    """Only the fields that differ from the form as it was shown are changed. This also holds for a refused form."""
    await harness.operations.sources.edit("news.test", {"category": "one\ntwo", "priority": 6})
    path = "/ui/sources/news.test/edit"
    given = list_fields(await reader.get(path))
    await harness.operations.sources.edit("news.test", {"sitemap_url": "http://news.test/map"}, ["priority"])
    refused = await reader.submit_form(path, **given | {"set.rate_per_second": "many"})
    assert refused.status == 422
    again = list_fields(refused) | {"set.rate_per_second": "0.5"}
    assert (await reader.submit_form(path, **again)).status == 200
    settings = (await harness.operations.sources.show("news.test")).settings
    assert settings == {
        "feed_url": FEED,
        "category": "one\ntwo",
        "sitemap_url": "http://news.test/map",
        "rate_per_second": 0.5,
    }


def list_fields(shown: Page) -> dict[str, str]:
    """Return the fields of a form of settings. A browser removes line ends from the fields that it shows."""
    fields = {}
    for node in shown.tree.css(".setting-form input"):
        value = node.attributes["value"] or ""
        is_hidden = node.attributes.get("type") == "hidden"
        fields[node.attributes["name"] or ""] = value if is_hidden else "".join(value.splitlines())
    return fields


async def test_a_sync_starts_a_run(reader: Reader, harness: AppHarness, site: Site) -> None:
    site.answers[FEED] = rss("http://news.test/c")
    shown = await reader.submit_form("/ui/sources/news.test/sync")
    assert shown.texts("h1") == ["news.test"]

    async def has_run() -> bool:
        return "succeeded" in (await reader.get("/ui/sources/news.test")).texts("td .badge")

    await until(has_run)
    assert "http://news.test/c" in await harness.urls()


async def test_buttons_disable_enable_and_remove_a_source(reader: Reader, harness: AppHarness) -> None:
    await reader.submit_form("/ui/sources/news.test/disable")
    assert not (await harness.operations.sources.show("news.test")).enabled
    await reader.submit_form("/ui/sources/news.test/enable")
    assert (await harness.operations.sources.show("news.test")).enabled
    assert (await reader.get("/ui/sources/news.test/remove")).texts("h1") == ["Remove news.test?"]
    shown = await reader.submit_form("/ui/sources/news.test/remove")
    assert shown.texts("h1") == ["Sources"]
    assert (await reader.get("/ui/sources/news.test")).status == 404


async def test_a_purge_needs_the_name_of_the_source(reader: Reader) -> None:
    assert (await reader.submit_form("/ui/sources/news.test/purge", confirm="news")).status == 422
    assert (await reader.get("/ui/sources/news.test")).status == 200
    assert (await reader.submit_form("/ui/sources/news.test/purge", confirm="news.test")).status == 200
    assert (await reader.get("/ui/sources/news.test")).status == 404


async def test_an_import_shows_what_it_would_do_and_then_does_it(reader: Reader) -> None:
    shown = await reader.submit_form("/ui/import-sources", text=OPML, dry_run="true")
    check_page(shown)
    assert shown.texts("textarea") == [OPML]
    assert names(await reader.get("/ui/sources")) == ["news.test"]
    await reader.submit_form("/ui/import-sources", text=OPML)
    assert len(names(await reader.get("/ui/sources"))) == 2
    assert (await reader.submit_form("/ui/import-sources", text="")).status == 422
    assert (await reader.submit_form("/ui/import-sources", text="<opml")).status == 422


async def test_a_pasted_list_may_be_large_but_only_of_a_user_who_may_write(reader: Reader) -> None:
    """The form of anyone else is refused before its body is parsed."""
    csrf = (await reader.get("/ui/import-sources")).csrf()

    async def paste(text: str) -> Page:
        fields = {"csrf": csrf, "dry_run": "true", "text": text}.items()
        parts = [f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields]
        body = io.BytesIO("".join([*parts, "--edge--\r\n"]).encode())
        headers = {"Origin": reader.base, "Content-Type": "multipart/form-data; boundary=edge"}
        async with reader.session.post(f"{reader.base}/ui/import-sources", data=body, headers=headers) as answer:
            return Page(answer.status, dict(answer.headers), await answer.text())

    large = OPML + " " * (MAX_FILE_BYTES - 1_000 - len(OPML))
    shown = await paste(large)
    assert (shown.status, len(shown.texts(".notice[role=status]"))) == (200, 1)
    reader.session.cookie_jar.clear()
    assert (await paste(large)).status == 403


async def test_the_lists_of_sources_are_downloads(reader: Reader) -> None:
    for form, text in (("yaml", "name: news.test"), ("opml", "xmlUrl")):
        shown = await reader.get(f"/ui/sources.{form}")
        assert "attachment" in shown.headers["Content-Disposition"]
        assert text in shown.text


async def test_a_test_shows_each_step(reader: Reader) -> None:
    shown = await reader.submit_form("/ui/test-source", target=FEED)
    check_page(shown)
    assert "works" in shown.texts(".stages .badge")
    assert (await reader.submit_form("/ui/test-source", target="nothing")).status == 404


async def test_a_reader_without_the_scope_sees_no_forms(harness: AppHarness) -> None:
    async with open_reader(harness.operations.settings) as reader:
        for path in ("/ui/sources", "/ui/sources/news.test"):
            shown = await reader.get(path)
            assert shown.status == 200
            assert not shown.tree.css("form[method=post]")
            assert not [link for link in shown.links().values() if link.removeprefix("/ui") in FORMS]
        for path in FORMS:
            assert (await reader.get(f"/ui{path}")).texts("h1") == ["Sign in"]
