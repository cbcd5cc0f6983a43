"""Access to the API: tokens with scopes, host names, origins and headers (spec 8.1, 11.8)."""

import asyncio
import json
import re
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from headwater.access.operations import Scope, TokenCheck, TokenOperations
from headwater.api import make_app
from headwater.api.access import get_needed_scope, is_reading_free
from headwater.app.operations import Operations
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.context import DatabaseContext, open_database_context
from headwater.web import make_app as make_pages_app
from tests.api import TOKEN, Api, open_api
from tests.program import headwater
from tests.refusals import refused
from tests.waiting import until

NAME = "headwater.example.org"
# Each route of the API with the scope that it needs. A new route needs a line here.
ACCESS = """
GET /alarms read
GET /changes read
POST /channels write
GET /daily/latest read
GET /daily/today read
GET /daily/{day} read
GET /daily/{day}/completeness read
GET /daily/{day}/counts read
GET /daily/{day}/missing read
GET /disk read
GET /docs read
GET /documents read
GET /documents/leads read
DELETE /documents/{document_id} admin
GET /documents/{document_id} read
GET /documents/{document_id}/diff read
GET /documents/{document_id}/markdown read
GET /documents/{document_id}/raw read
GET /documents/{document_id}/trace read
GET /feed-addresses admin
POST /feed-addresses admin
DELETE /feed-addresses/{name} admin
GET /feeds/category.{form} read
GET /feeds/day/{day}.{form} read
GET /feeds/saved/{name}.{form} read
GET /feeds/search.{form} read
GET /feeds/secret/{secret}.{form} open
GET /feeds/source/{name}.{form} read
GET /feeds/story/{document_id}.{form} read
GET /frontier/hosts read
POST /frontier/hosts/release write
GET /frontier/hosts/{host} read
POST /frontier/hosts/{host}/block write
POST /frontier/hosts/{host}/release write
POST /frontier/retry write
GET /frontier/stats read
GET /frontier/urls read
POST /frontier/urls write
GET /handoffs/{handoff_id} read
POST /handoffs/{handoff_id}/retry write
GET /health open
GET /jobs read
POST /jobs/retry write
GET /jobs/{job_id} read
POST /jobs/{job_id}/retry write
GET /metrics read
GET /openapi.json read
POST /ops/doctor admin
GET /ops/history read
POST /ops/ingest write
GET /ops/runs read
GET /ops/runs/{run_id} read
GET /ops/settings admin
GET /ops/system read
GET /ready open
GET /saved-searches read
DELETE /saved-searches/{name} write
GET /saved-searches/{name} read
POST /saved-searches/{name} write
PUT /saved-searches/{name} write
GET /scraping/{source}/handoffs read
POST /scraping/{source}/sync write
GET /search read
GET /sources read
POST /sources write
POST /sources/discover write
GET /sources/export read
POST /sources/import write
POST /sources/test write
DELETE /sources/{name} write
GET /sources/{name} read
PATCH /sources/{name} write
POST /sources/{name}/backfill write
POST /sources/{name}/disable write
POST /sources/{name}/enable write
GET /sources/{name}/history read
POST /sources/{name}/purge admin
POST /sources/{name}/sync write
GET /stories read
GET /stories/of read
GET /stories/{document_id} read
GET /stories/{document_id}/diff read
GET /tokens admin
POST /tokens admin
DELETE /tokens/{name} admin
DELETE /watches write
GET /watches read
PUT /watches write
GET /webhooks read
POST /webhooks write
DELETE /webhooks/{name} write
GET /webhooks/{name} read
GET /webhooks/{name}/deliveries read
POST /webhooks/{name}/disable write
POST /webhooks/{name}/dismiss write
POST /webhooks/{name}/enable write
POST /webhooks/{name}/retry write
POST /webhooks/{name}/test write
GET /why read
"""


@pytest.fixture
def api_settings(make_settings: Callable[..., Settings]) -> Settings:
    """Settings of an API behind a reverse proxy, so that reading needs a token."""
    return make_settings(api_token=TOKEN, allowed_hosts=(NAME,))


@pytest.fixture
async def context(make_settings: Callable[..., Settings]) -> AsyncIterator[DatabaseContext]:
    async with open_database_context(make_settings()) as opened:
        yield opened


async def ask(api: Api, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
    """Send a request with these headers. Return the status, the reason of an error, and the headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with api.session.request(method, api.base + path, headers=named) as response:
        text = await response.text()
        reason = json.loads(text)["error"]["reason"] if response.status >= 400 and text else None
        return response.status, reason, response.headers


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def list_access(app: FastAPI) -> list[str]:
    """Return the lines of the table for the routes of an app."""
    return sorted(
        f"{method} {route.path} {get_needed_scope(route, method) or 'open'}"
        for route in app.routes
        for method in (getattr(route, "methods", None) or {"GET"}) - {"HEAD"}
    )


async def make_tokens(api: Api) -> dict[str, str]:
    """Make a token of each scope."""
    return {scope: (await api.post("/tokens", {"name": f"for-{scope}", "scope": scope}))[1]["token"] for scope in Scope}


async def test_each_route_has_a_line_in_the_table_of_access_and_needs_exactly_that_scope(
    api_settings: Settings,
) -> None:
    """Spec 11.8: each route refuses a request without a token and one with a smaller scope."""
    made: list[FastAPI] = []

    def make(operations: Operations) -> FastAPI:
        made.append(make_app(operations))
        return made[0]

    async with open_api(api_settings, make) as api:
        tokens = await make_tokens(api)
        for route in made[0].routes:
            for method in getattr(route, "methods", None) or {"GET"}:
                path = re.sub(r"{\w+}", "1", route.path)
                needed = get_needed_scope(route, method)
                allowed = [name for name in Scope if needed is None or name.permits(needed)]
                assert ((await ask(api, path, method))[0] == 401) is (needed is not None), (method, route.path)
                for scope, token in tokens.items():
                    status, _, _ = await ask(api, path, method, **bearer(token))
                    assert (status == 403) is (scope not in allowed), (method, route.path, scope, status)
                    assert status not in (401, 500), (method, route.path, scope, status)
    assert list_access(made[0]) == sorted(ACCESS.split("\n")[1:-1])


async def test_openapi_shows_the_scope_of_each_operation(api: Api) -> None:
    async with api.session.get(api.base + "/openapi.json", headers=bearer(TOKEN)) as response:
        described = await response.json()
    shown = {
        f"{method.upper()} {path} {operation['x-scope'] or 'open'}": operation["security"]
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    assert set(shown) == set(ACCESS.split("\n")[1:-1]) - {"GET /docs read", "GET /openapi.json read"}
    assert all((security == []) is line.endswith(" open") for line, security in shown.items())


async def test_an_unknown_path_reveals_nothing_without_a_token(api: Api) -> None:
    assert (await ask(api, "/nothing"))[:2] == (401, Reason.TOKEN_REQUIRED)
    assert (await ask(api, "/nothing", **bearer(TOKEN)))[:2] == (404, Reason.UNKNOWN_PATH)


def test_reading_is_free_only_on_loopback_and_without_names_of_a_proxy() -> None:
    """Spec 11.8."""
    assert is_reading_free(Settings())
    assert is_reading_free(Settings(listen_host="::1"))
    assert not is_reading_free(Settings(listen_host="0.0.0.0"))
    assert not is_reading_free(Settings(listen_host="192.0.2.7"))
    assert not is_reading_free(Settings(allowed_hosts=(NAME,)))


async def test_a_request_through_a_proxy_needs_a_token_to_read(api_settings: Settings) -> None:
    """Spec 11.8: a proxy on this machine must not open the corpus to others."""
    async with open_api(replace(api_settings, allowed_hosts=())) as api:
        assert (await ask(api, "/changes"))[0] == 200
        for header in ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"):
            assert (await ask(api, "/changes", **{header: "192.0.2.7"}))[0] == 401
            assert (await ask(api, "/changes", **{header: "192.0.2.7"}, **bearer(TOKEN)))[0] == 200
            assert (await ask(api, "/health", **{header: "192.0.2.7"}))[0] == 200


async def test_a_host_name_is_allowed_if_it_is_loopback_or_a_setting_names_it(api: Api) -> None:
    """Spec 11.8: a web page must not read the corpus by DNS rebinding."""
    for name in ("localhost", "LOCALHOST:80", "localhost.", "127.8.9.1:1", "[::1]:8640", NAME, f"{NAME.upper()}:443"):
        assert (await ask(api, "/health", Host=name))[0] == 200, name
    for name in ("evil.example", "localhost.evil.example", f"x.{NAME}", "192.0.2.7", "[2001:db8::1]", "0.0.0.0"):
        assert (await ask(api, "/health", Host=name))[:2] == (421, Reason.HOST_REFUSED), name
    for name in ("", "a b", "localhost:x", "localhost:99999", "[::1", "local/host", "user@localhost", "localhost:"):
        assert (await ask(api, "/health", Host=name))[:2] == (400, Reason.BAD_REQUEST), name


async def test_a_request_without_a_host_or_with_two_is_refused(api: Api) -> None:
    port = int(api.base.rpartition(":")[2])
    for lines in (["GET /health HTTP/1.0"], ["GET /health HTTP/1.1", "Host: localhost", "Host: localhost"]):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.split()[1] == b"400"
        assert json.loads(body)["error"]["reason"] == Reason.BAD_REQUEST
        assert {b"x-content-type-options: nosniff", b"connection: close"} <= set(head.lower().split(b"\r\n"))
        writer.close()


async def test_a_body_that_makes_no_sense_ends_the_connection(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """It makes no line in the log: anyone could fill the disk."""
    port = int(api.base.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /ops/ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")
    assert (await reader.read()).count(b"HTTP/1.1 400") == 1
    writer.close()
    assert not caplog.records


async def test_a_head_request_gets_the_headers_of_the_answer_alone_and_needs_the_same_access(api: Api) -> None:
    """RFC 9110 9.3.2. A monitor asks /health so."""
    tokens = await make_tokens(api)
    for path, headers, status in (
        ("/health", {}, 200),
        ("/changes", {}, 401),
        ("/changes", bearer(tokens["read"]), 200),
        ("/ops/settings", bearer(tokens["read"]), 403),
    ):
        async with api.session.get(api.base + path, headers=headers, allow_redirects=False) as whole:
            body = await whole.read()
        async with api.session.head(api.base + path, headers=headers) as head:
            assert (head.status, await head.read()) == (whole.status, b"") == (status, b""), path
            assert head.headers.get("Content-Length") == (str(len(body)) if body else whole.headers["Content-Length"])


async def test_a_browser_cannot_write_for_a_page_of_another_site(api: Api) -> None:
    own = api.base
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": own.replace("http", "ftp")},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": f"https://{NAME}:8443"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": own},
    ):
        answered = await ask(api, "/frontier/hosts/release", "POST", **headers, **bearer(TOKEN))
        assert answered[:2] == (403, Reason.CROSS_SITE), headers
    for headers in ({}, {"Origin": own}, {"Origin": f"https://{NAME}"}, {"Sec-Fetch-Site": "same-origin"}):
        assert (await ask(api, "/frontier/hosts/release", "POST", **headers, **bearer(TOKEN)))[0] == 200, headers


async def test_each_answer_has_headers_of_security(api: Api) -> None:
    """Also those of errors and of refused hosts."""
    for path, headers, status in (
        ("/health", {}, 200),
        ("/changes", bearer(TOKEN), 200),
        ("/nothing", bearer(TOKEN), 404),
        ("/changes", {}, 401),
        ("/changes", {"Host": "evil.example"}, 421),
    ):
        answered, _, found = await ask(api, path, **headers)
        assert answered == status
        assert "default-src 'none'" in found["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in found["Content-Security-Policy"]
        assert found["X-Content-Type-Options"] == "nosniff"
        assert found["Referrer-Policy"] == "no-referrer"
        assert found["Cross-Origin-Resource-Policy"] == "same-origin"
        assert (found.get("Cache-Control") == "no-store") is ("Authorization" in headers)


async def test_an_error_of_the_program_has_the_same_headers(api_settings: Settings) -> None:
    def make(operations: Operations) -> FastAPI:
        app = make_app(operations)

        @app.get("/broken")
        async def fail() -> None:
            raise RuntimeError("a secret of the program")

        return app

    async with (
        open_api(api_settings, make) as api,
        api.session.get(api.base + "/broken", headers=bearer(TOKEN)) as response,
    ):
        assert response.status == 500
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "secret" not in await response.text()


async def test_refusals_name_the_way_in(api: Api) -> None:
    """RFC 6750, RFC 9110: 401 and 403 name the scheme, 405 the methods of all routes of the path."""
    tokens = await make_tokens(api)
    assert (await ask(api, "/changes"))[2]["WWW-Authenticate"].startswith("Bearer ")
    _, _, headers = await ask(api, "/tokens", **bearer(tokens["read"]))
    assert 'error="insufficient_scope"' in headers["WWW-Authenticate"]
    status, reason, headers = await ask(api, "/sources/1", "PUT", **bearer(TOKEN))
    assert (status, reason, headers["Allow"]) == (405, Reason.METHOD_REFUSED, "DELETE, GET, HEAD, PATCH")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/documents/leads?id=1", "GET, HEAD"),
        ("GET", "/jobs/retry", "POST"),
        ("OPTIONS", "/jobs/retry", "POST"),
    ],
)
async def test_a_word_in_the_place_of_an_id_is_another_path(api: Api, method: str, path: str, allowed: str) -> None:
    status, reason, headers = await ask(api, path, method, **bearer(TOKEN))
    assert (status, reason, headers["Allow"]) == (405, Reason.METHOD_REFUSED, allowed)
    assert (await ask(api, "/jobs/word", **bearer(TOKEN)))[:2] == (404, Reason.UNKNOWN_PATH)


async def test_a_405_names_the_methods_of_each_path_of_the_description_and_no_others(api: Api) -> None:
    """RFC 9110 15.5.6: `/frontier/hosts/release` is not the host `release`."""
    async with api.session.get(api.base + "/openapi.json", headers=bearer(TOKEN)) as response:
        described = await response.json()
    for path, operations in described["paths"].items():
        status, _, headers = await ask(api, re.sub(r"{\w+}", "1", path), "TRACE", **bearer(TOKEN))
        methods = {method.upper() for method in operations}
        allowed = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
        assert (status, headers.get("Allow")) == (405, allowed), path


async def test_an_error_repeats_text_of_the_request_that_is_no_unicode(api: Api) -> None:
    status, answer = await api.post("/sources", {"kind": "\ud800", "url": "http://news.test/"})
    assert (status, answer["error"]["reason"]) == (422, Reason.BAD_REQUEST)


@pytest.mark.parametrize("since", [0, "0", 1e9, "2026-03-29T00:00:00Z"])
async def test_a_day_of_a_request_is_no_number_and_no_moment(api: Api, since: object) -> None:
    status, answer = await api.post("/sources/news.test/backfill", {"since": since})
    assert (status, answer["error"]["reason"]) == (422, Reason.BAD_REQUEST)


async def test_a_flood_of_wrong_tokens_gets_429_and_locks_no_valid_token_out(api: Api) -> None:
    for number in range(20):
        assert (await ask(api, "/changes", **bearer(f"wrong-{number}")))[:2] == (401, Reason.TOKEN_REQUIRED)
    status, reason, headers = await ask(api, "/changes", **bearer("wrong"))
    assert (status, reason, headers["Retry-After"]) == (429, Reason.TOKEN_FAILURES, "60")
    tokens = await make_tokens(api)
    for token in (TOKEN, *tokens.values()):
        assert (await ask(api, "/changes", **bearer(token)))[0] == 200
    assert (await ask(api, "/changes"))[0] == 401


async def test_a_token_holds_until_it_is_removed(api: Api) -> None:
    token = (await make_tokens(api))["read"]
    assert (await ask(api, "/changes", **bearer(token)))[0] == 200
    assert await api.request("DELETE", "/tokens/for-read") == (200, {"name": "for-read"})
    assert (await ask(api, "/changes", **bearer(token)))[:2] == (401, Reason.TOKEN_REQUIRED)
    status, answer = await api.request("DELETE", "/tokens/for-read")
    assert (status, answer["error"]["reason"]) == (404, Reason.UNKNOWN_TOKEN)


async def test_another_process_sees_a_token_and_its_end_after_a_second_at_most(context: DatabaseContext) -> None:
    now = 0.0
    tokens, check = TokenOperations(context), TokenCheck(context, lambda: now)
    with refused(Reason.TOKEN_REQUIRED):
        await check.check("x" * 40, "192.0.2.7")
    added = await tokens.add("reader", Scope.READ)
    with refused(Reason.TOKEN_REQUIRED):
        await check.check(added.token, "192.0.2.7")
    now += 1.01
    assert (await check.check(added.token, "192.0.2.7")).scope is Scope.READ
    await tokens.remove("reader")
    now += 1.01
    with refused(Reason.TOKEN_REQUIRED):
        await check.check(added.token, "192.0.2.7")


async def test_a_token_expires(context: DatabaseContext) -> None:
    check = TokenCheck(context)
    added = await check.add("reader", Scope.READ, timedelta(microseconds=1))
    await until(lambda: added.expires_at is not None and context.clock.now() > added.expires_at)
    with refused(Reason.TOKEN_REQUIRED, "reader"):
        await check.check(added.token, "192.0.2.7")


async def test_use_of_a_token_is_saved_once_a_minute(context: DatabaseContext) -> None:
    check = TokenCheck(context)
    added = await check.add("reader", Scope.READ)

    async def last_used() -> Any:
        return (await check.list_tokens()).tokens[0].last_used_at

    assert await last_used() is None
    await check.check(added.token, "192.0.2.7")
    first = await last_used()
    assert first is not None
    await check.check(added.token, "192.0.2.7")
    assert await last_used() == first


async def test_the_database_holds_no_characters_of_a_token(context: DatabaseContext) -> None:
    added = await TokenOperations(context).add("reader", Scope.READ)
    assert len(added.token) >= 32 + len("hw_")
    async with context.database.connection() as connection:
        stored = await connection.fetchval("SELECT t::text FROM api_tokens t")
    assert "reader" in stored
    assert added.token not in stored
    assert added.token.encode().hex() not in stored


@pytest.mark.parametrize("name", ["", "A", "a b", "api-token", "x" * 65, "\0", "\ud800"])
async def test_a_name_that_is_no_word_is_refused(context: DatabaseContext, name: str) -> None:
    with refused(Reason.BAD_REQUEST):
        await TokenOperations(context).add(name, Scope.READ)


async def test_two_tokens_cannot_share_a_name(context: DatabaseContext) -> None:
    await TokenOperations(context).add("reader", Scope.READ)
    with refused(Reason.TOKEN_EXISTS, "reader"):
        await TokenOperations(context).add("reader", Scope.ADMIN)


def test_commands_make_list_and_remove_tokens(tmp_path: Path, make_settings: Callable[..., Settings]) -> None:
    """Spec 8.2, 11.8."""
    settings = make_settings()
    options: dict[str, Any] = {"cwd": tmp_path, "data_dir": settings.data_dir, "database_url": settings.database_url}
    made = headwater("token", "add", "grafana", "--scope", "read", "--expires", "30d", **options)
    *_, token = made.stdout.split()
    assert re.fullmatch(r"hw_[\w-]{43}", token)
    (listed,) = json.loads(headwater("token", "list", "--json", **options).stdout)["tokens"]
    assert (listed["name"], listed["scope"], listed["last_used_at"]) == ("grafana", "read", None)
    assert listed["expires_at"] is not None
    assert token not in headwater("token", "list", **options).stdout
    assert headwater("token", "add", "grafana", "--scope", "read", **options).returncode == 2
    assert headwater("token", "remove", "grafana", "--yes", **options).returncode == 0
    assert headwater("token", "remove", "grafana", "--yes", **options).returncode == 2
    assert json.loads(headwater("token", "list", "--json", **options).stdout)["tokens"] == []


def test_a_first_token_that_is_too_short_is_refused_at_the_start(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    settings = make_settings()
    options: dict[str, Any] = {"cwd": tmp_path, "data_dir": settings.data_dir, "database_url": settings.database_url}
    for weak in ("hunter2", "a" * 64, "0123456789abcdef0123456789abcde"):
        answer = headwater("up", api_token=weak, listen_port=0, **options)
        assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
        assert "HEADWATER_API_TOKEN" in answer.stderr
        assert weak not in answer.stderr
    settings.data_dir.mkdir(exist_ok=True)
    (settings.data_dir / "api-token").write_text("hunter2\n")
    answer = headwater("up", listen_port=0, **options)
    assert answer.returncode == 2
    assert "api-token" in answer.stderr.splitlines()[-1]
    assert "hunter2" not in answer.stderr


async def test_the_first_start_makes_a_token_that_only_its_owner_can_read(api_settings: Settings) -> None:
    """Spec 8.1: it has the scope admin."""
    async with open_api(replace(api_settings, api_token="")) as api:
        path = api_settings.data_dir / "api-token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        token = path.read_text().strip()
        assert len(token) >= 32
        assert (await ask(api, "/tokens", **bearer(token)))[0] == 200


async def test_the_docs_page_describes_each_operation_without_scripts_and_other_hosts(api: Api) -> None:
    async with api.session.get(api.base + "/docs", headers=bearer(TOKEN)) as response:
        page, policy = await response.text(), response.headers["Content-Security-Policy"]
    for line in ACCESS.split("\n")[1:-1]:
        method, path, _ = line.split()
        if path not in ("/docs", "/openapi.json"):
            assert f"<b>{method}</b> {path}<" in page
    assert "<script" not in page
    assert not re.search("(src|href)=.?(https?:)?//", page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    links = set(re.findall('href="#([^"]+)"', page))
    assert links == links & set(re.findall('id="([^"]+)"', page)) != set()


async def test_pages_check_access_themselves_and_show_nothing_without_a_session(api_settings: Settings) -> None:
    """Spec 11.8: also through a proxy on this machine."""
    made: list[FastAPI] = []

    def make(operations: Operations) -> FastAPI:
        made.append(make_pages_app(operations))
        return made[-1]

    async with open_api(api_settings, make) as api:
        assert {line for line in list_access(made[0]) if line.split()[1] in ("/", "/ui")} == {
            "GET / open",
            "GET /ui open",
        }
        (mounted,) = [route for route in made[0].routes if getattr(route, "path", "") == "/ui"]
        for route in mounted.app._app.routes:
            if "GET" in getattr(route, "methods", ()) and get_needed_scope(route, "GET"):
                if route.path.startswith("/static/"):
                    continue  # the style sheet and the script are for all
                path = "/ui" + re.sub(r"{\w+}", "1", route.path)
                async with api.session.get(api.base + path, allow_redirects=False) as response:
                    assert (response.status, response.headers["Location"][:11]) == (303, "/ui/sign-in"), path
    async with open_api(replace(api_settings, allowed_hosts=()), make) as api:
        for headers, is_free in (({}, True), ({"X-Forwarded-For": "192.0.2.7"}, False)):
            async with api.session.get(api.base + "/ui/days/2026-03-29", headers=headers) as response:
                assert (response.url.path == "/ui/sign-in") is not is_free
