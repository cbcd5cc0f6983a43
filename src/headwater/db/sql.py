"""Named queries, read from queries/*.sql.

A query starts with a line `-- name: its_name`. The comment lines after it explain its purpose and its parameters.
Python never builds SQL from pieces.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import astuple
from importlib import resources
from typing import Any, TypeVar

import msgspec

from headwater.core.lease import Lease

T = TypeVar("T")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _load() -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in sorted(resources.files("headwater.db.queries").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in queries, f"query {name} exists twice"
            queries[name] = text.strip()
    return queries


_QUERIES = _load()


def query(name: str) -> str:
    """Return the query of that name."""
    return _QUERIES[name]


def names() -> tuple[str, ...]:
    """Return the names of all queries."""
    return tuple(_QUERIES)


def to_record(record_type: type[T], row: Mapping[str, Any], **values: Any) -> T:
    """Make a record of a row and further values. Columns without a field are ignored; texts become enums."""
    return msgspec.convert({**row, **values}, record_type)


def read_lease(row: Mapping[str, Any]) -> Lease:
    """Read the lease columns of a claimed row."""
    return Lease(row["lease_holder"], row["lease_token"], row["lease_until"], row["attempts"])


def to_columns(records: Collection[Any]) -> list[list[Any]]:
    """Return the fields of at least one record as columns, for unnest()."""
    return [list(column) for column in zip(*map(astuple, records), strict=True)]
