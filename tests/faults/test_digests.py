"""Digests arrive exactly once after a kill at every point (spec 11.11, issue 23)."""

import asyncio
import re
from collections import Counter

import pytest

from headwater.changes.operations import NewWebhook, WebhookOperations
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from headwater.notify.channels import ChannelOperations, NewChannel
from headwater.notify.operations import SavedSearchOperations, SearchTerms
from tests.faults.conftest import Crawl
from tests.faults.invariants import violations
from tests.faults.victim import ALARM_POINTS, DIGEST_POINTS
from tests.mail_server import MailServer, read_parts
from tests.receiver import ReceiverServer

BRISK = "brisk rescuer"
READER, OTHER = "reader@example.org", "other@example.org"


@pytest.mark.timeout(180)
async def test_each_document_is_in_exactly_one_digest_after_a_kill_at_every_point(crawl: Crawl) -> None:
    """A kill right after the server took a mail sends it again with its Message-ID, and the mailbox drops that copy."""
    async with (
        MailServer() as mail,
        ReceiverServer() as receiver,
        crawl(
            hosts=20,
            pages=4,
            plain=True,
            allow_networks="127.0.0.0/8",
            smtp_url=f"smtp+plain://127.0.0.1:{mail.port}",
            smtp_from="news@example.org",
        ) as harness,
    ):
        settings = Settings(
            database_url=harness.database_url, data_dir=harness.data, smtp_url=f"smtp+plain://127.0.0.1:{mail.port}"
        )
        async with open_database_context(settings) as context:
            await SavedSearchOperations(context).add("all", SearchTerms("site:test"))
            webhooks = WebhookOperations(context)
            channels = ChannelOperations(context, webhooks)
            await channels.add(NewChannel("reader", READER, "all", since="c0"))
            await channels.add(NewChannel("other", OTHER, "all", since="c0"))
            await webhooks.add(NewWebhook("hook", receiver.url("hook"), search="all", since="c0"))
        for point in DIGEST_POINTS:
            victim = await harness.start("up", point=point, plant=BRISK)
            await harness.execute("UPDATE webhooks SET digest_due_at = NULL")
            assert await asyncio.wait_for(victim.wait(), 30) == -9, point
            del harness.programs[victim]
            # The lease of a mail outlasts a slow server; this test does not wait for its end.
            await harness.execute("UPDATE deliveries SET lease_until = now() WHERE lease_token IS NOT NULL")
            await harness.execute("UPDATE webhooks SET digest_due_at = NULL")
        await harness.start("up", plant=BRISK)
        await harness.until_done(60)
        ((wanted,),) = await harness.rows("SELECT count(*) FROM documents")
        waiting = (
            "SELECT (SELECT count(*) FROM reported_documents WHERE is_waiting) "
            "+ (SELECT count(*) FROM deliveries WHERE status <> 'delivered') "
            "+ 3 * $1 - (SELECT count(*) FROM reported_documents)"
        ).replace("$1", str(wanted))
        async with asyncio.timeout(60):
            while (await harness.rows(waiting))[0][0]:
                await harness.execute("UPDATE webhooks SET digest_due_at = NULL")
                await harness.look_again()
        await harness.stop()
        assert await violations(harness) == {}
        documents = {
            url for (url,) in await harness.rows("SELECT url FROM documents JOIN url_frontier u ON u.id = url_id")
        }
        ((lost,),) = await harness.rows("SELECT count(*) FROM delivery_log WHERE reason = 'worker_lost'")
    assert lost > 0, "the kills must meet digests under way"
    assert len(documents) == wanted == 80
    for address in (READER, OTHER):
        urls = Counter(
            url
            for one in mail.mailboxes()[address]
            for url in re.findall(r"^  (http\S+)$", read_parts(one)[0], re.MULTILINE)
        )
        assert urls == dict.fromkeys(documents, 1)
    copies = len(mail.accepted) - sum(map(len, mail.mailboxes().values()))
    assert copies <= lost, "only a mail whose acceptance was not saved is sent again"
    ids_by_url: dict[str, set[str]] = {}
    for one in receiver.received("hook"):
        ids_by_url.setdefault(one.payload["url"], set()).add(one.id)
    assert set(ids_by_url) == documents
    assert {len(ids) for ids in ids_by_url.values()} == {1}


@pytest.mark.timeout(180)
async def test_each_alarm_is_sent_once_and_once_more_when_it_is_over_after_a_kill_at_every_point(crawl: Crawl) -> None:
    """The outbox that is stuck begins and ends an alarm, while programs are killed."""
    plants = f"{BRISK},brisk alarms"
    async with MailServer() as mail, crawl(hosts=2, pages=2, plain=True) as harness:
        harness.overrides |= {"smtp_url": f"smtp+plain://127.0.0.1:{mail.port}", "smtp_from": "news@example.org"}
        settings = Settings(
            database_url=harness.database_url, data_dir=harness.data, smtp_url=f"smtp+plain://127.0.0.1:{mail.port}"
        )
        async with open_database_context(settings) as context:
            webhooks = WebhookOperations(context)
            await ChannelOperations(context, webhooks).add(NewChannel("ops", READER, alarms=True))
            await webhooks.add(NewWebhook("hook", "http://127.0.0.1:9/"))
        await harness.execute(
            "UPDATE webhooks SET failures = 5, not_before = now() + interval '1 day' WHERE name = 'hook'"
        )
        await harness.execute(
            "INSERT INTO changes (url_id, document_id, url, revision, reason, changed_at) "
            "VALUES (1, 1, 'http://h0.test/0-0', 1, 'deleted', now() - interval '2 hours')"
        )
        for point in ("an alarm begins", "alarms are checked", "an alarm is handed over"):
            victim = await harness.start("up", point=point, plant=plants)
            assert await asyncio.wait_for(victim.wait(), 30) == -9, point
            del harness.programs[victim]
            await harness.execute("UPDATE deliveries SET lease_until = now() WHERE lease_token IS NOT NULL")
        await harness.execute("UPDATE webhooks SET failures = 0, enabled = false WHERE name = 'hook'")
        victim = await harness.start("up", point="an alarm is over", plant=plants)
        assert await asyncio.wait_for(victim.wait(), 30) == -9
        del harness.programs[victim]
        await harness.execute("UPDATE deliveries SET lease_until = now() WHERE lease_token IS NOT NULL")
        await harness.start("up", plant=plants)
        sent = (
            "SELECT FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id "
            "WHERE w.name = 'ops' AND d.status = 'delivered' AND d.event = 'alarm'"
        )
        async with asyncio.timeout(60):
            while len(await harness.rows(sent)) < 2:
                await harness.look_again()
        await harness.stop()
    assert set(ALARM_POINTS) == {"an alarm begins", "alarms are checked", "an alarm is handed over", "an alarm is over"}
    subjects = [one["Subject"] for one in mail.mailboxes()[READER] if "outbox" in one["Subject"]]
    assert subjects == ["Alarm: An outbox is stuck: hook", "Over: An outbox is stuck: hook"]
