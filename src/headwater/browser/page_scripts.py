"""Scripts of ours in a page, where the page's own cannot meddle."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

# By the page's own time: on a busy machine, all that it does takes longer.
_COME_TO_REST = """quiet => new Promise(done => {
    const wait = () => setTimeout(done, quiet);
    document.readyState == "complete" ? wait() : addEventListener("load", wait);
})"""
_WRITE_OUT = """longest => {
    const kind = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
    const text = kind + (document.documentElement?.outerHTML ?? "");
    return {text: text.length > longest ? null : text, isRead: document.readyState != "loading"};
}"""


async def come_to_rest(session: "CDPSession", frame: str, seconds: float) -> None:
    """Wait until a page has loaded, and for a while longer."""
    await _evaluate(session, frame, f"({_COME_TO_REST})({seconds * 1000})")


async def write_out(session: "CDPSession", frame: str, longest: int) -> tuple[str | None, bool]:
    """Return the document as it is now, None where it is too long, and whether all that was sent has been read."""
    written = await _evaluate(session, frame, f"({_WRITE_OUT})({longest})")
    return written["text"], written["isRead"]


async def _evaluate(session: "CDPSession", frame: str, expression: str) -> Any:
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame})
    order = {"expression": expression, "contextId": world["executionContextId"]}
    answer = await session.send("Runtime.evaluate", order | {"returnByValue": True, "awaitPromise": True})
    return answer["result"].get("value")
