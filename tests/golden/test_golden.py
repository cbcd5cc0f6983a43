"""Every kind of Headwater has a golden pair, and each pair has the expected result (spec 1.1)."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater import Item, Kind, Run
from headwater.core.errors import HeadwaterError
from headwater.sources import golden
from headwater.sources.registry import get_kinds

FOLDER = Path(__file__).parent
PAIRS = sorted(path.parent for path in FOLDER.glob("*/*/run.json"))
OURS = {name: kind for name, kind in get_kinds().items() if kind.__module__.startswith("headwater.")}


@pytest.mark.parametrize("name", OURS)
def test_every_kind_has_a_golden_pair(name: str) -> None:
    assert any(pair.parent.name == name for pair in PAIRS), (
        f"write a golden pair in tests/golden/{name}/<what it shows>/"
    )


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.parent.name}-{pair.name}")
async def test_a_golden_pair_has_the_expected_result(pair: Path) -> None:
    await golden.check(OURS[pair.parent.name], pair)


class PairKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Yields the records of a list, and remembers a given value."""

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        page = await run.http.get("http://a.test/list")
        for record in await page.json():
            yield Item(url=record["url"], title=record["title"], published_at=run.now)
        if "seen_at" in run.state:
            run.state["seen_at"] = run.now


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A golden pair with another result than its kind gives."""
    monkeypatch.delenv(golden.ACCEPT, raising=False)
    folder = tmp_path / "first"
    folder.mkdir()
    exchange = {"url": "http://a.test/list", "body": "list.json"}
    (folder / "run.json").write_text(json.dumps({"now": "2026-01-15T12:00:00Z", "exchanges": [exchange]}))
    records = [{"url": f"http://a.test/{number}", "title": f"Straße {number}"} for number in range(100)]
    (folder / "list.json").write_text(json.dumps(records))
    items = [
        {
            **record,
            "published_at": "2026-01-15T12:00:00+00:00",
            "updated_at": None,
            "tags": {},
            "raw": {},
            "subpath": None,
        }
        for record in records
    ]
    items[7]["title"] = "Avenue 7"
    (folder / "expected.json").write_text(json.dumps({"items": items, "state": {}}))
    return folder


async def test_a_different_result_is_shown_with_the_lines_that_differ(pair: Path) -> None:
    with pytest.raises(AssertionError) as failed:
        await golden.check(PairKind, pair)
    lines = str(failed.value).splitlines()
    assert lines[0] == "first differs from what is expected."
    assert lines[1:3] == [f"--- {pair / 'expected.json'} (expected)", "+++ found"]
    assert [line for line in lines[3:] if line[0] in "+-"] == [
        '-      "title": "Avenue 7",',
        '+      "title": "Straße 7",',
    ]
    assert len(lines) < 20
    assert lines[-1].startswith("If the result is right, run the test with HEADWATER_ACCEPT_GOLDEN=1")


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_result_is_accepted_on_request(is_there: bool, pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded input stays unchanged."""
    if not is_there:
        (pair / "expected.json").unlink()
        with pytest.raises(AssertionError, match=r"There is no .*expected.json yet"):
            await golden.check(PairKind, pair)
    recorded = {name: (pair / name).read_bytes() for name in ("run.json", "list.json")}
    monkeypatch.setenv(golden.ACCEPT, "1")
    await golden.check(PairKind, pair)
    monkeypatch.delenv(golden.ACCEPT)
    await golden.check(PairKind, pair)
    assert "Straße 7" in (pair / "expected.json").read_text(encoding="utf-8")
    assert {name: (pair / name).read_bytes() for name in recorded} == recorded
    assert sorted(os.listdir(pair)) == ["expected.json", "list.json", "run.json"]


async def test_a_kind_without_a_pair_fails_with_an_example(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AssertionError, match=r"^PairKind has no golden pair: there is no run.json in .*Write one"):
            await golden.check(PairKind, folder)


async def test_every_pair_below_a_folder_is_checked(pair: Path) -> None:
    with pytest.raises(AssertionError, match="first differs from what is expected"):
        await golden.check(PairKind, pair.parent)


async def test_a_state_that_cannot_be_stored_fails(pair: Path) -> None:
    recording = json.loads((pair / "run.json").read_text()) | {"state": {"seen_at": None}}
    (pair / "run.json").write_text(json.dumps(recording))
    with pytest.raises(HeadwaterError, match=r"run.state\['seen_at'\] is a datetime"):
        await golden.check(PairKind, pair)
