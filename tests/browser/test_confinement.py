"""The guard also protects addresses from pages in the browser (spec 1.7, 4.3)."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from headwater.core.errors import ExchangeFailed
from headwater.core.reasons import Reason
from headwater.http.guard import AddressRefused
from tests.browser.conftest import HTML, Browsing
from tests.closed_addresses import closed_hosts
from tests.server import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "http://a.test/page"
ATTEMPTS = """
const secrets = %s, said = text => document.body.append(text + ';');
const tries = [];
for (const host of secrets) {
    const url = `http://${host}/`;
    tries.push(fetch(url, {mode: 'no-cors'}).then(() => said('reached'), () => said('refused')));
    tries.push(new Promise(done => {
        const beside = new XMLHttpRequest();
        beside.onload = () => done(said('reached'));
        beside.onerror = () => done(said('refused'));
        beside.open('GET', url.replace('http:', 'https:'));
        beside.send();
    }));
    for (const scheme of ['ws', 'wss']) tries.push(new Promise(done => {
        const line = new WebSocket(`${scheme}://${host}/`);
        line.onopen = () => done(said('reached'));
        line.onerror = () => done(said('refused'));
    }));
    for (const [tag, name] of [['iframe', 'src'], ['img', 'src'], ['script', 'src'], ['object', 'data'],
                               ['link', 'href'], ['embed', 'src'], ['video', 'src']]) {
        const made = document.createElement(tag);
        if (tag == 'link') made.rel = 'preconnect';
        made[name] = url;
        document.body.append(made);
    }
    navigator.sendBeacon(url, 'x');
    said(window.open(url) === null ? 'refused' : 'reached');
    try { new EventSource(url); new Worker(url); new SharedWorker(url); } catch (error) { said('refused'); }
    const form = document.createElement('form');
    form.action = url; form.method = 'POST'; document.body.append(form); form.submit();
}
const talk = new RTCPeerConnection({iceServers: [{urls: `stun:${secrets[0]}`}]});
talk.createDataChannel('x');
tries.push(new Promise(done => talk.onicegatheringstatechange = () => talk.iceGatheringState == 'complete' && done()));
talk.createOffer().then(offer => talk.setLocalDescription(offer));
const busy = setInterval(() => fetch('/tick'), 100);  // or the page would be taken for one that has come to rest
const quick = new Promise(done => setTimeout(done, 1500));
Promise.race([Promise.all(tries), quick]).then(() => { said('done'); clearInterval(busy); });
"""


LOADS = """
const [way, urls] = %s;
const load = url => new Promise(done => {
    const made = document.createElement(way);
    made.onload = () => done(way == 'iframe' ? 'refused' : 'reached');
    made.onerror = () => done('refused');
    made.src = url;
    document.body.append(made);
});
const ask = url => fetch(url, {mode: 'no-cors'}).then(() => 'reached', () => 'refused');
const tries = urls.map(['fetch', 'redirect'].includes(way) ? ask : load);
Promise.all(tries).then(all => document.title = [...new Set(all)] + ' ' + all.length);
"""


@dataclass
class Secret:
    """A program on this machine that no page may reach."""

    ports: dict[str, int] = field(default_factory=dict)
    callers: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All the ways to call it that come to mind."""
        spelled = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0", "[::ffff:127.0.0.1]"]
        names = [f"{name}:{self.ports['127.0.0.1']}" for name in spelled]
        return names + ([f"[::1]:{self.ports['::1']}"] if "::1" in self.ports else [])


@pytest.fixture
async def secret() -> AsyncIterator[Secret]:
    found = Secret()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.callers.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with contextlib.AsyncExitStack() as listening:
        for address in ("127.0.0.1", "::1"):
            with contextlib.suppress(OSError):  # a machine without IPv6 has no way in there
                server = await asyncio.start_server(answer, address, 0)
                found.ports[address] = server.sockets[0].getsockname()[1]
                listening.callback(server.close)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", found.ports["127.0.0.1"]))
            datagrams.setblocking(False)
            yield found
            with pytest.raises(BlockingIOError):
                datagrams.recv(1)
    assert found.callers == []


async def test_a_page_never_reaches_an_address_that_the_guard_refuses(browsing: Browsing, secret: Secret) -> None:
    """The page tries fetch, frame, script, socket, worker, window, form, preconnect and WebRTC, with several names."""
    browsing.site.answers[PAGE] = Answer(f"<body><script>{ATTEMPTS % json.dumps(secret.names)}</script>", headers=HTML)
    text = (await browsing.get(PAGE)).body.decode()
    said = text.partition("</script>")[2]
    assert "done;" in said
    assert said.count("refused;") >= 4 * len(secret.names)
    assert "reached;" not in said
    led_inwards = [request for request in browsing.admitted if request.status is None]
    assert len(led_inwards) >= len(secret.names)
    assert {type(request.error) for request in led_inwards} == {AddressRefused}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_page_at_a_refused_address_fails(scheme: str, browsing: Browsing, secret: Secret) -> None:
    for name in secret.names:
        with pytest.raises(ExchangeFailed) as caught:
            await browsing.get(f"{scheme}://{name}/")
        assert caught.value.reason is Reason.ADDRESS_REFUSED, name


async def test_no_page_opens_at_a_closed_address(browsing: Browsing) -> None:
    """Issue 21: each address of the table, as the browser's page."""
    for host in closed_hosts():
        with pytest.raises(ExchangeFailed) as caught:
            await browsing.get(f"http://{host}/")
        assert caught.value.reason is Reason.ADDRESS_REFUSED, host


@pytest.mark.parametrize("way", ["fetch", "redirect", "img", "script", "iframe"])
async def test_no_page_loads_a_part_from_a_closed_address(way: str, browsing: Browsing) -> None:
    """Issue 21: each address of the table. A page may send 100 requests, and a redirect needs two."""
    hosts = closed_hosts()
    half = len(hosts) // 2
    for some in (hosts[:half], hosts[half:]) if way == "redirect" else (hosts,):
        paths = {f"/go{number}": f"http://{host}/" for number, host in enumerate(some)}
        for path, url in paths.items():
            headers = {"Location": url, "Access-Control-Allow-Origin": "*"}
            browsing.site.answers[f"http://a.test{path}"] = Answer(status=302, headers=headers)
        urls = list(paths if way == "redirect" else paths.values())
        browsing.site.answers[PAGE] = Answer(f"<body><script>{LOADS % json.dumps([way, urls])}</script>", headers=HTML)
        browsing.admitted.clear()
        text = (await browsing.get(PAGE)).body.decode()
        assert f"<title>refused {len(some)}</title>" in text
        refused = [request for request in browsing.admitted if request.status is None]
        # Chromium itself refuses a few. Our rules for pages refuse all images and frames.
        assert all(isinstance(request.error, AddressRefused) or not request.connections for request in refused)
        if way not in ("img", "iframe"):
            assert sum(isinstance(request.error, AddressRefused) for request in refused) > 0.9 * len(some)


async def test_a_script_that_redirects_inwards_is_refused(browsing: Browsing, secret: Secret) -> None:
    browsing.site.answers[PAGE] = Answer(
        "<body><script src=/go.js></script><script>fetch('/go').catch(() => document.title = 'refused')</script>",
        headers=HTML,
    )
    for path in ("go.js", "go"):
        location = {"Location": f"http://{secret.names[0]}/", "Access-Control-Allow-Origin": "*"}
        browsing.site.answers[f"http://a.test/{path}"] = Answer(status=302, headers=location)
    assert b"<title>refused</title>" in (await browsing.get(PAGE)).body


async def test_a_page_sends_only_get_requests_to_its_host(browsing: Browsing) -> None:
    """A page opens no sockets, workers or forms and uses no other methods."""
    script = """
    new WebSocket('ws://a.test/socket'); navigator.sendBeacon('/beacon', 'x');
    navigator.serviceWorker?.register('/service.js').catch(() => 0);
    try { new Worker('/worker.js') } catch {}
    fetch('/post', {method: 'POST', body: 'x'}).catch(() => document.title = 'refused');
    for (const rel of ['prefetch', 'prerender', 'preload', 'modulepreload', 'dns-prefetch']) {
        const link = document.createElement('link');
        link.rel = rel; link.href = '/' + rel; link.as = 'image'; document.head.append(link);
    }
    const rules = document.createElement('script');
    rules.type = 'speculationrules';
    rules.text = '{"prefetch": [{"urls": ["/rules"], "eagerness": "immediate"}], "prerender": [{"urls": ["/rules2"]}]}';
    document.head.append(rules);
    """
    browsing.site.answers[PAGE] = Answer(f"<body><script>{script}</script>", headers=HTML)
    assert b"<title>refused</title>" in (await browsing.get(PAGE)).body
    assert [seen.url for seen in browsing.site.seen] == browsing.asked == [PAGE]
