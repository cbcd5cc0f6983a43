"""Named queries of the bench, in files written like those of `headwater.db`."""

import re
from pathlib import Path


def read_queries(name: str) -> dict[str, str]:
    """Return the queries of a file in this folder, by name."""
    parts = re.split(
        r"^-- name: (\w+)\n", (Path(__file__).parent / name).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
