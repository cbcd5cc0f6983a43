"""Programs of other projects. Each has an environment of its own, which is made at its first use."""

import asyncio
import hashlib
import sys
from pathlib import Path

BENCH = Path(__file__).parent
ENVIRONMENTS = BENCH.parent / ".venv-bench"


class Unavailable(Exception):
    """A peer could not be measured. The text is the cause."""


async def make_environment(name: str) -> Path:
    """Make the environment of `requirements-NAME.txt` if it is missing. Returns its Python. Raises Unavailable."""
    requirements = BENCH / f"requirements-{name}.txt"
    environment = ENVIRONMENTS / name
    python, stamp = environment / "bin" / "python", environment / ".ready"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        await run(sys.executable, "-m", "venv", "--clear", environment)
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        await run(*pip, "--require-hashes", "--requirement", requirements)
        stamp.write_text(wanted)
    return python


async def run(*command: object, stdin: str = "") -> str:
    """Run a program with this standard input, and return its output. Raises Unavailable."""
    words, pipe = [str(part) for part in command], asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        output, errors = await process.communicate(stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"{Path(words[0]).name} {' '.join(words[1:4])} failed: {last}")
    return output.decode()
