"""Records: the frozen dataclasses that operations take and return."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar, dataclass_transform

from annotated_types import Interval

T = TypeVar("T")
LARGEST_ID = 2**63 - 1
"""The largest number that a bigint column can hold."""
RowId = Annotated[int, Interval(ge=1, le=LARGEST_ID)]
"""The id of a row. The API refuses other numbers."""


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass. The docstring below a field describes the field in OpenAPI.

    A request body with a field that the class does not have is refused.
    """
    cls.__pydantic_config__ = {  # type: ignore[attr-defined]
        "use_attribute_docstrings": True,
        "extra": "forbid",
        "json_schema_serialization_defaults_required": True,  # an answer has all fields
    }
    cls.__get_pydantic_json_schema__ = classmethod(_describe_inherited_fields)  # type: ignore[attr-defined]
    make: Callable[[type[T]], type[T]] = dataclass(frozen=True, slots=True)
    return make(cls)


def _describe_inherited_fields(cls: type, schema: Any, handler: Any) -> Any:
    """Add the descriptions of inherited fields to a JSON schema. Pydantic reads only the docstrings of one class."""
    from pydantic import TypeAdapter  # only the API needs it

    found = handler(schema)
    for base in cls.__mro__[1:-1]:
        for name, inherited in TypeAdapter(base).json_schema()["properties"].items():
            if text := inherited.get("description"):
                handler.resolve_ref_schema(found)["properties"][name].setdefault("description", text)
    return found


def extend(base: Any, cls: type[T], **more: Any) -> T:
    """Return a record of a class from the fields that it shares with `base`, and more. A value in `more` wins."""
    shared = {field.name for field in fields(base)} & {field.name for field in fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: getattr(base, name) for name in shared} | more)
