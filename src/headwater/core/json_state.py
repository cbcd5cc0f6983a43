"""What rules keep of a source between two polls, as JSON."""

from typing import Any, Self

import msgspec


class Kept:
    """A dataclass that goes into JSON and comes out again."""

    __slots__ = ()

    @classmethod
    def of(cls, stored: object) -> Self | None:
        """Read one from JSON; None where it is not one."""
        if stored is None:  # as it is of most, and an error takes long to word
            return None
        try:
            return msgspec.convert(stored, cls)
        except msgspec.ValidationError:
            return None

    def stored(self) -> dict[str, Any]:
        """Return it as it goes into JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields
