"""What a pass over a site keeps: of an answer, so as not to read it twice, and of what went wrong."""

import hashlib
from collections.abc import Mapping
from typing import Any

from headwater.core.errors import HeadwaterError
from headwater.core.http import Response

# In a row, each for a passing reason and after several attempts: who fails so often is down, and is asked again later.
MOST_FAILURES = 5
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 200
_LONGEST_VALIDATOR = 1_000  # kept for each of a site's sitemaps, and as long as the site likes


def validators(memory: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that ask only for what is new since the answer that is remembered."""
    names = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
    return {header: memory[name] for name, header in names.items() if memory.get(name)}


def remember_answer(memory: dict[str, Any], response: Response, digest: str | None = None) -> None:
    """Keep what tells an answer from the next one; `digest` is what its body is known by, if that was looked at."""
    for name, header in (("etag", "etag"), ("last_modified", "last-modified")):
        value = response.headers.get(header, "")
        note(memory, name, value if len(value) <= _LONGEST_VALIDATOR else None)
    memory["body_hash"] = digest or body_hash(response)


def body_hash(response: Response) -> str:
    """Return what a body is known by."""
    return hashlib.sha256(response.body).hexdigest()[:32]


def note(memory: dict[str, Any], name: str, value: Any) -> None:
    """Keep a value, or that there is none."""
    if value:
        memory[name] = value
    else:
        memory.pop(name, None)


class Problems:
    """What could not be read in a pass that went on without it: the first few, and the first error itself."""

    def __init__(self) -> None:
        self.first: HeadwaterError | None = None
        self._told: list[dict[str, str]] = []

    def add(self, url: str, error: HeadwaterError) -> None:
        """Note an error."""
        self.first = self.first or error
        if len(self._told) < _MOST_PROBLEMS:
            self._told.append({"url": url, "problem": str(error)[:_LONGEST_PROBLEM]})

    def save(self, state: dict[str, Any]) -> None:
        """Put what was noted in place of what was before."""
        note(state, "problems", self._told)
