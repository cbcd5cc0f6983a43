"""Golden pairs: a kind is run on recorded answers, and what it yields is held against what is expected.

A pair is a folder with `run.json` (the source's settings, what it remembered, the time, and each recorded answer, with
the file its body is in) and `expected.json` (the items, and what it remembers afterwards).
"""

import difflib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from headwater.core.http import Response
from headwater.core.json_values import check_state
from headwater.core.source import DiscoveredUrl, Item, Method
from headwater.http.responses import reason_of_status
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind
from headwater.sources.registry import read_settings
from headwater.sources.run import Http, Page, Run, make_status_error
from headwater.sources.validation import check_item, refuse_shared_paths

T = TypeVar("T")

ACCEPT = "HEADWATER_ACCEPT_GOLDEN"
_NO_PAIR = """\
{kind} has no golden pair: there is no run.json in {folder} or below it. Write one that names a recorded answer, such as
  {{"now": "2026-01-15T12:00:00Z", "settings": {{"list_url": "https://api.example.org/records.json"}},
   "exchanges": [{{"url": "https://api.example.org/records.json", "body": "records.json"}}]}}
put the answer's body into records.json beside it, and run the test with {accept}=1, which writes expected.json. Read
what it says before you trust it. docs/sources.md tells more."""


class Exchange(msgspec.Struct, forbid_unknown_fields=True):
    """One recorded answer."""

    url: str
    body: str | None = None  # the file it is in; None: there is none
    status: int = 200
    headers: dict[str, str] = {}


class Recording(msgspec.Struct, forbid_unknown_fields=True):
    """The input of a golden pair."""

    now: datetime
    method: Method = Method.FEED
    since: datetime | None = None
    day: date | None = None  # for a kind of dated days
    settings: dict[str, Any] = {}
    state: dict[str, Any] = {}
    exchanges: list[Exchange] = []


class _InProcess:
    """Stands in for the sandbox: recorded bytes are our own."""

    async def run(self, function: Callable[..., T], *args: Any, returns: type[T], seconds: float | None = None) -> T:
        del returns, seconds
        return function(*args)


class _Recorded:
    """Stands in for the way out: each address has the answers that were recorded, in their order."""

    def __init__(self, folder: Path, recording: Recording) -> None:
        self._folder = folder
        self._left = list(recording.exchanges)
        self._now = recording.now

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        del headers
        for exchange in self._left:
            if exchange.url == url:
                self._left.remove(exchange)
                break
        else:
            raise LookupError(f"{self._folder.name}: no answer to {url} was recorded, or all were used")
        body = (self._folder / exchange.body).read_bytes() if exchange.body else b""
        response = Response(url, exchange.status, exchange.headers, body, self._now, 0.0)
        if reason := reason_of_status(response.status):
            raise make_status_error(response, reason)
        return Page(response, cast("Sandbox", _InProcess()))

    async def rest(self, failures: int) -> None:
        """Do not wait: recorded answers do not get better by that."""


async def replay(kind: type[Kind], folder: Path) -> dict[str, Any]:
    """Run a kind on a pair's recording; return what must equal `expected.json`."""
    recording = msgspec.json.decode((folder / "run.json").read_bytes(), type=Recording)
    configured = read_settings(kind, recording.settings)
    state = dict(recording.state)
    http = cast("Http", _Recorded(folder, recording))
    run = Run(http, state, recording.now, recording.method, recording.since, day=recording.day)
    told: dict[str, Any] = {"items": [], "state": state}
    places: list[tuple[Item, str | None]] = []
    async for found in configured.discover(run):
        if isinstance(found, DiscoveredUrl):
            told.setdefault("leads", []).append(found._asdict())
        else:
            places.append((found, check_item(folder.name, configured, found)))
            told["items"].append(_told_item(found) | {"subpath": places[-1][1]})
    refuse_shared_paths(folder.name, places)
    check_state(folder.name, state)
    if run.learned:
        told["learned"] = run.learned
    return cast("dict[str, Any]", json.loads(json.dumps(told, default=lambda odd: odd.isoformat())))


def _told_item(item: Item) -> dict[str, Any]:
    """Return an item's fields, without those that most kinds leave alone."""
    told = asdict(item)
    for name in ("undated", "rule", "is_certain"):
        if told[name] == getattr(Item("", ""), name):
            del told[name]
    return told


async def check(kind: type[Kind], folder: Path) -> None:
    """Raise AssertionError, showing what differs, unless every golden pair in a folder or below it is as expected.

    A kind without a pair fails too. With HEADWATER_ACCEPT_GOLDEN=1 in the environment what is found is written to
    `expected.json` instead, for somebody to read; what was recorded is never touched.
    """
    for pair in _pairs(kind, folder):
        _settle(pair, await replay(kind, pair))


def _pairs(kind: type[Kind], folder: Path) -> list[Path]:
    found = sorted(path.parent for path in folder.glob("**/run.json"))
    if not found:
        raise AssertionError(_NO_PAIR.format(kind=kind.__name__, folder=folder, accept=ACCEPT))
    return found


def _settle(pair: Path, found: dict[str, Any]) -> None:
    path = pair / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if found == expected:
        return
    if os.environ.get(ACCEPT) == "1":
        path.write_text("\n".join([*_lines(found), ""]), encoding="utf-8")
        return
    diff = difflib.unified_diff(_lines(expected), _lines(found), f"{path} (expected)", "found", lineterm="")
    told = "\n".join(diff) if expected is not None else f"There is no {path} yet."
    raise AssertionError(
        f"{pair.name} does not come out as expected.\n{told}\n"
        f"If what was found is right, run the test with {ACCEPT}=1: it is written to expected.json then."
    )


def _lines(told: Any) -> list[str]:
    return json.dumps(told, indent=2, ensure_ascii=False, sort_keys=True).splitlines()
