"""No log contains a secret (issue 21)."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from headwater.core.settings import Settings
from tests.api import TOKEN, Api
from tests.program import address_of, forked, program_settings
from tests.server import Site, rss

KEY = "KeyOfApiDataGov0123456789abcdefghijklmnop"
PASSWORD = "password-of-a-page"
SERVICE, MAIL = "secret-of-a-service", "password-of-mail"
WRONG = "a-wrong-token-9876543210-zyxwvutsrq"
FEED = "http://news.test/feed"


async def test_the_log_of_a_whole_run_contains_no_secret(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """With debug messages: tokens, keys, passwords, the secrets of receivers and feeds, and session cookies."""
    site.answers[FEED] = rss("http://news.test/a")
    settings = make_settings(connect_to=(*site.connect_to, site.connect_to[0].replace("*.test", "*.gov")))
    given = program_settings(settings) | {
        "api_token": TOKEN,
        "api_data_gov_key": KEY,
        "listen_port": 0,
        "smtp_url": f"smtp://me:{MAIL}@127.0.0.1:9",
        "log_level": "debug",
        "poll_check_seconds": 0.05,
    }
    secrets = {"token": TOKEN, "key": KEY, "password": PASSWORD, "wrong token": WRONG, "service": SERVICE, "mail": MAIL}
    secrets["database"] = urlsplit(settings.database_url).password or "no password"
    with forked("up", cwd=tmp_path, **given) as program:
        address = await asyncio.to_thread(address_of, program)
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            api = Api(session, address)
            secrets["named token"] = (await api.post("/tokens", {"name": "reader"}))[1]["token"]
            hook = {"name": "hook", "url": "http://news.test/hook"}
            secrets["webhook"] = (await api.post("/webhooks", hook))[1]["secret"]
            await api.post("/webhooks/hook/test", None)
            await api.post("/saved-searches/rivers", {"words": "river"})
            channel = {"name": "phone", "address": f"json://user:{SERVICE}@127.0.0.1:9/{SERVICE}", "search": "rivers"}
            assert (await api.post("/channels", channel))[0] == 201
            mail = {"name": "inbox", "address": "me@example.org", "search": "rivers"}
            assert (await api.post("/channels", mail))[0] == 201
            for name in ("phone", "inbox"):
                status, tested = await api.post(f"/webhooks/{name}/test", None)
                assert (status, tested["delivered"]) == (200, False)
                assert SERVICE not in str(tested) + str(await api.get("/webhooks"))
            address_of_feed = {"name": "reader", "kind": "saved", "value": "rivers"}
            secrets["feed"] = (await api.post("/feed-addresses", address_of_feed))[1]["path"].split("/")[-1][:-5]
            assert (await api.get(f"/feeds/secret/{secrets['feed']}.json"))[0] == 200
            await session.post(address + "/ui/sign-in", data={"token": TOKEN}, headers={"Origin": address})
            secrets |= {cookie.key: cookie.value for cookie in jar if "session" in cookie.key}
            for token in (WRONG, secrets["named token"]):
                assert (await api.post("/sources", {"url": FEED}, token))[0] in (401, 403)
            await api.post("/frontier/urls", {"urls": [f"http://user:{PASSWORD}@news.test/x"]})
            assert (await api.post("/sources", {"url": FEED}))[0] == 201
            assert (await api.post("/sources", {"kind": "crs_reports", "name": "crs"}))[0] == 201
            _, synced = await api.post("/scraping/crs/sync", {})  # it fails: the site has no certificate
            assert synced["error"]["reason"] == "network"
            assert KEY not in str(synced)
            assert KEY not in str(await api.get("/sources/crs"))
            assert (await api.get(f"/why?url=http://user:{PASSWORD}@news.test/x"))[0] < 500
        program.send_signal(signal.SIGTERM)
        output, log = await asyncio.to_thread(program.communicate)
    assert len(secrets) == 11
    assert "started" in log
    assert [name for name, secret in secrets.items() if secret in output + log] == []
