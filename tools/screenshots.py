"""Save a picture of each page of the demo into docs/img: python -m tools.screenshots [NAME...]."""

import asyncio
import contextlib
import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from io import BytesIO
from pathlib import Path

import asyncpg
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from headwater.browser.chromium import find_program
from headwater.db.embedded.server import open_server

FOLDER = Path(__file__).parents[1] / "docs" / "img"
WIDTHS = {1280: 860, 390: 844}
SCHEMES = ("light", "dark")
COLOURS = 256
# The pages by name.
PAGES = {
    "today": "/ui/today",
    "since": "/ui/since",
    "document": "/ui/documents/{document}",
    "diff": "/ui/documents/{document}/diff",
    "search": "/ui/search?q=flood",
    "why": "/ui/why?url=http://canal.demo.test/news/barges-wait-for-water",
    "sources": "/ui/sources",
    "source": "/ui/sources/council.demo.test",
    "frontier": "/ui/frontier",
    "host": "/ui/hosts/baths.demo.test",
    "hosts": "/ui/hosts",
    "runs": "/ui/runs",
    "completeness": "/ui/completeness",
    "handoffs": "/ui/handoffs",
    "jobs": "/ui/jobs",
    "webhooks": "/ui/webhooks",
    "system": "/ui/system",
    "submit": "/ui/submit",
    "sign-in": "/ui/sign-in",
}
_SIGNED_OUT = {"sign-in"}
_HISTORY_SECONDS = 180
_DOCUMENT = "Flood barrier on the Wend passes its first full test"


def save_pictures(names: list[str]) -> None:
    """Run the demo as a program of its own, and save the pictures of its pages."""
    program = find_program()
    if program is None:
        raise SystemExit("Chromium is not installed (apt-get install chromium)")
    with tempfile.TemporaryDirectory(prefix="headwater-screenshots-") as folder:
        command = [sys.executable, "-c", "from headwater.cli import main; main()", "demo", "--serve", "--data", folder]
        print("running the demo")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
            try:
                base = _read_address(demo)
                if "frontier" in names:
                    _wait_for_history(base)
                asyncio.run(_add_revision(Path(folder)))
                token = (Path(folder) / "api-token").read_text(encoding="ascii").strip()
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                    for width in WIDTHS:
                        for scheme in SCHEMES:
                            _save_window(browser, base, token, names, width, scheme)
                    browser.close()
            finally:
                demo.send_signal(signal.SIGTERM)


def _read_address(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.match(r"Headwater listens on (\S+) ", line):
            return found[1]
    raise SystemExit("The demo ended before it served its pages.")


# The small web of the demo never changes, so an earlier text of its document is added. These words differed in it.
_EARLIER = {"first full test": "first partial test", "75 addresses": "60 addresses", "six inches": "four inches"}
_REVISE = """
WITH revised AS (UPDATE documents SET revision = 2 WHERE title = $1 AND revision = 1 RETURNING *)
INSERT INTO document_revisions (document_id, revision, content_hash, title, raw_hash, fetched_at, replaced_at)
SELECT id, 1, $2, $3, raw_hash, fetched_at - interval '1 day', fetched_at FROM revised
"""
_ADD_TEXT = "INSERT INTO texts (content_hash, body, first_seen_at) VALUES ($1, $2, now() - interval '1 day')"


async def _add_revision(folder: Path) -> None:
    with contextlib.closing(open_server(folder)) as server:
        connection = await asyncpg.connect(server.dsn)
        try:
            find = "SELECT body FROM documents JOIN texts USING (content_hash) WHERE title = $1"
            text: str = await connection.fetchval(find, _DOCUMENT)
            title = _DOCUMENT
            for new, old in _EARLIER.items():
                text, title = text.replace(new, old), title.replace(new, old)
            paragraphs = text.split("\n\n")
            text = "\n\n".join([*paragraphs[:-1], "The council publishes the dates of the next tests on Friday."])
            digest = hashlib.sha256(text.encode()).digest()
            await connection.execute(_ADD_TEXT, digest, text)
            await connection.execute(_REVISE, _DOCUMENT, digest, title)
        finally:
            await connection.close()


def _wait_for_history(base: str) -> None:
    """Wait until the charts show the attempts of the demo, about a minute later."""
    print("waiting until a minute of history is recorded")
    for _ in range(_HISTORY_SECONDS):
        with urllib.request.urlopen(f"{base}/ops/history?window=hour") as answer:
            if any(json.load(answer)["values"]["fetched"]):
                return
        time.sleep(1)
    raise SystemExit("No minute of history was recorded.")


def _save_window(browser: Browser, base: str, token: str, names: list[str], width: int, scheme: str) -> None:
    context = browser.new_context(
        base_url=base,
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    document = page.request.get(f"/search?q={_DOCUMENT}").json()["hits"][0]["id"]
    for name in [*(_SIGNED_OUT & set(names)), *(one for one in names if one not in _SIGNED_OUT)]:
        if name not in _SIGNED_OUT and not context.cookies():
            page.goto("/ui/sign-in")
            page.fill("input[name=token]", token)
            page.click("main button")
        page.goto(PAGES[name].format(document=document))
        page.wait_for_timeout(300)  # the live parts load once
        picture = (
            Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
        )
        file = FOLDER / f"{name}-{scheme}-{width}.png"
        picture.save(file, optimize=True)
        print(f"{file.relative_to(FOLDER.parents[1])}  {file.stat().st_size / 1000:.0f} kB")
    context.close()


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_pictures(sys.argv[1:] or list(PAGES))
