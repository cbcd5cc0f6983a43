"""Which kinds there are: entry points of the group `headwater.kinds`, ours and anybody's."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

import msgspec

from headwater.errors import OperatorError
from headwater.model.reasons import Reason
from headwater.model.source import Source
from headwater.sources.kind import Kind


@cache
def kinds() -> dict[str, type[Kind]]:
    """Return the installed kinds by name."""
    return {point.name: point.load() for point in entry_points(group="headwater.kinds")}


def configure(name: str, kind: str, settings: Any) -> Kind:
    """Make a source's kind with the settings that override its defaults; refuse what cannot work, naming the field."""
    if kind not in kinds():
        raise OperatorError(
            f"Source {name}: there is no kind {kind!r}. Installed: {', '.join(sorted(kinds()))}.",
            reason=Reason.UNKNOWN_KIND,
        )
    try:
        configured = msgspec.convert(settings, kinds()[kind])
        configured.check()
    except (msgspec.ValidationError, ValueError) as error:
        raise OperatorError(f"Source {name}: {error}.", reason=Reason.BAD_SOURCE) from None
    return configured


def kind_of(source: Source) -> Kind:
    """Return a source's kind, configured."""
    return configure(source.name, source.kind, source.settings)
