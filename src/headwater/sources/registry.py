"""Which kinds there are: entry points of the group `headwater.kinds`, ours and anybody's."""

import re
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.source import Source
from headwater.sources.kind import Kind
from headwater.sources.kind_settings import read_settings

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")  # also a folder's name, and checked by the database


@cache
def kinds() -> dict[str, type[Kind]]:
    """Return the installed kinds by name, those left out that cannot be loaded."""
    return {name: kind for name, kind in _loaded().items() if not isinstance(kind, str)}


@cache
def broken() -> dict[str, str]:
    """Return the installed kinds that cannot be loaded, each with the reason."""
    return {name: kind for name, kind in _loaded().items() if isinstance(kind, str)}


@cache
def _loaded() -> dict[str, type[Kind] | str]:
    """Return every installed kind, or why it cannot be loaded: a broken one must not take the others with it."""
    return {point.name: _load(point) for point in entry_points(group="headwater.kinds")}


def _load(point: EntryPoint) -> type[Kind] | str:
    try:
        kind = point.load()
    except Exception as error:  # noqa: BLE001 - it is somebody else's code, and fails in its own ways
        why = f"{type(error).__name__}: {error}".splitlines()[0]
    else:
        if isinstance(kind, type) and issubclass(kind, Kind):
            return kind
        why = "is no subclass of headwater.Kind"
    return f"{point.value}: {why}" + (f", in the package {point.dist.name}" if point.dist else "")


def configure(name: str, kind: str, settings: Any) -> Kind:
    """Make a source's kind with the settings that override its defaults; refuse what cannot work, naming the field."""
    if kind in broken():
        raise OperatorError(
            f"Source {name}: the kind {kind!r} cannot be loaded ({broken()[kind]}).", reason=Reason.UNKNOWN_KIND
        )
    if kind not in kinds():
        raise OperatorError(
            f"Source {name}: there is no kind {kind!r}. Installed: {', '.join(sorted(kinds()))}.",
            reason=Reason.UNKNOWN_KIND,
        )
    if not NAME.fullmatch(name):
        raise OperatorError(
            f"{name!r} cannot name a source: use up to 64 of a-z, 0-9, dot, dash and underscore, and begin with a "
            "letter or digit.",
            reason=Reason.BAD_SOURCE,
        )
    try:
        return read_settings(kinds()[kind], settings)
    except ValueError as error:
        raise OperatorError(f"Source {name}: {error}.", reason=Reason.BAD_SOURCE) from None


def kind_of(source: Source) -> Kind:
    """Return a source's kind, configured."""
    settings = msgspec.json.encode(source.settings, order="sorted")
    return _kind_of(source.name, source.kind, kinds().get(source.kind), settings)


@lru_cache(maxsize=4096)
def _kind_of(name: str, kind: str, _: type[Kind] | None, settings: bytes) -> Kind:
    """Remember kinds, which nothing changes: to make one takes longer than a poll that finds nothing new."""
    return configure(name, kind, msgspec.json.decode(settings))
