"""`headwater watch` and `/watches` as users have them (spec 11.2)."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from headwater.db.pool import Database
from tests.api import TOKEN, open_api
from tests.harness import AppHarness
from tests.program import headwater
from tests.server import Answer, Site, page

PAGE = "http://news.test/a"


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `headwater ...` with the database of the test."""
    return lambda *words: headwater(*words, cwd=tmp_path, database_url=database_url, data_dir=tmp_path / "data")


async def test_a_page_is_watched_shown_and_listed_by_commands(
    site: Site, harness: AppHarness, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    site.answers[PAGE] = Answer(page("floods"), headers={"Content-Type": "text/html"})
    assert "No page" in run("watch").stdout
    watched = run("watch", PAGE, "--every", "6h")
    assert "every 6h" in watched.stdout
    assert "headwater up" in watched.stderr  # no process fetches
    await harness.work()
    shown = json.loads(run("watch", PAGE, "--bounds", "2h to 7d", "--json").stdout)
    assert (shown["policy"], shown["is_own"], shown["status"]) == ("adaptive 2h to 7d", True, "fetched")
    assert shown["next_at"]
    (listed,) = json.loads(run("watch", "--json").stdout)["watches"]
    assert listed == shown
    assert PAGE in run("watch").stdout
    why = json.loads(run("why", PAGE, "--json").stdout)
    assert (why["watch"], why["next_at"]) == (shown, shown["next_at"])
    assert "adaptive 2h to 7d" in run("why", PAGE).stdout
    assert json.loads(run("watch", PAGE, "--never", "--json").stdout)["next_at"] is None
    back = json.loads(run("watch", PAGE, "--as-source", "--json").stdout)
    assert (back["policy"], back["is_own"], back["next_at"]) == ("never", False, None)
    assert json.loads(run("watch", "--json").stdout) == {"watches": [], "next": None}


async def test_a_source_is_given_a_policy_by_a_command(
    harness: AppHarness, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    await harness.operations.sources.create("mine", "manual", {})
    assert run("source", "edit", "mine", "--set", "refetch=adaptive").returncode == 0
    shown = run("source", "show", "mine").stdout.split()
    assert shown[shown.index("refetch") + 1] == "adaptive"


@pytest.mark.parametrize(
    "words",
    [("--every", "6h"), (PAGE, "--every", "6h", "--never"), (PAGE, "--every", "soon"), ("ftp://news.test/", "--never")],
)
def test_a_wrong_command_is_one_line(
    words: tuple[str, ...], database: Database, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    del database
    answer = run("watch", *words)
    assert (answer.returncode, answer.stdout, len(answer.stderr.splitlines())) == (2, "", 1), answer.stderr


def test_a_first_command_can_watch_a_page(tmp_path: Path) -> None:
    """It writes, so it makes the database, as `frontier submit` does."""
    data = tmp_path / "data"
    assert headwater("watch", PAGE, "--as-source", cwd=tmp_path, data_dir=data).returncode == 2
    assert not data.exists()
    answer = headwater("watch", PAGE, "--every", "6h", "--json", cwd=tmp_path, data_dir=data)
    assert (answer.returncode, json.loads(answer.stdout)["policy"]) == (0, "every 6h")
    listed = headwater("frontier", "list", "--json", cwd=tmp_path, data_dir=data)
    assert [line["url"] for line in json.loads(listed.stdout)["urls"]] == [PAGE]


async def test_a_page_is_watched_listed_and_left_by_the_api(
    make_settings: Callable[..., Settings], database: Database
) -> None:
    del database
    async with open_api(make_settings(api_token=TOKEN)) as api:
        body = {"url": PAGE, "policy": "every 6h"}
        assert (await api.request("PUT", "/watches", body, None))[0] == 401
        status, watch = await api.request("PUT", "/watches", body)
        assert (status, watch["url"], watch["policy"], watch["source"]) == (200, PAGE, "every 6h", "manual")
        assert await api.get("/watches") == (200, {"watches": [watch], "next": None})
        status, left = await api.request("DELETE", f"/watches?url={PAGE}")
        assert (status, left["policy"], left["is_own"]) == (200, "never", False)
        assert await api.get("/watches") == (200, {"watches": [], "next": None})
        for method, path, request, status, reason in (
            ("PUT", "/watches", {**body, "policy": "often"}, 422, "bad_request"),
            ("PUT", "/watches", {**body, "url": "ftp://a.test/"}, 422, "invalid_url"),
            ("PUT", "/watches", {**body, "source": "none"}, 404, "unknown_source"),
            ("DELETE", "/watches?url=http://other.test/", None, 404, "unknown_url"),
        ):
            answered, error = await api.request(method, path, request)
            assert (answered, error["error"]["reason"]) == (status, reason)
