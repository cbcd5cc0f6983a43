"""Golden pairs: a test runs a kind on recorded answers and compares the items with the expected ones.

A pair is a folder with `run.json` (the settings, the state, the time, and the recorded answers with their body files)
and `expected.json` (the items, and the state afterwards).
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
from headwater.sources.kind import Kind, check_item, refuse_shared_paths
from headwater.sources.registry import read_settings
from headwater.sources.run import Http, Page, Run, make_status_error

T = TypeVar("T")

ACCEPT = "HEADWATER_ACCEPT_GOLDEN"
_OPTIONAL_FIELDS = ("undated", "rule", "is_certain", "lookup")  # left out where they have their default
_NO_PAIR = """\
{kind} has no golden pair: there is no run.json in {folder} or below it. Write one that names a recorded answer, such as
  {{"now": "2026-01-15T12:00:00Z", "settings": {{"list_url": "https://api.example.org/records.json"}},
   "exchanges": [{{"url": "https://api.example.org/records.json", "body": "records.json"}}]}}
Put the body of the answer into records.json in the same folder, and run the test with {accept}=1. It writes
expected.json. Check that file before you trust it. docs/sources.md explains the formats."""


class RecordedAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """One recorded answer."""

    url: str
    body: str | None = None  # the name of its file; None: it is empty
    status: int = 200
    headers: dict[str, str] = {}


class Recording(msgspec.Struct, forbid_unknown_fields=True):
    """The input of a golden pair."""

    now: datetime
    method: Method = Method.FEED
    since: datetime | None = None
    day: date | None = None  # for a dated kind
    settings: dict[str, Any] = {}
    state: dict[str, Any] = {}
    exchanges: list[RecordedAnswer] = []


class _InProcess:
    """Replaces the sandbox: recorded bytes are trusted."""

    async def run(self, function: Callable[..., T], *args: Any, returns: type[T], seconds: float | None = None) -> T:
        del returns, seconds
        return function(*args)


class _Recorded:
    """Replaces the HTTP client. Each address has its recorded answers, in their order."""

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
        """Return at once: recorded answers do not change."""


async def replay(kind: type[Kind], folder: Path) -> Mapping[str, Any]:
    """Run a kind on the recording of a pair. Return the value that must equal `expected.json`."""
    recording = msgspec.json.decode((folder / "run.json").read_bytes(), type=Recording)
    configured = read_settings(kind, recording.settings)
    state = dict(recording.state)
    http = cast("Http", _Recorded(folder, recording))
    run = Run(http, state, recording.now, recording.method, recording.since, day=recording.day)
    result: dict[str, Any] = {"items": [], "state": state}
    paths: list[tuple[Item, str | None]] = []
    async for found in configured.discover(run):
        if isinstance(found, DiscoveredUrl):
            values = found._asdict()
            if found.found_on is None:
                del values["found_on"]
            result.setdefault("urls", []).append(values)
        else:
            paths.append((found, check_item(folder.name, configured, found)))
            result["items"].append(_item_json(found, paths[-1][1]))
    refuse_shared_paths(folder.name, paths)
    check_state(folder.name, state)
    if run.learned:
        result["learned"] = run.learned
    plain: Mapping[str, Any] = json.loads(json.dumps(result, default=lambda moment: moment.isoformat()))
    return plain


def _item_json(item: Item, subpath: str | None) -> Mapping[str, Any]:
    values, defaults = asdict(item), asdict(Item("", ""))
    for name in _OPTIONAL_FIELDS:
        if values[name] == defaults[name]:
            del values[name]
    return values | {"subpath": subpath}


async def check(kind: type[Kind], folder: Path) -> None:
    """Check every golden pair in a folder or below it. Raises AssertionError with the difference.

    A kind without a pair fails too. With HEADWATER_ACCEPT_GOLDEN=1 in the environment, the result is written to
    `expected.json` instead. The recorded input is never written to.
    """
    pairs = sorted(path.parent for path in folder.glob("**/run.json"))  # noqa: ASYNC240 -- only tests run this
    if not pairs:
        raise AssertionError(_NO_PAIR.format(kind=kind.__name__, folder=folder, accept=ACCEPT))
    for pair in pairs:
        _compare(pair, await replay(kind, pair))


def _compare(pair: Path, found: Mapping[str, Any]) -> None:
    path = pair / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if found == expected:
        return
    if os.environ.get(ACCEPT) == "1":
        path.write_text("\n".join([*_lines(found), ""]), encoding="utf-8")
        return
    diff = difflib.unified_diff(_lines(expected), _lines(found), f"{path} (expected)", "found", lineterm="")
    difference = "\n".join(diff) if expected is not None else f"There is no {path} yet."
    raise AssertionError(
        f"{pair.name} differs from what is expected.\n{difference}\n"
        f"If the result is right, run the test with {ACCEPT}=1, which writes it to expected.json."
    )


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).splitlines()
