"""Records: the frozen dataclasses that operations take and return."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass. The API documents each field by the docstring below the field.

    A request body with a field that the class does not have is refused.
    """
    cls.__pydantic_config__ = {"use_attribute_docstrings": True, "extra": "forbid"}  # type: ignore[attr-defined]
    make: Callable[[type[T]], type[T]] = dataclass(frozen=True, slots=True)
    return make(cls)
