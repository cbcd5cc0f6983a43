"""Records: the frozen dataclasses that operations take and return."""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
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
        "extra": "forbid",
        "json_schema_serialization_defaults_required": True,  # an answer has all fields
    }
    cls.__get_pydantic_json_schema__ = classmethod(_describe_fields)  # type: ignore[attr-defined]
    make: Callable[[type[T]], type[T]] = dataclass(frozen=True, slots=True)
    return make(cls)


def _describe_fields(cls: type, schema: Any, handler: Any) -> Any:
    """Add the docstrings of the fields to a JSON schema. Pydantic itself would read them at each start of the API."""
    found = handler(schema)
    properties = handler.resolve_ref_schema(found)["properties"]
    for base in cls.__mro__[:-1]:
        for name, text in _read_docstrings(base):
            properties[name].setdefault("description", text)
    return found


def _read_docstrings(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class that have a docstring below them, and that text."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    for field, text in pairwise(definition.body):  # type: ignore[attr-defined]
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(described))):
                yield name, inspect.cleandoc(described)


def extend(base: Any, cls: type[T], **more: Any) -> T:
    """Return a record of a class from the fields that it shares with `base`, and more. A value in `more` wins."""
    return cls(**{name: getattr(base, name) for name in _find_shared(type(base), cls)} | more)  # type: ignore[arg-type]


@cache
def _find_shared(base: Any, cls: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(base)) & frozenset(field.name for field in fields(cls))
