"""A source's settings, made into its kind; what does not fit is told in words, with the field's name."""

import difflib
import re
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import LiteralType, NoneType, StructType, Type, UnionType, type_info

from headwater.sources.kind import Kind

K = TypeVar("K", bound=Kind)

# How msgspec words what is wrong, and where.
_WHERE = re.compile(r"(?s)(?P<what>.*) - at `\$(?P<path>[^`]*)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_MISTYPED = re.compile(r"Expected `(.*)`, got `(.*)`")
_NOT_LISTED = re.compile(r"(?s)Invalid enum value (.*)")
_STEP = re.compile(r"\.(\w+)|\[[^]]*\]")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def read_settings(kind: type[K], settings: Any) -> K:
    """Make a kind with the settings that override its defaults; raise ValueError, naming the field, for what is wrong.

    What only `check()` can tell is told by that.
    """
    try:
        configured = msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(str(error), kind)) from None
    configured.check()
    return configured


def _explain(message: str, kind: type[Kind]) -> str:
    place = _WHERE.fullmatch(message)
    what, path = (place["what"], place["path"]) if place else (message, "")
    expected = _type_at(type_info(kind), path)
    field = path.removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(what):
        return _no_such_field(unknown[1], field, expected)
    if missing := _MISSING.fullmatch(what):
        return f"{_below(field, missing[1])}: must be given"
    subject = f"{field}:" if field else "the settings"
    if mistyped := _MISTYPED.fullmatch(what):
        given = "a number with decimals" if mistyped[2] == "float" else _WORDS.get(mistyped[2], mistyped[2])
        wanted = " or ".join(_WORDS.get(word, word) for word in mistyped[1].split(" | "))
        return f"{subject} must be {wanted}, not {given}"
    if (not_listed := _NOT_LISTED.fullmatch(what)) and (choices := _choices(expected)):
        return f"{subject} must be {' or '.join(choices)}, not {not_listed[1]}"
    return f"{subject} {what}"


def _no_such_field(name: str, inside: str, expected: Type | None) -> str:
    known = [field.encode_name for field in expected.fields] if isinstance(expected, StructType) else []
    closest = difflib.get_close_matches(name, known, 1)
    shown = _below(inside, name if name.isidentifier() else repr(name))
    guess = f"; did you mean {_below(inside, closest[0])}?" if closest else "."
    return f"{shown}: there is no such field{guess} There are: {', '.join(_below(inside, each) for each in known)}"


def _below(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _choices(expected: Type | None) -> list[str]:
    """Return the values that a field may have, where these are listed."""
    parts = expected.types if isinstance(expected, UnionType) else (expected,)
    listed = sorted(repr(value) for part in parts if isinstance(part, LiteralType) for value in part.values)
    return listed + ["null"] * any(isinstance(part, NoneType) for part in parts) if listed else []


def _type_at(root: Type, path: str) -> Type | None:
    """Follow a path of field names; None where it leads into a list or a dictionary."""
    found: Type | None = root
    for step in _STEP.finditer(path):
        parts = found.types if isinstance(found, UnionType) else (found,)
        fields = [field for part in parts if isinstance(part, StructType) for field in part.fields]
        found = next((field.type for field in fields if field.encode_name == step[1]), None)
    return found
