"""The page System, without JavaScript (spec 8.4, 11.13)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.access.operations import Scope
from headwater.core.settings import Settings
from tests.api import TOKEN, Api
from tests.harness import AppHarness, open_harness
from tests.integration.test_pages import check_page
from tests.pages import Reader, open_reader


@pytest.fixture
async def harness(make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(api_token=TOKEN, fetch_workers=3)) as opened:
        for number in range(30):
            await opened.operations.sources.create(f"s{number:02}", "manual", {})
        yield opened


@pytest.fixture
async def reader(harness: AppHarness) -> AsyncIterator[Reader]:
    """A browser without JavaScript, and without sign-in."""
    async with open_reader(harness.operations.settings) as opened:
        yield opened


async def test_the_system_shows_versions_and_programs_to_every_reader(reader: Reader) -> None:
    shown = await reader.get("/ui/system")
    check_page(shown)
    assert shown.texts("main .facts dt")[:3] == ["Headwater", "Python", "PostgreSQL"]
    assert not shown.tree.css("form[method=post]")
    assert "fetch_workers" not in shown.text


async def test_only_an_administrator_sees_settings_and_secrets_are_masked(reader: Reader, harness: AppHarness) -> None:
    writer = await harness.operations.tokens.add("desk", Scope.WRITE)
    await reader.sign_in(writer.token)
    assert "fetch_workers" not in (await reader.get("/ui/system")).text
    assert (await reader.submit_form("/ui/system/doctor")).status == 403
    await reader.sign_in()
    shown = await reader.get("/ui/system")
    check_page(shown)
    assert "fetch_workers" in shown.texts("td code")
    assert TOKEN not in shown.text
    lines = {line.name: line for line in await harness.operations.system.list_settings()}
    workers, token = lines["fetch_workers"], lines["api_token"]
    assert (workers.value, workers.default, workers.is_default, workers.after_restart) == ("3", "10", False, "10")
    assert (token.value, token.is_default) == ("********", False)


async def test_the_disk_use_has_pages(reader: Reader) -> None:
    first = await reader.get("/ui/system")
    second = await reader.get(first.links("[rel=next]")["Next page"])
    names = [[text for text in shown.texts("td a") if text.startswith("s")] for shown in (first, second)]
    assert [len(found) for found in names] == [25, 5]


async def test_the_doctor_reports_each_check(reader: Reader) -> None:
    await reader.sign_in()
    shown = await reader.submit_form("/ui/system/doctor")
    check_page(shown)
    assert "Settings" in shown.texts(".state-wide strong")


async def test_the_doctor_of_a_program_checks_the_settings_that_it_runs_with(
    reader: Reader, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo has settings of its own. The environment may have others, even such that cannot be used."""
    monkeypatch.setenv("HEADWATER_DATA_DIR", "/nowhere/else")
    monkeypatch.setenv("HEADWATER_DATABASE_URL", "postgresql://nobody@localhost:1/nothing")
    _, report = await Api(reader.session, reader.base).request("POST", "/ops/doctor")
    checks = {check["name"]: check for check in report["checks"]}
    assert str(harness.operations.settings.data_dir) in checks["data folder"]["found"]
    assert (checks["database"]["state"], checks["settings"]["state"]) == ("ok", "ok")
    assert "data_dir" in checks["settings"]["found"]


async def test_the_api_reports_the_system_and_only_an_administrator_reads_the_settings(reader: Reader) -> None:
    api = Api(reader.session, reader.base)
    assert (await api.get("/ops/system"))[1]["schema"] == 3
    for method, path in (("GET", "/ops/settings"), ("POST", "/ops/doctor")):
        assert (await api.request(method, path, token=None))[0] == 401
    status, listed = await api.request("GET", "/ops/settings")
    assert (status, {one["value"] for one in listed["settings"] if one["name"] == "api_token"}) == (200, {"********"})
    status, report = await api.request("POST", "/ops/doctor")
    assert (status, report["checks"][0]["name"]) == (200, "settings")
