"""A bot wall: it lets nobody in who does not run its script in a browser that looks like a person's."""

import hashlib
from http.cookies import CookieError, SimpleCookie

from aiohttp import web

from headwater.demo.answers import HTML, Answer, Body

_CHALLENGE = """<!doctype html>
<html lang="en">
<head><title>Just a moment...</title></head>
<body>
<p id="challenge">Checking your browser before you go on.</p>
<script>
if (!navigator.webdriver && navigator.languages.length) {
    let proof = 7;
    for (const mark of "$TOKEN" + navigator.userAgent) proof = (proof * 31 + mark.codePointAt(0)) % 1000000007;
    document.cookie = `proof=${proof}; path=/`;
    location.reload();
}
</script>
</body>
</html>
"""


def walled(body: Body) -> Answer:
    """Answer with a challenge under 200 until the visitor brings the cookie that its script makes."""
    token = hashlib.sha256(body.content).hexdigest()[:16]
    challenge = _CHALLENGE.replace("$TOKEN", token).encode()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        proved = _cookie(request) == str(_proof(token + request.headers.get("User-Agent", "")))
        return web.Response(body=body.content if proved else challenge, headers={"Content-Type": HTML})

    return answer


def _proof(text: str) -> int:
    proof = 7
    for mark in text:
        proof = (proof * 31 + ord(mark)) % 1_000_000_007
    return proof


def _cookie(request: web.BaseRequest) -> str | None:
    try:
        brought = SimpleCookie(request.headers.get("Cookie", "")).get("proof")
    except CookieError:
        return None
    return brought.value if brought else None
