"""The commands of saved searches, channels, feed addresses and alarms (spec 8.2, 11.11)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.core.settings import Settings
from tests.mail_server import MailServer
from tests.program import headwater, program_settings

Run = Callable[..., Any]


@pytest.fixture
def run(make_settings: Callable[..., Settings], tmp_path: Path) -> Run:
    """Runs a command to its end, and returns its exit code and its output: the JSON, if it is asked for."""
    given = program_settings(make_settings()) | {"smtp_url": "smtp://127.0.0.1:9"}

    def run_command(*words: str) -> tuple[int, Any]:
        ended = headwater(*words, cwd=tmp_path, **given)
        text = ended.stdout + ended.stderr
        return ended.returncode, json.loads(ended.stdout) if "--json" in words and ended.returncode == 0 else text

    return run_command


def test_saved_searches_and_their_channels(run: Run) -> None:
    assert run("saved-search", "add", "floods", "flood -insurance", "--language", "en")[0] == 0
    code, text = run("saved-search", "add", "floods", "flood")
    assert (code, "already a saved search floods" in text) == (2, True)
    assert run("saved-search", "change", "floods", "title:flood", "--json")[1]["language"] is None
    options = ("--search", "floods", "--daily-at", "7", "--timezone", "Europe/London", "--quiet", "22-6", "--json")
    _, added = run("channel", "add", "inbox", "me@example.org", *options)
    shown = {name: added[name] for name in ("kind", "search", "digest_hour", "timezone", "quiet_from", "quiet_to")}
    assert list(shown.values()) == ["email", "floods", 7, "Europe/London", 22, 6]
    for words in (("--search", "floods", "--quiet", "22"), ("--search", "none"), ()):
        assert run("channel", "add", "other", "me@example.org", *words)[0] == 2
    _, text = run("channel", "list")
    assert "digests daily at 7, quiet from 22 to 6 (Europe/London); the saved search floods; enabled" in text
    assert run("channel", "test", "inbox")[0] == 1
    assert run("channel", "add", "ops", "json://127.0.0.1:9/secret", "--alarms")[0] == 0
    text = run("channel", "show", "ops")[1]
    assert ("secret" in text, "digests" in text, "alarms (" in text) == (False, False, True)
    assert run("channel", "remove", "ops", "--yes")[0] == 0
    assert run("saved-search", "remove", "floods", "--yes")[0] == 0
    assert run("channel", "list", "--json")[1] == {"webhooks": []}
    assert run("saved-search", "list", "--json")[1] == {"saved_searches": []}


async def test_a_test_mail_has_no_status_of_http(make_settings: Callable[..., Settings], tmp_path: Path) -> None:
    async with MailServer() as server:
        given = program_settings(make_settings()) | {"smtp_url": f"smtp+plain://127.0.0.1:{server.port}"}
        for words in (("add", "ops", "ops@example.org", "--alarms"), ("test", "ops")):
            ended = await asyncio.to_thread(headwater, "channel", *words, cwd=tmp_path, **given)
            assert (ended.returncode, "None" in ended.stdout) == (0, False)
        assert [mail["To"] for mail in server.accepted] == ["ops@example.org"]


def test_feed_addresses_and_alarms(run: Run) -> None:
    _, added = run("feed-address", "add", "phone", "--search", "flood", "--full", "--json")
    assert (added["kind"], added["with_text"], added["path"][:14]) == ("search", True, "/feeds/secret/")
    assert run("feed-address", "add", "other", "--search", "flood", "--day", "today")[0] == 2
    code, text = run("feed-address", "list")
    assert (code, "search flood, whole texts, never used" in text, added["path"] in text) == (0, True, False)
    assert run("feed-address", "remove", "phone", "--yes")[0] == 0
    assert run("feed-address", "remove", "phone", "--yes")[0] == 2
    assert run("alarm", "list", "--json") == (0, {"alarms": []})
    assert "There are no alarms." in run("alarm", "list", "--open")[1]
