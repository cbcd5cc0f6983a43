"""Filters of items and documents that a person gave: refuse unknown sources and languages, accept any spelling."""

from dataclasses import fields, replace
from typing import Any, TypeVar

from headwater.core.errors import BadRequest
from headwater.core.language import split_language
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import sources
from headwater.db.items import ContentFilter
from headwater.db.pool import Connection

F = TypeVar("F", bound=ContentFilter)


async def prepare_filter(connection: Connection, only: F) -> F:
    """Return a filter that the database understands. Raises OperatorError for an unknown source."""
    given = ((field.name, getattr(only, field.name)) for field in fields(only))
    texts: dict[str, Any] = {name: make_storable(value) for name, value in given if isinstance(value, str)}
    chosen = replace(only, **texts)
    if chosen.source is not None and await sources.get_source(connection, chosen.source) is None:
        raise sources.unknown_source(chosen.source)
    if chosen.category is not None:
        chosen = replace(chosen, category=chosen.category.strip("/"))
    if chosen.language is not None:
        language = split_language(chosen.language)
        if language is None:
            raise BadRequest(f"language: {redact(chosen.language)!r} is not the code of a language such as de.")
        chosen = replace(chosen, language=language.code)
    return chosen
