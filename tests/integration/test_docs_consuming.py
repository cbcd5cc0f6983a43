"""The programs in docs/handoff.md work as described (spec 8.5)."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp

from headwater.changes.operations import NewWebhook
from headwater.changes.outbox import FAILURES_BEFORE_A_PAUSE, LONGEST_WAIT, MOST_ATTEMPTS
from headwater.changes.webhooks import LONGEST_SECONDS
from headwater.core.settings import Settings
from headwater.db import changes
from headwater.db.pool import Database
from tests.api import TOKEN, open_api
from tests.harness import open_harness
from tests.integration.test_webhooks import delivering, until_settled
from tests.stored_rows import HOST, write_all

TEXT = (Path(__file__).parents[2] / "docs/handoff.md").read_text().partition("## Consuming documents")[2]
CONSUMER, RECEIVER = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


@asynccontextmanager
async def running(program: str, folder: Path, *words: str, **variables: str) -> AsyncIterator[Process]:
    """Run a program of the page, and kill it at the end."""
    (folder / "program.py").write_text(program)
    command = (sys.executable, "program.py", *words)
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=os.environ | variables, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def lines(process: Process, count: int) -> list[str]:
    assert process.stdout
    async with asyncio.timeout(30):
        return [(await process.stdout.readline()).decode().strip() for _ in range(count)]


async def test_the_consumer_reads_every_document_and_continues_after_a_kill(
    tmp_path: Path, database: Database, make_settings: Callable[..., Settings]
) -> None:
    """Spec 8.5."""
    place = tmp_path / "cursor.txt"
    await write_all(database, "a", "b")
    async with open_api(make_settings()) as api:
        async with running(CONSUMER, tmp_path, api.base, "cursor.txt") as consumer:
            assert await lines(consumer, 2) == [f"new {HOST}/a 5", f"new {HOST}/b 5"]
            async with asyncio.timeout(30):
                while not place.exists():
                    await asyncio.sleep(0.01)
        await write_all(database, "a", text="second")
        async with running(CONSUMER, tmp_path, api.base, "cursor.txt") as consumer:
            assert await lines(consumer, 1) == [f"changed {HOST}/a 6"]


async def test_the_consumer_continues_when_the_program_is_restarted(
    tmp_path: Path, database: Database, make_settings: Callable[..., Settings]
) -> None:
    """Spec 8.5, 11.8: also with a token. A consumer with a bad cursor ends, and one without the token."""
    settings = make_settings(listen_port=free_port(), api_token=TOKEN, allowed_hosts=("headwater.example.org",))
    (tmp_path / "token.txt").write_text(f"{TOKEN}\n")
    await write_all(database, "a")
    async with contextlib.AsyncExitStack() as stack:
        async with open_api(settings) as api:
            consumer = await stack.enter_async_context(running(CONSUMER, tmp_path, api.base, "cursor.txt", "token.txt"))
            assert await lines(consumer, 1) == [f"new {HOST}/a 5"]
        await write_all(database, "b")
        async with open_api(settings):
            assert await lines(consumer, 1) == [f"new {HOST}/b 5"]
            (tmp_path / "other.txt").write_text("nonsense")
            for words in (("other.txt", "token.txt"), ("cursor.txt",)):
                async with running(CONSUMER, tmp_path, api.base, *words) as refused, asyncio.timeout(30):
                    assert await refused.wait() == 1


def test_the_consumer_has_at_most_twenty_lines() -> None:
    written = [line for line in CONSUMER.splitlines()[1:] if line.strip()]
    assert len(written) <= 20


async def test_the_receiver_takes_only_signed_deliveries(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """Spec 8.5."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    async with open_harness(make_settings()) as harness:
        secret = (await harness.operations.webhooks.add(NewWebhook("hook", url))).secret
        async with running(RECEIVER, tmp_path, str(port), WEBHOOK_SECRET=secret) as receiver:
            await write_all(harness.runtime.context.database, "a")
            async with delivering(harness):
                await until_settled(harness)
            (delivery,) = (await harness.operations.webhooks.list_deliveries("hook")).deliveries
            assert delivery.status == "delivered"
            assert await lines(receiver, 1) == [f"{delivery.id} document.ready {HOST}/a"]
            forged = {"Webhook-Id": "1", "Webhook-Timestamp": "1", "Webhook-Signature": "v1,AAAA"}
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=b"{}", headers=forged) as answer,
            ):
                assert answer.status == 401


def test_the_page_names_the_limits_in_force() -> None:
    words = " ".join(TEXT.split())
    assert f"An outbox holds {changes.MOST_PENDING} deliveries" in words
    assert f"with {changes.MOST_PARKED:,} parked deliveries" in words
    assert f"failed {MOST_ATTEMPTS} times while" in words
    assert f"silent for {LONGEST_SECONDS:g} s" in words
    assert (timedelta(hours=1), 3) == (LONGEST_WAIT, FAILURES_BEFORE_A_PAUSE)
    assert f"`delivery_log_days` ({Settings().delivery_log_days})" in words
    assert f"`retry_base_seconds` ({Settings().retry_base_seconds:g})" in words


async def test_the_page_names_every_route_and_action_of_webhooks(
    database: Database, make_settings: Callable[..., Settings]
) -> None:
    async with open_api(make_settings()) as api:
        _, described = await api.get("/openapi.json")
    actions = {path.rpartition("/")[2] for path in described["paths"] if path.startswith("/webhooks/{name}/")}
    assert actions == {"enable", "disable", "test", "deliveries", "retry", "dismiss"}
    assert all(f"webhook {action}" in TEXT or f"`{action} NAME" in TEXT for action in actions)
    named = set(re.findall(r"`(?:GET|POST|DELETE) (/\w+)", TEXT))
    assert {"/changes", "/documents", "/webhooks"} == named <= {f"/{path.split('/')[1]}" for path in described["paths"]}
