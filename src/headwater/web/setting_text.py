"""Settings of sources as text in forms: a value that is no JSON is text, as on the command line."""

import json
from typing import Any

from headwater.core.errors import BadRequest


def format_setting(value: Any) -> str:
    """Return a value as a person writes it. Text with line ends, or that reads as something else, is in quotes."""
    if isinstance(value, str) and _is_plain(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    return bool(text) and text.isprintable() and text == text.strip() and isinstance(parse_setting(text), str)


def parse_setting(text: str) -> Any:
    """Return the value of a text: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parse_settings(text: str) -> dict[str, Any]:
    """Return the settings of lines of the form FIELD=VALUE."""
    settings: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        field, separator, value = (part.strip() for part in line.partition("="))
        if not separator or not field:
            raise BadRequest(
                f"settings: the line {line[:100]!r} is not of the form FIELD=VALUE, as rate_per_second=0.5."
            )
        if field in settings:
            raise BadRequest(f"settings: {field} is given twice.")
        settings[field] = parse_setting(value)
    return settings
