"""The policies that are added to each page, and the scripts that run in addition to its own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_CONTENT_POLICY = (
    "frame-src 'none'; worker-src 'none'; object-src 'none'; img-src 'none'; media-src 'none'; font-src 'none'; "
    "manifest-src 'none'; connect-src http: https:; form-action 'none'; sandbox allow-scripts allow-same-origin"
)
# The browser itself sends requests for these features, and no event reports them before they are sent.
_FORBIDDEN_FEATURES = (
    "identity-credentials-get",
    "publickey-credentials-get",
    "publickey-credentials-create",
    "payment",
    "private-state-token-issuance",
    "private-state-token-redemption",
    "join-ad-interest-group",
    "run-ad-auction",
    "attribution-reporting",
)
POLICIES = [
    {"name": "Content-Security-Policy", "value": _CONTENT_POLICY},
    {"name": "Permissions-Policy", "value": ", ".join(f"{name}=()" for name in _FORBIDDEN_FEATURES)},
]

# The page's own timer is used: on a busy machine everything in the page takes longer.
_WAIT_UNTIL_QUIET = """quiet => new Promise(done => {
    const wait = () => setTimeout(done, quiet);
    document.readyState == "complete" ? wait() : addEventListener("load", wait);
})"""
_READ_DOCUMENT = """longest => {
    const kind = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
    const text = kind + (document.documentElement?.outerHTML ?? "");
    return {text: text.length > longest ? null : text, isParsed: document.readyState != "loading"};
}"""


async def wait_until_quiet(session: "CDPSession", frame_id: str, seconds: float) -> None:
    """Wait until a page has loaded, and then some seconds."""
    await _evaluate(session, frame_id, f"({_WAIT_UNTIL_QUIET})({seconds * 1000})")


async def read_document(session: "CDPSession", frame_id: str, max_length: int) -> tuple[str | None, bool]:
    """Return the document, None if it is too long, and whether the browser has parsed all of it."""
    document = await _evaluate(session, frame_id, f"({_READ_DOCUMENT})({max_length})")
    return document["text"], document["isParsed"]


async def _evaluate(session: "CDPSession", frame_id: str, expression: str) -> Any:
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame_id})
    call = {"expression": expression, "contextId": world["executionContextId"]}
    answer = await session.send("Runtime.evaluate", call | {"returnByValue": True, "awaitPromise": True})
    return answer["result"].get("value")
