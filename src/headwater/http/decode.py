"""Undoing Content-Encoding."""

from headwater.core.inflate import BadEncoding, Inflater

ACCEPT_ENCODING = "gzip, deflate"

_GZIP_CODINGS = (["gzip"], ["x-gzip"])
_MEANINGLESS_CODINGS = {"", "identity", "none", "utf-8", "utf8"}  # what servers put there by mistake


def inflater_for(content_encoding: str) -> Inflater | None:
    """Return what undoes this header's value, None where there is nothing to undo."""
    named = [coding.strip().lower() for coding in content_encoding.split(",")]
    codings = [coding for coding in named if coding not in _MEANINGLESS_CODINGS]
    if not codings:
        return None
    if codings in _GZIP_CODINGS or codings == ["deflate"]:
        return Inflater(gzip=codings in _GZIP_CODINGS)
    raise BadEncoding(f"content encoding {content_encoding[:50]!r} was not asked for")
