"""What bytes are that are no text: by the first of them, or by characters that no text has."""

import re

_LOOKED_THROUGH = 8 * 1024  # characters
# Files that say what they are in their first bytes.
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


def kind_of_file(body: bytes) -> str | None:
    """Name what bytes say they are, None where they say nothing."""
    return next((kind for signature, kind in _SIGNATURES.items() if body.startswith(signature)), None)


def is_binary(text: str) -> bool:
    """Tell whether what was decoded as text can be none."""
    beginning = text[:_LOOKED_THROUGH]
    return len(_CONTROLS.findall(beginning)) * 20 > len(beginning)
