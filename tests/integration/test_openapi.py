"""The whole API, asked from its own description with values that no client sends by mistake (issue 21)."""

import asyncio
import http.client
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.access.operations import TokenCheck
from headwater.api import make_app
from headwater.app.operations import Operations
from headwater.core.access import FailureLimit
from headwater.core.settings import Settings
from tests.api import TOKEN, open_api
from tests.harness import open_harness
from tests.program import address_of, forked, program_settings
from tests.server import Answer, Site, page, rss

SECONDS = 40
FEED = "http://news.test/feed"
# 422 is the answer to a value of the right type that cannot be used, such as an empty name.
CONFIGURATION = (
    "[checks]\npositive_data_acceptance.expected-statuses = ['2xx', '3xx', 401, 403, 404, 409, 422, 429, '5xx']\n"
)
HOSTILE = [
    *("", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "\uffff", "\u202e", "🌊" * 60, "%", "%00", "x" * 3000, "\r\n"),
    *("' OR 1=1 --", "a & | ! ( : * <->", '"', '"""', "-", "- -", "or", "NaN", "null", "None", "true", "[]", "{}"),
    *("0", "-1", "1e400", "0.5", "9" * 30, str(2**31), str(2**63), str(2**63 - 1), str(-(2**63)), "\u0663", "\uff11"),
    *("0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2026-02-30", "2026-03-29T25:00", "2026-W13", "-1-1-1"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00", "2026-03-29T02:30:00+99:99", "infinity"),
    *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-03-29T01:30Z[Europe/Berlin]", "now", "epoch"),
    *(
        "2026-01-01T00:00:00+00:00_1",
        "2026-01-01T00:00:00+00:00_" + "9" * 25,
        "_",
        "1_1",
        "eyJhIjoxfQ==",
        "AAAA",
        "v1.",
    ),
    *("http://[::1", "http://a:99999/", "http://\ud800/", "http://x/\0", "//", "http:///", "news.test", "example..org"),
]
# The values that were found to break something, and one of each sort.
WORST = ["\0", "\ud800", "x" * 3000, "a & | ! ( : * <->", "9" * 30, "AAAA", "2026-01-01T00:00:00+00:00_" + "9" * 25]
WORST += ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"]
hostile_text = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=50)
numbers = st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**70), 10**30]) | st.integers()
# These send requests to other hosts.
OUTWARD = re.compile(r"/sources/(discover|test)|/webhooks/.*/test|/scraping/.*/sync")


@pytest.fixture
async def filled(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with two documents."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    for name in ("a", "b"):
        site.answers[f"http://news.test/{name}"] = Answer(page(f"river {name}"), headers={"Content-Type": "text/html"})
    made = make_settings(connect_to=site.connect_to, api_token=TOKEN, allowed_hosts=("headwater.example.org",))
    async with open_harness(made) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
    return made


async def test_schemathesis_finds_no_failure_with_all_checks(filled: Settings, tmp_path: Path) -> None:
    """Issue 21."""

    def make(operations: Operations) -> FastAPI:
        assert isinstance(operations.tokens, TokenCheck)
        operations.tokens._failures = FailureLimit(of_peer=10**6, of_all=10**6)  # wrong tokens are a part of the checks
        return make_app(operations)

    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    async with open_api(filled, make) as api:
        program = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).parent / "schemathesis"),
            *("run", f"{api.base}/openapi.json", "--checks", "all", "--continue-on-failure"),
            *("--max-time", str(SECONDS), "--header", f"Authorization: Bearer {TOKEN}"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await program.communicate()
    assert program.returncode == 0, output.decode()


class Client:
    """Sends requests to a program over one connection, and judges the answers."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
        self.failed: list[tuple[str, str, Any, int]] = []
        self._headers = {"Authorization": f"Bearer {TOKEN}"}
        described = self.ask("GET", "/openapi.json")
        self.schemas = described["components"]["schemas"]
        self.operations = [
            (method.upper(), path, call)
            for path, calls in described["paths"].items()
            for method, call in calls.items()
            if not OUTWARD.search(path)
        ]

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        """Send a request. Its answer must be no 5xx but 503, which reports a busy part."""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        self._connection.request(method, target, json.dumps(body) if body is not None else None, headers)
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= 500 and response.status != 503:
            self.failed.append((method, target, body, response.status))
            self._connection.close()  # the server closes it too
        return json.loads(text) if response.headers.get_content_type() == "application/json" else text

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def draw_request(self, data: st.DataObject) -> tuple[str, str, Any]:
        """Draw an operation and hostile values of all its parts."""
        method, path, call = data.draw(st.sampled_from(self.operations))
        query = []
        for parameter in call.get("parameters", []):
            value = quote(data.draw(hostile_text), safe="", errors="surrogatepass")
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", value or "%00")
            elif parameter.get("required") or data.draw(st.booleans()):
                query.append(f"{parameter['name']}={value}")
        content = call.get("requestBody", {}).get("content", {}).get("application/json")
        body = self._draw_value(data, content["schema"]) if content else None
        return method, path + ("?" + "&".join(query) if query else ""), body

    def _draw_value(self, data: st.DataObject, schema: dict[str, Any]) -> Any:
        if "$ref" in schema:
            return self._draw_value(data, self.schemas[schema["$ref"].rpartition("/")[2]])
        if choices := schema.get("anyOf"):
            return self._draw_value(data, data.draw(st.sampled_from(choices)))
        if "enum" in schema:
            return data.draw(st.sampled_from(schema["enum"]))
        match schema.get("type"):
            case "object" if "properties" in schema:
                required = schema.get("required", [])
                names = [name for name in schema["properties"] if name in required or data.draw(st.booleans())]
                return {name: self._draw_value(data, schema["properties"][name]) for name in names}
            case "object":
                return data.draw(st.dictionaries(hostile_text, hostile_text | numbers | st.none(), max_size=3))
            case "array":
                return [self._draw_value(data, schema["items"]) for _ in range(data.draw(st.integers(0, 3)))]
            case "integer":
                return data.draw(numbers)
            case "number":
                return data.draw(numbers | st.sampled_from([0.5, 1e308, -0.0]))
            case "boolean":
                return data.draw(st.booleans())
            case "null":
                return None
        return data.draw(hostile_text)


@pytest.fixture
def client(filled: Settings, tmp_path: Path) -> Iterator[Client]:
    given = program_settings(filled) | {"api_token": TOKEN, "listen_port": 0}
    with forked("up", cwd=tmp_path, **given) as program:
        client = Client(address_of(program))
        yield client
        client.close()
        program.send_signal(signal.SIGTERM)
        _, log = program.communicate()
    assert "Traceback" not in log


QUIET = settings(
    max_examples=150, deadline=timedelta(seconds=10), suppress_health_check=list(HealthCheck), database=None
)


def test_no_value_of_any_parameter_or_field_is_a_server_error(client: Client) -> None:
    """Issue 21: for each string, number and date."""

    @QUIET
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        client.ask(*client.draw_request(data))
        assert client.failed == []

    ask()


def test_each_text_parameter_answers_the_worst_values(client: Client) -> None:
    """Issue 21: each parameter of each route that reads."""
    for method, path, call in client.operations:
        for parameter in call.get("parameters", []):
            if method != "GET" or '"string"' not in json.dumps(parameter["schema"]) or "enum" in parameter["schema"]:
                continue
            for value in WORST:
                text = quote(value, safe="", errors="surrogatepass")
                if parameter["in"] == "path":
                    client.ask("GET", re.sub("{.*?}", text, path))
                else:
                    required = "&q=river" if path == "/search" and parameter["name"] != "q" else ""
                    client.ask("GET", re.sub("{.*?}", "1", path) + f"?{parameter['name']}={text}{required}")
    assert client.failed == []
