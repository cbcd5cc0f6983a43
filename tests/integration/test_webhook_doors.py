"""Webhooks through the API and the commands (spec 8.1, 8.2, 8.5)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.pool import Database, open_database
from tests.api import TOKEN, Api, open_api
from tests.harness import open_harness
from tests.program import headwater
from tests.receiver import ReceiverServer
from tests.stored_rows import write_all

NEW = {"name": "hook", "url": "https://receiver.example/hook?a=1"}
PUBLIC = {"name", "url", "events", "enabled", "waiting", "waiting_since", "parked", "failures", "failing_reason"} | {
    "failing_since",
    "error",
    "not_before",
    "delivered_at",
    "created_at",
    "search",
    "kind",
    "digest_hour",
    "timezone",
    "quiet_from",
    "quiet_to",
}


@pytest.fixture
async def api(database: Database, make_settings: Callable[..., Settings]) -> AsyncIterator[Api]:
    async with open_api(make_settings(api_token=TOKEN)) as serving:
        yield serving


async def delete(api: Api, path: str, token: str | None = TOKEN) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with api.session.delete(api.base + path, headers=headers) as response:
        return response.status, await response.json()


async def test_a_webhook_is_added_shown_switched_and_removed(api: Api) -> None:
    """Spec 8.1."""
    status, added = await api.post("/webhooks", NEW)
    assert status == 201
    assert added["secret"].startswith("whsec_")
    assert (added["url"], added["events"]) == (NEW["url"], ["document.ready", "document.deleted", "job.failed"])
    _, listed = await api.get("/webhooks")
    _, shown = await api.get("/webhooks/hook")
    assert [set(row) for row in listed["webhooks"]] == [PUBLIC] == [set(shown)]
    assert (await api.post("/webhooks/hook/disable", None))[1]["enabled"] is False
    assert (await api.post("/webhooks/hook/enable", None))[1]["enabled"] is True
    status, again = await api.post("/webhooks", NEW)
    assert (status, again["error"]["reason"]) == (409, Reason.WEBHOOK_EXISTS)
    assert await delete(api, "/webhooks/hook") == (200, {"name": "hook"})
    assert (await api.get("/webhooks"))[1] == {"webhooks": []}


async def test_a_bad_field_is_refused_by_name_and_nothing_is_added(api: Api) -> None:
    """Spec 8.1."""
    for changed, field in [
        ({"url": "not a url"}, "url"),
        ({"url": "/hook"}, "url"),
        ({"url": "ftp://receiver.example/"}, "url"),
        ({"url": "https://user:secret@receiver.example/"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://receiver.example/a\0b"}, "url"),
        ({"url": "https://receiver.example/\n"}, "url"),
        ({"url": "https://receiver.example/a\x7fb"}, "url"),
        ({"name": ""}, "name"),
        ({"name": "../x"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"events": []}, "events"),
        ({"events": ["document.gone"]}, "events"),
        ({"events": ["job.failed", "\ud800"]}, "events"),
        ({"since": "c999999999999999999"}, "since"),
        ({"since": "soon"}, "since"),
        ({"since": "2999-01-01"}, "since"),
        ({"secret": "mine"}, "secret"),
    ]:
        status, body = await api.post("/webhooks", NEW | changed)
        assert (status, body["error"]["reason"]) == (422, Reason.BAD_REQUEST)
        assert body["error"]["message"].startswith(field)
        assert "secret@" not in body["error"]["message"]
        assert (await api.get("/webhooks"))[1] == {"webhooks": []}


async def test_an_unknown_webhook_is_a_404_at_every_door(api: Api) -> None:
    answers = [await api.get("/webhooks/none"), await api.get("/webhooks/none/deliveries")]
    answers += [await api.post(f"/webhooks/none/{action}", None) for action in ("enable", "disable", "test", "retry")]
    answers += [await api.post("/webhooks/none/dismiss", None), await delete(api, "/webhooks/none")]
    assert [(status, body["error"]["reason"]) for status, body in answers] == [(404, Reason.UNKNOWN_WEBHOOK)] * 8


async def test_a_bad_filter_of_deliveries_is_refused(api: Api) -> None:
    for query in ["limit=0", "limit=100000", "status=lost", "before=x", "colour=red"]:
        await api.post("/webhooks", NEW)
        status, body = await api.get(f"/webhooks/hook/deliveries?{query}")
        assert (status, body["error"]["reason"]) == (422, Reason.BAD_REQUEST)
        assert body["error"]["message"].startswith(query.partition("=")[0])


async def test_bad_ids_are_refused(api: Api) -> None:
    await api.post("/webhooks", NEW)
    for ids, status, reason in (
        (["x"], 422, Reason.BAD_REQUEST),
        ([], 422, Reason.BAD_REQUEST),
        (["00000000-0000-0000-0000-000000000000"], 404, Reason.UNKNOWN_DELIVERY),
    ):
        for action in ("retry", "dismiss"):
            answered, body = await api.post(f"/webhooks/hook/{action}", {"ids": ids})
            assert (answered, body["error"]["reason"]) == (status, reason)


async def test_writing_needs_the_token(api: Api) -> None:
    """Spec 8.1."""
    await api.post("/webhooks", NEW)
    paths = ["/webhooks", *(f"/webhooks/hook/{action}" for action in ("enable", "disable", "test", "retry", "dismiss"))]
    answers = [await api.post(path, NEW, token=None) for path in paths] + [await delete(api, "/webhooks/hook", None)]
    assert [status for status, _ in answers] == [401] * 7
    assert (await api.get("/webhooks/hook"))[0] == 200


async def test_deliveries_are_listed_by_pages_with_their_attempts(
    api: Api, make_settings: Callable[..., Settings], database: Database
) -> None:
    async with ReceiverServer() as receiver:
        await api.post("/webhooks", {"name": "hook", "url": receiver.url("hook")})
        _, tested = await api.post("/webhooks/hook/test", None)
        assert (tested["delivered"], tested["http_status"]) == (True, 200)
        assert receiver.received("hook")[0].payload["event"] == "test"
        receiver.behaviours["hook"] = [410]
        _, tested = await api.post("/webhooks/hook/test", None)
        assert (tested["delivered"], tested["reason"]) == (False, Reason.GONE)
    await write_all(database, *"abc")
    async with open_harness(make_settings()) as harness:
        await harness.runtime.outbox.claim(64)
    _, first = await api.get("/webhooks/hook/deliveries?limit=2")
    _, second = await api.get("/webhooks/hook/deliveries", params={"limit": 2, "before": first["next"]})
    urls = [row["url"].rpartition("/")[2] for page in (first, second) for row in page["deliveries"]]
    assert urls == ["c", "b", "a"]
    assert second["next"] is None


async def test_metrics_report_what_waits_for_each_receiver(api: Api, database: Database) -> None:
    """Spec 8.1."""
    await api.post("/webhooks", NEW)
    await write_all(database, "a", "b")
    async with api.session.get(api.base + "/metrics") as response:
        text = await response.text()
    assert 'headwater_webhook_waiting{webhook="hook"} 2.0' in text
    assert 'headwater_webhook_parked{webhook="hook"} 0.0' in text
    assert 'headwater_webhook_behind_seconds{webhook="hook"}' in text


def test_the_commands_do_the_same_and_show_the_secret_once(
    database_url: str, tmp_path: Path, database: Database
) -> None:
    """Spec 8.2, 8.5: no other output and no log has the secret."""
    asyncio.run(_with_receiver(database_url, tmp_path))


async def _with_receiver(database_url: str, folder: Path) -> None:
    place: dict[str, object] = {
        "database_url": database_url,
        "data_dir": folder,
        "allow_networks": "127.0.0.0/8",
        "log_level": "debug",
    }

    async def ask(*words: str) -> Any:
        return await asyncio.to_thread(headwater, "webhook", *words, cwd=folder, **place)

    async with ReceiverServer() as receiver:
        added = json.loads((await ask("add", "hook", receiver.url("hook"), "--event", "job.failed", "--json")).stdout)
        secret = added.pop("secret")
        shown = (await ask("add", "other", receiver.url("other"))).stdout
        assert "whsec_" in shown
        assert added["events"] == ["job.failed"]
        assert (await ask("test", "hook")).returncode == 0
        assert receiver.received("hook")[0].is_signed_with(secret)
        receiver.behaviours["hook"] = [500]
        failed = await ask("test", "hook", "--json")
        assert (failed.returncode, json.loads(failed.stdout)["reason"]) == (1, "http_5xx")
    async with open_database(Settings(database_url=database_url)) as database:
        await write_all(database, "a")
    answers = [
        await ask("list"),
        await ask("list", "--json"),
        await ask("show", "hook"),
        await ask("show", "hook", "--json"),
        await ask("deliveries", "hook"),
        await ask("deliveries", "hook", "--json"),
        await ask("disable", "hook"),
        await ask("enable", "hook"),
        await ask("test", "hook"),
        await ask("retry", "hook", "--all"),
        await ask("dismiss", "hook", "--all", "--json"),
        await ask("remove", "hook", "--yes"),
    ]
    assert [answer.returncode for answer in answers] == [0] * 8 + [1] + [0] * 3
    assert json.loads(answers[3].stdout)["name"] == "hook"
    assert not any("whsec_" in answer.stdout + answer.stderr for answer in answers)
    for words, said in (
        (("show", "hook"), "channel named hook"),
        (("add", "x", "nowhere"), "url:"),
        (("add", "x", "http://a.example/", "--event", "all"), "events:"),
        (("add", "x", "http://a.example/", "--since", "c999999999999999999"), "since:"),
        (("deliveries", "other", "--status", "odd"), "status:"),
        (("retry", "other"), "--all"),
        (("retry", "other", "x"), "ids:"),
        (("remove", "other"), "--yes"),
    ):
        refused = await ask(*words)
        assert refused.returncode == 2
        assert said in refused.stderr
