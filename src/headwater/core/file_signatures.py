"""Recognize files that are not text, by their first bytes or by control characters."""

import re

_CHECKED_CHARACTERS = 8 * 1024  # characters
_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"GIF8": "a GIF image",
    b"\xff\xd8\xff": "a JPEG image",
    b"RIFF": "an image, sound or video (RIFF)",
    b"PK\x03\x04": "a zip archive or an office document",
    b"\x1f\x8b": "compressed (gzip)",
    b"BZh": "compressed (bzip2)",
    b"\xfd7zXZ": "compressed (xz)",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"{\\rtf": "an RTF document",
}
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1f\ufffd]")


def detect_file_kind(body: bytes) -> str | None:
    """Return the kind of a file by its first bytes, or None."""
    return next((kind for signature, kind in _SIGNATURES.items() if body.startswith(signature)), None)


def is_binary(text: str) -> bool:
    """Return whether a decoded body is not text."""
    beginning = text[:_CHECKED_CHARACTERS]
    return len(_CONTROLS.findall(beginning)) * 20 > len(beginning)
