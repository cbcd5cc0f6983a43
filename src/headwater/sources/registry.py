"""The installed kinds, and how a source's settings make its kind. Kinds are entry points of `headwater.kinds`."""

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import LiteralType, NoneType, StructType, Type, UnionType, type_info

from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.source import MAX_CATEGORY_LENGTH, SOURCE_NAME, Source
from headwater.core.text import is_storable
from headwater.core.url_input import redact
from headwater.core.urls import normalize_url
from headwater.sources.kind import Kind

K = TypeVar("K", bound=Kind)

# These patterns match the messages of msgspec.
_PLACE = re.compile(r"(?s)(?P<what>.*) - at `\$(?P<path>[^`]*)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WRONG_TYPE = re.compile(r"Expected `(.*)`, got `(.*)`")
_NO_CHOICE = re.compile(r"(?s)Invalid enum value (.*)")
_STEP = re.compile(r"\.(\w+)|\[[^]]*\]")
_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


@cache
def get_kinds() -> dict[str, type[Kind]]:
    """Return the installed kinds by name, without those that cannot be loaded."""
    return {name: kind for name, kind in _load_kinds().items() if not isinstance(kind, str)}


@cache
def get_broken_kinds() -> dict[str, str]:
    """Return the installed kinds that cannot be loaded, each with the reason."""
    return {name: kind for name, kind in _load_kinds().items() if isinstance(kind, str)}


@cache
def _load_kinds() -> dict[str, type[Kind] | str]:
    return {point.name: _load_kind(point) for point in entry_points(group="headwater.kinds")}


def _load_kind(point: EntryPoint) -> type[Kind] | str:
    try:
        kind = point.load()
    except Exception as error:  # noqa: BLE001 (code of other people may raise anything)
        why = f"{type(error).__name__}: {error}".splitlines()[0]
    else:
        if isinstance(kind, type) and issubclass(kind, Kind):
            return kind
        why = "is no subclass of headwater.Kind"
    return f"{point.value}: {why}" + (f", in the package {point.dist.name}" if point.dist else "")


def configure(name: str, kind: str, settings: Any) -> Kind:
    """Return the kind of a source with its settings. Raises OperatorError, with the field, if they cannot work."""
    if kind in get_broken_kinds():
        raise OperatorError(
            f"Source {name}: the kind {kind!r} cannot be loaded ({get_broken_kinds()[kind]}).",
            reason=Reason.UNKNOWN_KIND,
        )
    if kind not in get_kinds():
        raise OperatorError(
            f"Source {name}: there is no kind {kind!r}. Installed: {', '.join(sorted(get_kinds()))}.",
            reason=Reason.UNKNOWN_KIND,
        )
    if not SOURCE_NAME.fullmatch(name):
        raise OperatorError(
            f"{name!r} cannot name a source: use up to 64 of a-z, 0-9, dot, dash and underscore, and begin with a "
            "letter or digit.",
            reason=Reason.BAD_SOURCE,
        )
    try:
        return read_settings(get_kinds()[kind], settings)
    except ValueError as error:
        raise OperatorError(f"Source {name}: {error}.", reason=Reason.BAD_SOURCE) from None


def prepare_settings(name: str, kind: str, settings: Mapping[str, Any]) -> tuple[Kind, Mapping[str, Any]]:
    """Return the kind of a source, and its settings as they are stored. Raises OperatorError if they cannot work."""
    prepared = dict(settings)
    for field, value in prepared.items():
        if not _holds_only_storable((field, value)):
            raise OperatorError(
                f"Source {redact(name)}: {redact(field)}: has a character that cannot be stored.",
                reason=Reason.BAD_SOURCE,
            )
    if isinstance(address := prepared.get("feed_url"), str):
        try:
            prepared["feed_url"] = normalize_url(address, keep_trailing_slash=True)
        except InvalidURL as error:
            raise OperatorError(f"Source {redact(name)}: feed_url: {error}", reason=Reason.BAD_SOURCE) from None
    return _make_kind(name, kind, get_kinds().get(kind), msgspec.json.encode(prepared, order="sorted")), prepared


def get_kind(source: Source) -> Kind:
    """Return the kind of a source with its settings."""
    settings = msgspec.json.encode(source.settings, order="sorted")
    return _make_kind(source.name, source.kind, get_kinds().get(source.kind), settings)


def category_of(source: Source, kind: Kind) -> str | None:
    """Return the category that gets the links of a source, or None if there is none or pages are not fetched."""
    category = source.settings.get("category")
    return category.strip()[:MAX_CATEGORY_LENGTH] or None if isinstance(category, str) and kind.fetch_items else None


@lru_cache(maxsize=4096)  # a poll that finds nothing new takes less time than making a kind
def _make_kind(name: str, kind: str, _: type[Kind] | None, settings: bytes) -> Kind:
    return configure(name, kind, msgspec.json.decode(settings))


def read_settings(kind: type[K], settings: Any) -> K:
    """Return a kind with these settings. Raises ValueError, with the field, if they cannot work."""
    try:
        configured = msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(str(error), kind)) from None
    configured.check()
    return configured


def _explain(message: str, kind: type[Kind]) -> str:
    place = _PLACE.fullmatch(message)
    what, path = (place["what"], place["path"]) if place else (message, "")
    expected = _type_at(type_info(kind), path)
    field = path.removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(what):
        return _explain_unknown_field(unknown[1], field, expected)
    if missing := _MISSING.fullmatch(what):
        return f"{_join(field, missing[1])}: must be given"
    subject = f"{field}:" if field else "the settings"
    if wrong := _WRONG_TYPE.fullmatch(what):
        given = "a number with decimals" if wrong[2] == "float" else _TYPE_NAMES.get(wrong[2], wrong[2])
        wanted = " or ".join(_TYPE_NAMES.get(name, name) for name in wrong[1].split(" | "))
        return f"{subject} must be {wanted}, not {given}"
    if (no_choice := _NO_CHOICE.fullmatch(what)) and (choices := _choices(expected)):
        return f"{subject} must be {' or '.join(choices)}, not {no_choice[1]}"
    return f"{subject} {what}"


def _explain_unknown_field(name: str, parent: str, expected: Type | None) -> str:
    known = [field.encode_name for field in expected.fields] if isinstance(expected, StructType) else []
    closest = difflib.get_close_matches(name, known, 1)
    shown = _join(parent, name if name.isidentifier() else repr(name))
    guess = f"; did you mean {_join(parent, closest[0])}?" if closest else "."
    return f"{shown}: there is no such field{guess} There are: {', '.join(_join(parent, each) for each in known)}"


def _join(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def _types_of(expected: Type | None) -> tuple[Type | None, ...]:
    return expected.types if isinstance(expected, UnionType) else (expected,)


def _choices(expected: Type | None) -> list[str]:
    parts = _types_of(expected)
    choices = sorted(repr(value) for part in parts if isinstance(part, LiteralType) for value in part.values)
    return choices + ["null"] * any(isinstance(part, NoneType) for part in parts) if choices else []


def _type_at(root: Type, path: str) -> Type | None:
    """Follow a path of field names. Returns None if it leads into a list or a dictionary."""
    found: Type | None = root
    for step in _STEP.finditer(path):
        fields = [field for part in _types_of(found) if isinstance(part, StructType) for field in part.fields]
        found = next((field.type for field in fields if field.encode_name == step[1]), None)
    return found


def _holds_only_storable(value: Any) -> bool:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, Mapping):
        return all(map(_holds_only_storable, value.items()))
    return all(map(_holds_only_storable, value)) if isinstance(value, list | tuple) else True
