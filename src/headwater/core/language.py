"""Language tags: the plain code of a language, and the region that a tag adds to it."""

import re
from typing import NamedTuple

_TAG = re.compile(r"([a-z]{2,3})((?:-[a-z0-9]{1,8})*)")
_REGION = re.compile(r"-([a-z]{2}|[0-9]{3})(?=-|\Z)")
_EXTENSION = re.compile(r"-[a-z0-9](?=-).*")  # a single letter begins an extension, which has no region
_LONGEST = 35


class Language(NamedTuple):
    """A language, such as `de`, and the region of its use, such as `DE`, if the tag names one."""

    code: str
    region: str | None = None


def split_language(tag: str) -> Language | None:
    """Split a language tag or a locale, such as `de-DE` or `de_DE.UTF-8`. Returns None if it is neither."""
    bare = re.split("[.@]", tag.strip())[0].replace("_", "-").lower()
    found = _TAG.fullmatch(bare) if len(bare) <= _LONGEST else None
    if found is None:
        return None
    region = _REGION.search(_EXTENSION.sub("", found[2]))
    return Language(found[1], region[1].upper() if region else None)


def read_language(*tags: str) -> tuple[str | None, str | None]:
    """Return the code and the region of the first tag that can be read."""
    return next(filter(None, map(split_language, tags)), (None, None))
