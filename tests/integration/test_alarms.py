"""Alarms: each is sent once, and once more when it is over (spec 11.11, issue 23)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from headwater.app.roles import run_roles
from headwater.changes.operations import NewWebhook
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import changes
from headwater.db.alarms import ExtractionSums
from headwater.notify import alarms
from headwater.notify.alarms import AlarmRole
from headwater.notify.channels import DeliveryTimes, NewChannel
from headwater.notify.drift import can_compare, find_drift
from headwater.notify.operations import SearchTerms
from tests.harness import AppHarness, open_harness
from tests.integration.test_search import PAGES
from tests.integration.test_webhooks import delivering
from tests.mail_server import MailServer, read_parts
from tests.receiver import ReceiverServer
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FEED = "http://news.test/feed"


@pytest.fixture
async def mail() -> AsyncIterator[MailServer]:
    async with MailServer() as serving:
        yield serving


@pytest.fixture
async def harness(site: Site, mail: MailServer, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    site.answers.update(PAGES)
    settings = make_settings(timezone="UTC", connect_to=site.connect_to, smtp_url=f"smtp+plain://127.0.0.1:{mail.port}")
    async with open_harness(settings) as opened:
        yield opened


async def check(harness: AppHarness, now: datetime | None = None) -> list[tuple[str, str]]:
    """Check alarms, and return those that are open."""
    now = now or harness.runtime.context.clock.now()
    await harness.runtime.alarm_keeper.check_disk(now)
    found = await harness.runtime.alarm_keeper.check(now)
    return [(one.kind, one.subject) for one in found]


async def add_source(harness: AppHarness, name: str = "news.test") -> None:
    await harness.execute(
        "INSERT INTO sources (name, kind, settings, created_at) "
        "VALUES ($1, 'site', jsonb_build_object('feed_url', 'http://' || $1 || '/feed'), now() - interval '90 days')",
        name,
    )
    await harness.execute(
        "INSERT INTO poll_state (source_id, method, next_poll_at, last_polled_at, last_success_at, last_new_at) "
        "SELECT id, 'main', now() + interval '30 days', now(), now(), now() FROM sources WHERE name = $1",
        name,
    )


async def fail_since(harness: AppHarness, since: timedelta) -> None:
    await harness.execute(
        "UPDATE poll_state SET consecutive_errors = 3, last_error = 'It broke.', last_reason = 'not_a_feed', "
        "failing_since = now() - $1::interval",
        since,
    )


async def deliver_all(harness: AppHarness, name: str) -> None:
    async with delivering(harness):
        async with asyncio.timeout(20):
            while (await harness.operations.webhooks.get(name)).waiting:
                await asyncio.sleep(0.01)


async def test_an_alarm_is_sent_once_and_once_more_when_it_is_over(harness: AppHarness, mail: MailServer) -> None:
    """By mail, by Apprise and by a webhook; the second check of the same state sends nothing."""
    async with ReceiverServer() as receiver:
        await harness.operations.channels.add(NewChannel("mail", "ops@example.org", alarms=True))
        service = receiver.url("service").replace("http://", "json://")
        await harness.operations.channels.add(NewChannel("service", service, alarms=True))
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook"), ["alarm"]))
        await harness.operations.webhooks.add(NewWebhook("documents", receiver.url("documents")))
        await add_source(harness)
        await fail_since(harness, 2 * HOUR)
        for _ in range(2):
            assert await check(harness) == [("source_failing", "news.test")]
        assert 'headwater_alarms_open{kind="source_failing"} 1.0' in (await harness.operations.measure()).decode()
        for name in ("mail", "service", "hook"):
            await deliver_all(harness, name)
        await harness.execute("UPDATE poll_state SET consecutive_errors = 0, last_error = NULL, failing_since = NULL")
        for _ in range(2):
            assert await check(harness) == []
        for name in ("mail", "service", "hook", "documents"):
            await deliver_all(harness, name)
        subjects = ["Alarm: A source fails: news.test", "Over: A source fails: news.test"]
        assert [one["Subject"] for one in mail.accepted] == subjects
        assert "It broke." in read_parts(mail.accepted[0])[0]
        assert [json.loads(one.body)["title"] for one in receiver.received("service")] == subjects
        payloads = [one.payload for one in receiver.received("hook")]
        assert [(one["event"], one["what"], one["kind"], one["subject"]) for one in payloads] == [
            ("alarm", "began", "source_failing", "news.test"),
            ("alarm", "over", "source_failing", "news.test"),
        ]
        assert payloads[0]["ended_at"] is None
        assert payloads[1]["ended_at"] is not None
        assert receiver.received("documents") == []
    listed = (await harness.operations.alarms.list_alarms()).alarms
    assert [(one.kind, one.ended_at is None) for one in listed] == [("source_failing", False)]
    assert (await harness.operations.changes.list_changes(None, 100)).changes == []


async def test_a_failure_of_less_than_an_hour_neither_begins_nor_ends_an_alarm(harness: AppHarness) -> None:
    await add_source(harness)
    await fail_since(harness, timedelta(minutes=59))
    assert await check(harness) == []
    now = harness.runtime.context.clock.now()
    assert await check(harness, now + timedelta(minutes=2)) == [("source_failing", "news.test")]
    await fail_since(harness, timedelta(minutes=1))
    assert await check(harness) == [("source_failing", "news.test")]


async def test_a_silent_source_is_an_alarm(harness: AppHarness) -> None:
    await add_source(harness)
    await harness.execute("UPDATE poll_state SET last_new_at = now() - interval '40 days'")
    assert await check(harness) == [("source_silent", "news.test")]
    await harness.execute("UPDATE poll_state SET last_new_at = now()")
    assert await check(harness) == []


async def test_a_day_is_incomplete_from_six_hours_after_its_end(harness: AppHarness, site: Site) -> None:
    """Pages that wait make it incomplete. It is over when they are stored, also after many days."""
    now = harness.runtime.context.clock.now()
    day = now.date()
    site.answers[FEED] = rss("http://news.test/1")
    await harness.operations.sources.add(FEED)
    await harness.execute("UPDATE poll_state SET next_poll_at = now() + interval '30 days'")
    await harness.execute("UPDATE daily_index SET day = $1", day)
    midnight = datetime(day.year, day.month, day.day, tzinfo=now.tzinfo) + DAY
    assert await check(harness, midnight + 5 * HOUR) == []
    assert await check(harness, midnight + 7 * HOUR) == [("day_incomplete", str(day))]
    assert await check(harness, midnight + 5 * DAY) == [("day_incomplete", str(day))]
    await harness.execute("DELETE FROM frontier_queue")
    assert await check(harness, midnight + 5 * DAY) == []


@pytest.mark.parametrize("change", ["enabled = false", "removed_at = now()"])
async def test_the_pages_of_a_source_that_is_removed_or_disabled_are_not_expected(
    harness: AppHarness, site: Site, change: str
) -> None:
    now = harness.runtime.context.clock.now()
    site.answers[FEED] = rss("http://news.test/1")
    await harness.operations.sources.add(FEED)
    await harness.execute("UPDATE poll_state SET next_poll_at = now() + interval '30 days'")
    await harness.execute("UPDATE daily_index SET day = $1", now.date())
    assert await check(harness, now + DAY + 7 * HOUR) == [("day_incomplete", str(now.date()))]
    await harness.execute(f"UPDATE sources SET {change} WHERE name = 'news.test'")
    assert await check(harness, now + 5 * DAY) == []


async def test_old_items_of_a_source_that_was_added_later_make_no_day_incomplete(
    harness: AppHarness, site: Site
) -> None:
    """Its first feed lists items of earlier days, whose pages then wait."""
    now = harness.runtime.context.clock.now()
    site.answers[FEED] = rss("http://news.test/1")
    await harness.operations.sources.add(FEED)
    yesterday = now.date() - DAY
    await harness.execute("UPDATE poll_state SET next_poll_at = now() + interval '30 days'")
    await harness.execute("UPDATE daily_index SET day = $1", yesterday)
    later = datetime(now.year, now.month, now.day, tzinfo=now.tzinfo) + 12 * HOUR
    assert await check(harness, later) == []
    await harness.execute("UPDATE sources SET created_at = $1", later - 2 * DAY)
    assert await check(harness, later) == [("day_incomplete", str(yesterday))]


async def test_many_open_days_are_checked_in_turn(harness: AppHarness) -> None:
    now = harness.runtime.context.clock.now()
    await harness.execute(
        "INSERT INTO alarms (kind, subject, message, began_at) "
        "SELECT 'day_incomplete', ($1::date - n)::text, 'Read it.', now() FROM generate_series(10, 21) n",
        now.date(),
    )
    still_open = [len(await check(harness, now + minute * timedelta(minutes=1))) for minute in range(3)]
    assert still_open == [7, 2, 0]


async def test_the_process_that_does_not_check_the_rest_checks_its_disk(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarms, "measure_disk", lambda _: (1, 10**12))
    await harness.execute("UPDATE alarm_state SET checked_at = now()")
    stop = asyncio.Event()
    working = asyncio.create_task(run_roles([AlarmRole(harness.runtime.alarm_keeper, look_seconds=0.02)], stop))
    async with asyncio.timeout(20):
        while not (await harness.operations.alarms.list_alarms(only_open=True)).alarms:
            await asyncio.sleep(0.01)
    stop.set()
    await working


async def test_a_day_ends_in_the_time_zone_of_its_source(
    site: Site, mail: MailServer, make_settings: Callable[..., Settings]
) -> None:
    """A day of London ends 11 hours after that of Auckland, or 13."""
    settings = make_settings(timezone="Pacific/Auckland")
    async with open_harness(settings) as harness:
        await harness.execute(
            "INSERT INTO sources (name, kind, settings, created_at) VALUES ('govuk', 'govuk', '{}', $1)",
            datetime(2026, 1, 1, tzinfo=UTC),
        )
        end = datetime(2026, 7, 2, tzinfo=ZoneInfo("Europe/London"))
        opened = [("day_incomplete", "2026-07-01") in await check(harness, end + after * HOUR) for after in (5, 7)]
        assert opened == [False, True]


async def test_a_receiver_that_takes_nothing_for_an_hour_is_a_stuck_outbox(harness: AppHarness) -> None:
    await harness.operations.webhooks.add(NewWebhook("hook", "http://127.0.0.1:9/", since="c0"))
    await harness.fetch("http://en.test/river")
    await harness.execute("UPDATE webhooks SET failures = 3, error = 'It refuses.'")
    now = harness.runtime.context.clock.now()
    assert await check(harness) == []
    assert await check(harness, now + 2 * HOUR) == [("outbox_stuck", "hook")]
    await harness.execute("UPDATE webhooks SET failures = 0, error = NULL")
    assert await check(harness, now + 3 * HOUR) == []


async def test_a_daily_digest_of_yesterday_is_stuck_only_an_hour_after_it_failed(harness: AppHarness) -> None:
    """Its oldest document was found long before the first attempt to send it."""
    await harness.operations.webhooks.add(NewWebhook("hook", "http://127.0.0.1:9/", since="c0"))
    await harness.fetch("http://en.test/river")
    await harness.execute("UPDATE changes SET changed_at = now() - interval '20 hours'")
    (claimed,) = await harness.runtime.outbox.claim(1)
    await harness.runtime.outbox.deliver(claimed)
    await harness.execute("UPDATE webhooks SET failures = 3, error = 'It refuses.'")
    now = harness.runtime.context.clock.now()
    assert await check(harness) == []
    assert await check(harness, now + 2 * HOUR) == [("outbox_stuck", "hook")]


async def test_a_disk_that_is_nearly_full_is_an_alarm(harness: AppHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over when there is clearly more space, and not when the free space swings around the limit."""
    total, lowest = 10**12, 5 * 10**10
    opened = []
    for free in (lowest + 1, lowest - 1, lowest + 1, int(lowest * 1.2)):
        monkeypatch.setattr(alarms, "measure_disk", lambda _, free=free: (free, total))
        opened.append([kind for kind, _ in await check(harness)])
    assert opened == [[], ["disk_low"], ["disk_low"], []]
    monkeypatch.setattr(alarms, "measure_disk", lambda _: (total, total))
    await harness.execute(
        "INSERT INTO alarms (kind, subject, message, began_at) VALUES ('disk_low', 'other:/data', 'Full.', now())"
    )
    now = harness.runtime.context.clock.now()
    assert await check(harness, now + 23 * HOUR) == [("disk_low", "other:/data")]
    await harness.execute("UPDATE alarms SET seen_at = now() + interval '2 hours' WHERE ended_at IS NULL")
    assert await check(harness, now + 25 * HOUR) == [("disk_low", "other:/data")]
    assert await check(harness, now + 27 * HOUR) == []


async def test_extraction_that_makes_shorter_texts_than_before_is_an_alarm(harness: AppHarness) -> None:
    """New documents are counted once each, and compared with the past of their source."""
    await harness.fetch(*PAGES)
    await harness.operations.webhooks.list_webhooks()  # numbers the changes
    for _ in range(2):
        assert await check(harness) == []
    ((documents, characters),) = await harness.rows("SELECT sum(documents), sum(characters) FROM extraction_days")
    ((stored,),) = await harness.rows("SELECT sum(char_length(body)) FROM documents JOIN texts USING (content_hash)")
    assert (documents, characters) == (len(PAGES), stored)
    await harness.execute("UPDATE extraction_days SET documents = 20, characters = 2000, without_byline = 0")
    await harness.execute(
        "INSERT INTO extraction_days SELECT source_id, page_kind, day - 10, 100, 100000, without_title, 0, 0, 0, 100 "
        "FROM extraction_days"
    )
    assert await check(harness) == [("extraction_drifted", "manual (article)")]
    await harness.execute("UPDATE extraction_days SET documents = 3 WHERE documents = 20")
    assert await check(harness) == [("extraction_drifted", "manual (article)")], "too few documents decide nothing"
    await harness.execute(
        "UPDATE extraction_days SET documents = 20, characters = 20000, confidence = 20 WHERE documents = 3"
    )
    assert await check(harness) == []


async def test_the_fields_that_selectors_give_are_counted_by_kind_of_page(site: Site, harness: AppHarness) -> None:
    """Issue 23: a template that changed is seen by its selectors, which find nothing any more."""
    site.answers["http://made.test/a"] = Answer(page("a"), headers={"Content-Type": "text/html"})
    selectors = {"body": "article", "title": "h1", "byline": ".nowhere"}
    await harness.operations.sources.create("made", "manual", {"selectors": selectors})
    await harness.operations.frontier.submit(["http://made.test/a"], "made")
    await harness.work()
    await harness.operations.webhooks.list_webhooks()  # numbers the changes
    await check(harness)
    counted = await harness.rows(
        "SELECT page_kind, documents, selected FROM extraction_days e JOIN sources s ON s.id = e.source_id "
        "WHERE s.name = 'made'"
    )
    assert counted == [("article", 1, 3)]  # text, title, and the abstract of the text


PAST = ExtractionSums(1000, 1_000_000, 10, 100, 0, 2000, 900.0)


def test_drift_is_a_large_difference_from_the_past() -> None:
    """Texts, empty fields and confidence, each alone (issue 23)."""
    same = ExtractionSums(20, 20_000, 0, 2, 0, 40, 18.0)
    assert find_drift(PAST, same) == []
    assert find_drift(PAST, same._replace(characters=9_000)) == []
    for change, word in (
        ({"characters": 7_000}, "350"),
        ({"characters": 70_000}, "3,500"),
        ({"without_title": 7}, "title"),
        ({"without_byline": 9}, "byline"),
        ({"without_date": 20}, "date"),
        ({"confidence": 14.0}, "0.70"),
        ({"selected": 20}, "1.0"),
    ):
        (sentence,) = find_drift(PAST, same._replace(**change))
        assert word in sentence
    assert find_drift(PAST._replace(characters=0), same._replace(characters=0)) == []
    assert can_compare(PAST, same)
    assert not can_compare(PAST, same._replace(documents=19))
    assert not can_compare(PAST._replace(documents=49), same)
    assert not can_compare(None, same)


async def test_a_parked_alarm_keeps_no_later_ones_in_the_log(harness: AppHarness) -> None:
    async with ReceiverServer() as receiver:
        receiver.behaviours["hook"] = [410, 200]
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook"), ["alarm"]))
        await add_source(harness)
        for failing in (True, False, True):
            if failing:
                await fail_since(harness, 2 * HOUR)
            else:
                await harness.execute("UPDATE poll_state SET consecutive_errors = 0, failing_since = NULL")
            await check(harness)
            await deliver_all(harness, "hook")
    database, now = harness.runtime.context.database, harness.runtime.context.clock.now()
    await database.transact(changes.prune_deliveries, now + HOUR)
    found = (await harness.operations.webhooks.list_deliveries("hook")).deliveries
    assert [one.status for one in found] == ["parked"]


async def test_a_parked_alarm_that_is_over_since_is_not_sent_again(harness: AppHarness) -> None:
    async with ReceiverServer() as receiver:
        receiver.behaviours["hook"] = [410, 410, 200]
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook"), ["alarm"]))
        await add_source(harness)
        await fail_since(harness, 2 * HOUR)
        await check(harness)
        await harness.execute("UPDATE poll_state SET last_new_at = now() - interval '40 days'")
        await harness.execute("UPDATE poll_state SET consecutive_errors = 0, failing_since = NULL")
        assert await check(harness) == [("source_silent", "news.test")]
        await deliver_all(harness, "hook")
    retried = await harness.operations.webhooks.retry_parked("hook", None)
    statuses = [one.status for one in (await harness.operations.webhooks.list_deliveries("hook")).deliveries]
    assert (retried.queued, retried.superseded) == (1, 1), statuses


async def test_one_process_checks_at_a_time(harness: AppHarness) -> None:
    now = harness.runtime.context.clock.now()
    take = alarms.alarms.take_alarm_check
    database = harness.runtime.context.database
    assert await database.run(take, now, timedelta(minutes=1))
    assert not await database.run(take, now + timedelta(seconds=59), timedelta(minutes=1))
    assert await database.run(take, now + timedelta(seconds=60), timedelta(minutes=1))
    assert await database.run(take, now, timedelta(minutes=1)), "a clock that was set back does not stop the checks"


async def test_the_role_begins_alarms_until_it_is_stopped(harness: AppHarness) -> None:
    await add_source(harness)
    await fail_since(harness, 2 * HOUR)
    stop = asyncio.Event()
    working = asyncio.create_task(run_roles([AlarmRole(harness.runtime.alarm_keeper, look_seconds=0.02)], stop))
    async with asyncio.timeout(20):
        while not (await harness.operations.alarms.list_alarms(only_open=True)).alarms:
            await asyncio.sleep(0.01)
    stop.set()
    await working


async def test_a_channel_gets_either_alarms_or_a_search(harness: AppHarness) -> None:
    await harness.operations.saved_searches.add("rivers", SearchTerms("river"))
    for new, field in (
        (NewChannel("one", "a@b.example"), "search"),
        (NewChannel("one", "a@b.example", "rivers", alarms=True), "search"),
        (NewChannel("one", "a@b.example", alarms=True, times=DeliveryTimes(7)), "daily_at"),
    ):
        with refused(Reason.BAD_REQUEST, field):
            await harness.operations.channels.add(new)


async def test_a_source_of_dated_days_must_have_read_a_day_only_if_it_was_there_and_enabled(
    harness: AppHarness,
) -> None:
    """A source that is added today does not make the days before incomplete."""
    now = harness.runtime.context.clock.now()
    yesterday = str(now.date() - DAY)
    await harness.execute(
        "INSERT INTO sources (name, kind, settings, created_at) VALUES ('govuk', 'govuk', '{}', now())"
    )
    later = datetime(now.year, now.month, now.day, tzinfo=now.tzinfo) + 12 * HOUR
    assert await check(harness, later) == []
    await harness.execute("UPDATE sources SET created_at = $1", later - 2 * DAY)
    assert ("day_incomplete", yesterday) in await check(harness, later)
    await harness.execute("UPDATE sources SET enabled = false")
    assert await check(harness, later) == []
