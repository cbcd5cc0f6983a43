"""Makes Crawlee's environment and runs crawlee_queue.py there."""

import asyncio
import hashlib
import sys
from pathlib import Path

import msgspec

from bench.server import new_database
from bench.steps import Steps

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "bench" / "requirements-crawlee.txt"
ENVIRONMENT = ROOT / ".venv-bench"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".ready"


class Unavailable(Exception):
    """Crawlee could not be measured, and why."""


class Rates(msgspec.Struct, frozen=True):
    """URLs a second through Crawlee's queue."""

    version: str
    put_new: float
    put_known: float
    claim: float
    finish: float


async def measure_crawlee(server: str, steps: Steps, urls: int) -> Rates:
    """Run Crawlee's queue on the same server. Raises Unavailable."""
    with steps.step("Crawlee: environment", None):
        await _make_environment()
    with steps.step("Crawlee: put, claim, handle", None):
        async with new_database(server, "bench_crawlee") as dsn:
            script = str(ROOT / "bench" / "crawlee_queue.py")
            output = await _run(str(PYTHON), script, "--urls", str(urls), told=dsn + "\n")
    return msgspec.json.decode(output.splitlines()[-1], type=Rates)


async def _make_environment() -> None:
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    await _run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    await _run(*pip, "--require-hashes", "--requirement", str(REQUIREMENTS))
    STAMP.write_text(wanted)


async def _run(*command: str, told: str = "") -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        output, errors = await process.communicate(told.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"{Path(command[0]).name} {' '.join(command[1:4])} failed: {last}")
    return output.decode()
