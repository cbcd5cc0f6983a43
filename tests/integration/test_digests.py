"""Digests by mail and by services: each document once, nothing lost while a receiver is away (spec 11.11)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.app.maintenance import rescue_expired
from headwater.changes.operations import NewWebhook
from headwater.changes.outbox import MOST_ATTEMPTS
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import digests
from headwater.http import services
from headwater.notify.channels import DeliveryTimes, NewChannel
from headwater.notify.digests import next_hour
from headwater.notify.operations import SearchTerms
from headwater.stories.builder import StoryBuilder
from tests.certificates import make_certificate, serve_certificate
from tests.harness import AppHarness, open_harness
from tests.integration.test_search import PAGES, write_page
from tests.integration.test_stories import ELSEWHERE, REPORT
from tests.integration.test_webhooks import delivering
from tests.mail_server import MailServer, read_parts
from tests.receiver import ReceiverServer
from tests.refusals import refused
from tests.server import Answer, Site
from tests.waiting import until

READER = "reader@example.org"
RIVERS = {"http://en.test/river", "http://en.test/budget"}


@pytest.fixture
async def mail() -> AsyncIterator[MailServer]:
    async with MailServer() as serving:
        yield serving


@pytest.fixture
async def harness(site: Site, mail: MailServer, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    site.answers.update(PAGES)
    settings = make_settings(
        timezone="UTC",
        connect_to=site.connect_to,
        allow_networks=("127.0.0.0/8",),
        smtp_url=f"smtp+plain://127.0.0.1:{mail.port}",
        smtp_from="news@example.org",
        retry_base_seconds=0.05,
    )
    async with open_harness(settings) as opened:
        yield opened


async def watch(harness: AppHarness, address: str = READER, words: str = "river", **times: int | str) -> None:
    await harness.operations.saved_searches.add("rivers", SearchTerms(words))
    new = NewChannel("reader", address, "rivers", DeliveryTimes(**times), since="c0")  # type: ignore[arg-type]
    await harness.operations.channels.add(new)


async def make_digests(harness: AppHarness) -> int:
    await harness.operations.webhooks.list_webhooks()  # numbers the changes
    await harness.runtime.matcher.match_all()
    return await harness.runtime.digest_maker.make_due()


async def until_delivered(harness: AppHarness) -> None:
    async with delivering(harness):
        async with asyncio.timeout(20):
            while (await harness.operations.webhooks.get("reader")).waiting:
                await asyncio.sleep(0.01)


def urls_of(plain: str) -> set[str]:
    return set(re.findall(r"^  (http\S+)$", plain, re.MULTILINE))


async def test_a_digest_has_each_new_document_once(harness: AppHarness, mail: MailServer, site: Site) -> None:
    """Also after a later change of a document that was reported."""
    await watch(harness)
    await harness.fetch(*PAGES)
    assert await make_digests(harness) == 1
    await until_delivered(harness)
    (digest,) = mail.accepted
    plain, html = read_parts(digest)
    assert urls_of(plain) == RIVERS
    assert set(re.findall(r'href="([^"]+)"', html)) == RIVERS
    assert (digest["To"], digest["From"], digest["Subject"]) == (READER, "news@example.org", "rivers: 2 new documents")
    site.answers["http://en.test/river"] = write_page("en", "Rivers again", "The river is still rising.")
    await harness.operations.frontier.retry(["http://en.test/river"])
    await harness.work()
    await harness.execute("UPDATE webhooks SET digest_due_at = NULL")
    assert await make_digests(harness) == 0
    assert len(mail.accepted) == 1


async def test_a_digest_reports_the_day_and_silent_sources(harness: AppHarness, mail: MailServer) -> None:
    await watch(harness, daily_at=7)
    await harness.fetch(*PAGES)
    await harness.execute("UPDATE webhooks SET digest_due_at = now()")
    await harness.execute(
        "INSERT INTO sources (name, kind, settings, created_at) "
        "VALUES ('silent.test', 'site', '{\"feed_url\": \"http://silent.test/feed\"}', now())"
    )
    await harness.execute(
        "INSERT INTO poll_state (source_id, method, next_poll_at, last_polled_at, consecutive_errors, last_error, "
        "last_reason) SELECT id, 'main', now() + interval '1 h', now(), 3, 'It broke.', 'not_a_feed' FROM sources "
        "WHERE name = 'silent.test'"
    )
    assert await make_digests(harness) == 1
    await until_delivered(harness)
    plain, _ = read_parts(mail.accepted[0])
    today = harness.runtime.context.clock.now().date()
    assert f"The day {today - timedelta(days=1)} is complete." in plain
    assert "- silent.test: Failed 3 times in a row" in plain
    await harness.execute("UPDATE webhooks SET digest_hour = NULL, digest_due_at = NULL")
    await harness.execute("UPDATE reported_documents SET is_waiting = true, position = position + 1000000")
    report = await harness.runtime.digest_maker.report(today, is_over=False)
    assert (report.is_over, report.is_complete) == (False, False)


async def test_a_hostile_title_stays_text(harness: AppHarness, mail: MailServer) -> None:
    await watch(harness)
    await harness.fetch("http://en.test/river")
    hostile = "</a><script>alert(1)</script>\r\nBcc: x@y.example \u202e"
    await harness.execute("UPDATE documents SET title = $1", hostile)
    await make_digests(harness)
    await until_delivered(harness)
    plain, html = read_parts(mail.accepted[0])
    assert "<script>" not in html
    assert "\u202e" not in plain
    assert mail.accepted[0]["Bcc"] is None


async def test_an_outbox_loses_nothing_while_the_mail_server_is_away(harness: AppHarness, mail: MailServer) -> None:
    await watch(harness)
    await mail.go_away()
    await harness.fetch("http://en.test/river")
    await make_digests(harness)
    async with delivering(harness):
        await until(lambda: failures(harness))
    await mail.come_back()
    mail.answers[:] = ["451 Come back later", "421 Busy", "250 OK"]
    await harness.execute("UPDATE webhooks SET not_before = NULL, digest_due_at = NULL")
    await harness.execute("UPDATE deliveries SET due_at = now()")
    await harness.fetch("http://en.test/budget")
    await make_digests(harness)
    await until_delivered(harness)
    found = [urls_of(read_parts(one)[0]) for one in mail.accepted]
    assert found == [{"http://en.test/river"}, {"http://en.test/budget"}]


async def failures(harness: AppHarness) -> bool:
    return (await harness.operations.webhooks.get("reader")).failing_reason is Reason.NETWORK


async def test_each_attempt_has_the_same_message_id(harness: AppHarness, mail: MailServer) -> None:
    """The server took the mail, and the program died before it saved that: the mailbox drops the second copy."""
    await watch(harness)
    await harness.fetch("http://en.test/river")
    await make_digests(harness)
    (lost,) = await harness.runtime.outbox.claim(1)
    now = harness.runtime.context.clock.now()
    assert lost.lease.until > now + harness.runtime.sender.mail.longest, "the lease outlasts a slow server"
    await harness.runtime.sender.send(lost.receiver, lost.id, lost.message)
    await harness.execute("UPDATE deliveries SET lease_until = now() - interval '1 s'")
    assert await rescue_expired(harness.runtime.context) == 1
    await until_delivered(harness)
    assert len(mail.accepted) == 2
    assert mail.accepted[0]["Message-ID"] == mail.accepted[1]["Message-ID"] == f"<{lost.id}@example.org>"
    assert [str(one.get_body(("plain",))) for one in mail.accepted][:1] * 2 == [
        str(one.get_body(("plain",))) for one in mail.accepted
    ]
    assert len(mail.mailboxes()[READER]) == 1


async def test_a_refused_mail_is_parked_and_blocks_no_later_digest(harness: AppHarness, mail: MailServer) -> None:
    mail.answers[:] = ["550 No such mailbox", "250 OK"]
    await watch(harness)
    await harness.fetch("http://en.test/river")
    await make_digests(harness)
    await until_delivered(harness)
    assert (await harness.operations.webhooks.get("reader")).parked == 1
    (parked,) = (await harness.operations.webhooks.list_deliveries("reader")).deliveries
    assert (parked.event, parked.reason) == ("digest", Reason.MAIL_REFUSED)
    await harness.execute("UPDATE webhooks SET digest_due_at = NULL")
    await harness.fetch("http://en.test/budget")
    await make_digests(harness)
    await until_delivered(harness)
    retried = await harness.operations.webhooks.retry_parked("reader", None)
    assert (retried.queued, retried.superseded) == (1, 0)
    await until_delivered(harness)
    assert len(mail.accepted) == 2


async def test_a_document_that_was_deleted_before_its_digest_is_not_in_it(
    harness: AppHarness, mail: MailServer
) -> None:
    await watch(harness, daily_at=7)
    await harness.fetch(*PAGES)
    assert await make_digests(harness) == 0
    await harness.operations.documents.delete((await harness.documents())["http://en.test/river"].id)
    await harness.execute("UPDATE webhooks SET digest_due_at = now()")
    assert await make_digests(harness) == 1
    await until_delivered(harness)
    assert urls_of(read_parts(mail.accepted[0])[0]) == {"http://en.test/budget"}
    assert len(await harness.rows("SELECT FROM reported_documents")) == 1


async def test_documents_of_a_story_are_one_item(harness: AppHarness, mail: MailServer, site: Site) -> None:
    texts = {"http://one.test/1": REPORT, "http://two.test/1": REPORT, "http://three.test/1": ELSEWHERE}
    for link, text in texts.items():
        site.answers[link] = Answer(
            f"<html lang=en><title>Closed</title><article><h1>Closed</h1><p>{text}</p></article></html>",
            headers={"Content-Type": "text/html"},
        )
    await watch(harness, words="closed")
    await harness.fetch(*texts)
    builder = StoryBuilder(harness.runtime.context)
    while await builder.step():
        pass
    assert await make_digests(harness) == 1
    await until_delivered(harness)
    plain, html = read_parts(mail.accepted[0])
    assert urls_of(plain) == set(texts)
    assert html.count("<li>") == 2
    assert html.count("Also <a") == plain.count("\n  Also ") == 1


async def test_a_mail_that_always_fails_is_parked_and_blocks_no_later_digest(
    harness: AppHarness, mail: MailServer
) -> None:
    mail.answers[:] = ["451 Come back later"]
    await watch(harness)
    await harness.fetch("http://en.test/river")
    await make_digests(harness)
    await harness.execute("UPDATE deliveries SET attempts = $1", MOST_ATTEMPTS - 1)
    await until_delivered(harness)
    (parked,) = (await harness.operations.webhooks.list_deliveries("reader")).deliveries
    assert (parked.status, parked.reason) == ("parked", Reason.MAX_RETRIES)
    mail.answers[:] = ["250 OK"]
    await harness.execute("UPDATE webhooks SET digest_due_at = NULL, not_before = NULL")
    await harness.fetch("http://en.test/budget")
    await make_digests(harness)
    await until_delivered(harness)
    assert [urls_of(read_parts(one)[0]) for one in mail.accepted] == [{"http://en.test/budget"}]


async def test_a_deleted_document_leaves_the_digests_that_are_not_sent(harness: AppHarness, mail: MailServer) -> None:
    """Also those that are parked."""
    mail.answers[:] = ["550 No such mailbox", "250 OK"]
    await watch(harness)
    await harness.fetch(*RIVERS)
    await make_digests(harness)
    await until_delivered(harness)
    documents = await harness.documents()
    await harness.operations.documents.delete(documents["http://en.test/river"].id)
    await harness.operations.webhooks.retry_parked("reader", None)
    await until_delivered(harness)
    assert [urls_of(read_parts(one)[0]) for one in mail.accepted] == [{"http://en.test/budget"}]
    assert await harness.rows("SELECT FROM deliveries WHERE digest IS NOT NULL") == [], "a sent digest is not kept"


async def test_a_digest_of_deleted_documents_only_is_dismissed(harness: AppHarness, mail: MailServer) -> None:
    await watch(harness)
    await harness.fetch("http://en.test/river")
    assert await make_digests(harness) == 1
    await harness.operations.documents.delete((await harness.documents())["http://en.test/river"].id)
    (dismissed,) = (await harness.operations.webhooks.list_deliveries("reader")).deliveries
    assert (dismissed.status, dismissed.reason) == ("dismissed", Reason.DELETED)
    await until_delivered(harness)
    assert mail.accepted == []
    assert await harness.rows("SELECT FROM deliveries WHERE digest IS NOT NULL") == []


async def test_quiet_hours_hold_digests_back(harness: AppHarness, mail: MailServer) -> None:
    hour = harness.runtime.context.clock.now().hour
    await watch(harness, quiet_from=hour, quiet_to=(hour + 1) % 24, timezone="UTC")
    await harness.fetch("http://en.test/river")
    assert await make_digests(harness) == 0
    await harness.execute("UPDATE webhooks SET quiet_from = $1, quiet_to = $2", (hour + 1) % 24, (hour + 23) % 24)
    assert await make_digests(harness) == 1
    await harness.execute("UPDATE webhooks SET quiet_from = $1, quiet_to = $2", hour, (hour + 1) % 24)
    assert await harness.runtime.outbox.claim(10) == []
    await harness.execute("UPDATE webhooks SET quiet_from = NULL, quiet_to = NULL")
    await until_delivered(harness)
    assert len(mail.accepted) == 1


async def test_a_daily_digest_waits_for_its_hour(harness: AppHarness) -> None:
    """A day without documents makes no digest, and the next one waits for its hour again."""
    now = harness.runtime.context.clock.now()
    await watch(harness, daily_at=(now.hour + 2) % 24, timezone="UTC")
    await harness.fetch("http://en.test/river")
    assert await make_digests(harness) == 0
    await harness.execute("UPDATE webhooks SET digest_due_at = now() - interval '1 minute'")
    assert await make_digests(harness) == 1
    await harness.execute("UPDATE webhooks SET digest_due_at = now() - interval '1 minute'")
    assert await make_digests(harness) == 0
    ((due,),) = await harness.rows("SELECT digest_due_at FROM webhooks")
    assert due > now + timedelta(hours=1)


def test_the_next_hour_follows_the_clock_of_its_zone() -> None:
    """Also on the days on which the clock changes: 02:00 does not exist on 29 March, and is twice on 25 October."""
    berlin = "Europe/Berlin"
    assert next_hour(datetime(2026, 3, 28, 5, 59, tzinfo=UTC), 7, berlin) == datetime(2026, 3, 28, 6, tzinfo=UTC)
    assert next_hour(datetime(2026, 3, 28, 6, tzinfo=UTC), 7, berlin) == datetime(2026, 3, 29, 5, tzinfo=UTC)
    assert next_hour(datetime(2026, 3, 28, 12, tzinfo=UTC), 2, berlin) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert next_hour(datetime(2026, 10, 24, 12, tzinfo=UTC), 2, berlin) == datetime(2026, 10, 25, 0, tzinfo=UTC)
    assert next_hour(datetime(2026, 10, 25, 0, tzinfo=UTC), 2, berlin) == datetime(2026, 10, 26, 1, tzinfo=UTC)


async def test_a_large_digest_continues_in_the_next(
    harness: AppHarness, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.notify.digests.MOST_DOCUMENTS", 3)
    await watch(harness, words="site:test")
    await harness.fetch(*PAGES)
    made = await make_digests(harness)
    assert made == -(-len(PAGES) // 3)
    await until_delivered(harness)
    found = [url for one in mail.accepted for url in urls_of(read_parts(one)[0])]
    assert sorted(found) == sorted(PAGES)
    assert f"The next digest has {len(PAGES) - 3} more." in read_parts(mail.accepted[0])[0]


async def test_a_deletion_waits_for_a_digest_that_is_being_made(harness: AppHarness) -> None:
    """Else the digest would keep the deleted document."""
    await watch(harness)
    await harness.fetch("http://en.test/river")
    await harness.operations.webhooks.list_webhooks()
    await harness.runtime.matcher.match_all()
    maker, database, now = harness.runtime.digest_maker, harness.runtime.context.database, utc_now(harness)
    (due,) = await database.run(digests.list_due_digests, now)
    report = await maker.report(now.date(), is_over=False)
    document = (await harness.documents())["http://en.test/river"]
    async with database.connection() as connection, connection.transaction():
        assert await maker._make(connection, due, report, now)
        deleting = asyncio.create_task(harness.operations.documents.delete(document.id))
        async with asyncio.timeout(20):
            while not await harness.rows("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                assert not deleting.done()
                await asyncio.sleep(0.01)
    await deleting
    assert await harness.rows("SELECT FROM deliveries WHERE digest IS NOT NULL") == []


def utc_now(harness: AppHarness) -> datetime:
    return harness.runtime.context.clock.now()


async def test_a_slow_mail_server_delays_no_webhook(
    harness: AppHarness, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 4.4: also if there are more mails than deliveries at once."""
    monkeypatch.setattr("headwater.changes.outbox._DELIVERIES_AT_ONCE", 2)
    monkeypatch.setattr("headwater.changes.outbox._CHANNELS_AT_ONCE", 1)
    mail.held = "DATA"
    async with ReceiverServer() as receiver:
        await watch(harness)
        for name in ("second", "third"):
            await harness.operations.channels.add(NewChannel(name, READER, "rivers", since="c0"))
        await harness.fetch("http://en.test/river")
        assert await make_digests(harness) == 3
        async with delivering(harness):
            await asyncio.wait_for(mail.arrived.wait(), 20)
            await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook"), since="c0"))
            async with asyncio.timeout(20):
                while not receiver.received("hook"):
                    await asyncio.sleep(0.01)
            leased = "SELECT FROM deliveries WHERE event = 'digest' AND lease_token IS NOT NULL"
            assert len(await harness.rows(leased)) == 1
            mail.released.set()


async def test_digests_are_made_while_there_is_room(harness: AppHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.notify.digests.MOST_DOCUMENTS", 1)
    monkeypatch.setattr("headwater.db.digests.MOST_PENDING", 2)
    await watch(harness, words="site:test")
    await harness.fetch(*PAGES)
    assert [await make_digests(harness) for _ in range(2)] == [2, 0]


async def test_a_receiver_whose_deliveries_fail_delays_no_other(harness: AppHarness) -> None:
    """Neither their digests nor their matches."""
    await watch(harness)
    await harness.operations.channels.add(NewChannel("other", READER, "rivers", since="c0"))
    for name in ("bad-hook", "hook"):
        new = NewWebhook(name, "http://127.0.0.1:9/", since="c0", search="rivers")
        await harness.operations.webhooks.add(new)
    await harness.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'It is refused.'; END $$"
    )
    await harness.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON deliveries FOR EACH ROW "
        f"WHEN (new.webhook_id IN ({await find_id(harness, 'reader')}, {await find_id(harness, 'bad-hook')})) "
        "EXECUTE FUNCTION refuse()"
    )
    await harness.fetch("http://en.test/river")
    await harness.execute("UPDATE webhooks SET position = 1 WHERE name <> 'bad-hook'")
    await harness.execute("UPDATE webhooks SET digest_due_at = now() - interval '1 s' WHERE name = 'other'")
    assert await make_digests(harness) == 1
    rows = await harness.rows("SELECT w.name FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id ORDER BY 1")
    assert [name for (name,) in rows] == ["hook", "other"]


async def find_id(harness: AppHarness, name: str) -> int:
    ((found,),) = await harness.rows("SELECT id FROM webhooks WHERE name = $1", name)
    return int(found)


@pytest.mark.filterwarnings("ignore::UserWarning:aiosmtpd", "ignore::DeprecationWarning:aiosmtpd")
@pytest.mark.filterwarnings("ignore:Requiring AUTH", "ignore:Session.login_data")
async def test_a_login_and_starttls_protect_the_mail(
    mail: MailServer, make_settings: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with MailServer(login=("me", "p@ss/word"), tls=serve_certificate(certificate)) as server:
        for url, delivered, reason in (
            (f"smtp://me:p%40ss%2Fword@localhost:{server.port}", True, Reason.DELIVERED),
            (f"smtp://me:wrong@localhost:{server.port}", False, Reason.MAIL_DEFERRED),
            (f"smtp+plain://me:p%40ss%2Fword@localhost:{server.port}", False, Reason.MAIL_DEFERRED),
            (f"smtp://me:p%40ss%2Fword@127.0.0.1:{server.port}", False, Reason.NETWORK),
            (f"smtps://me:p%40ss%2Fword@localhost:{server.port}", False, Reason.NETWORK),
        ):
            async with open_harness(make_settings(smtp_url=url)) as harness:
                if not await harness.rows("SELECT FROM webhooks"):
                    await watch(harness)
                result = await harness.operations.webhooks.send_test("reader")
                assert (result.delivered, result.reason) == (delivered, reason), url
                assert "wrong" not in (result.detail or "")
    assert server.was_encrypted == [True]


async def test_a_service_gets_digests_through_apprise(harness: AppHarness) -> None:
    async with ReceiverServer() as receiver:
        receiver.behaviours["hook"] = [500, 200]
        address = receiver.url("hook").replace("http://", "json://")
        await watch(harness, address)
        shown = await harness.operations.webhooks.get("reader")
        assert (shown.kind, shown.url) == ("apprise", "json://***")
        await harness.fetch(*PAGES)
        await make_digests(harness)
        await until_delivered(harness)
        bodies = [json.loads(one.body) for one in receiver.received("hook")]
        assert [one["title"] for one in bodies] == ["rivers: 2 new documents"] * 2
        assert urls_of(bodies[1]["message"]) == RIVERS


async def test_a_text_that_is_too_long_for_a_service_is_several_messages(harness: AppHarness) -> None:
    async with ReceiverServer() as receiver:
        address = receiver.url("hook").replace("http://", "json://")
        longest = services.find_service(address).body_maxlen
        text = "\n".join(str(number) for number in range(longest // 3))
        await harness.runtime.sender.services.send(address, "Long", text)
        messages = [json.loads(one.body)["message"] for one in receiver.received("hook")]
        assert max(map(len, messages)) <= longest
        assert [line for one in messages for line in one.split()] == text.split()


async def test_the_guard_checks_the_addresses_of_services(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Also after a redirect: only the address 127.0.0.1 is allowed."""
    settings = make_settings(allow_networks=("127.0.0.1/32",))
    async with ReceiverServer() as receiver, open_harness(settings) as harness:
        elsewhere = receiver.url("other").replace("127.0.0.1", "127.0.0.2")
        receiver.behaviours["hook"] = [(307, {"Location": elsewhere})]
        for name, address in (("direct", elsewhere), ("reader", receiver.url("hook"))):
            await watch_service(harness, name, address.replace("http://", "json://"))
            result = await harness.operations.webhooks.send_test(name)
            assert (result.delivered, result.reason) == (False, Reason.ADDRESS_REFUSED)
        assert [one.hook for one in receiver.seen] == ["hook"]


async def test_services_do_not_use_the_proxy_and_the_passwords_of_the_environment(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The guard would see only the address of the proxy."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with ReceiverServer() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, receiver.url(""))
        await watch_service(harness, "inside", "json://169.254.169.254/latest")
        result = await harness.operations.webhooks.send_test("inside")
        assert (result.delivered, result.reason) == (False, Reason.ADDRESS_REFUSED)
        assert receiver.seen == []
        await watch_service(harness, "reader", receiver.url("hook").replace("http://", "json://"))
        assert (await harness.operations.webhooks.send_test("reader")).delivered
        (received,) = receiver.seen
        assert "Authorization" not in received.headers


async def test_a_service_with_several_targets_is_refused(harness: AppHarness) -> None:
    """If one target failed, the retry would repeat the message to the others."""
    await harness.operations.saved_searches.add("rivers", SearchTerms("river"))
    token = "a" * 24
    for channels, is_refused in (("one,two", True), ("one", False)):
        new = NewChannel("reader", f"mmost://mattermost.example/{token}?channels={channels}", "rivers")
        if is_refused:
            with refused(Reason.BAD_REQUEST, "targets"):
                await harness.operations.channels.add(new)
        else:
            await harness.operations.channels.add(new)


async def watch_service(harness: AppHarness, name: str, address: str) -> None:
    await harness.operations.saved_searches.add(name, SearchTerms("river"))
    await harness.operations.channels.add(NewChannel(name, address, name))


def test_services_that_use_no_http_or_read_files_are_refused() -> None:
    for url in (
        "ntfy://ntfy.example/topic",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#nuxref",
        "matrixs://user:pass@matrix.example/#room",
        "workflows://prod-1.example:443/643e69ff8e834d4ba4cd3f4e02ab5d67/Ybn1dW-5Y9yJxk3Nm3zJq5Jq0dL1A4ZzF3WmK9sT2uE/",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    ):
        assert services.find_service(url)
    for url in (
        "mailto://user:pass@mail.example",
        "syslog://",
        "mqtt://broker.example/topic",
        "dbus://",
        "xmpp://user:pass@x.example",
        "fcm://project@device/?keyfile=/etc/passwd",
        "nonsense://x",
        "json://" + "a" * 5000,
    ):
        with refused(Reason.INVALID_URL):
            services.find_service(url)


async def test_a_channel_with_a_mistake_is_refused_and_no_message_repeats_its_address(harness: AppHarness) -> None:
    await harness.operations.saved_searches.add("rivers", SearchTerms("river"))
    good = NewChannel("reader", READER, "rivers")
    for address in (
        "me",
        "a@b\r\nBcc: c@d",
        "a b@c.example",
        "@x",
        "slack://secret-token",
        "a@b,c@d",
        "x" * 300 + "@a",
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its reason is asserted
            await harness.operations.channels.add(NewChannel("reader", address, "rivers"))
        assert caught.value.reason is Reason.BAD_REQUEST  # type: ignore[attr-defined]
        assert "secret-token" not in str(caught.value)
    for times, field in (
        (DeliveryTimes(24), "daily_at"),
        (DeliveryTimes(7, "Moon/Base"), "timezone"),
        (DeliveryTimes(quiet_from=1), "quiet_from"),
        (DeliveryTimes(quiet_from=1, quiet_to=1), "quiet_from"),
    ):
        with refused(Reason.BAD_REQUEST, field):
            await harness.operations.channels.add(NewChannel("reader", READER, "rivers", times))
    with refused(Reason.UNKNOWN_SAVED_SEARCH):
        await harness.operations.channels.add(NewChannel("reader", READER, "none"))
    await harness.operations.channels.add(good)
    with refused(Reason.WEBHOOK_EXISTS):
        await harness.operations.channels.add(good)
