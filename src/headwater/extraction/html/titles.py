"""Find the title of a page, without the name of its site."""

import re
from collections.abc import Iterator, Sequence

SEPARATOR = re.compile(
    r" [-|\u2013\u2014\u00b7\u2022\u00bb\u203a:/~]+ | ?[|_\uff5c] ?| [\u00ab\u2039] |-(?=[^- a-z0-9]+$)"
)
# These also separate the name of the site, but a headline may contain them too.
_COLON = re.compile(r" ?\uff1a ?|: ")
_MIN_LENGTH = 3
_MAX_LENGTH = 1000  # characters; searching a longer title for the site takes long
_MAX_TITLES = 50


def best_title(
    headlines: Sequence[str], og_title: str, headings: Sequence[str], page_title: str, sites: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield titles with their origins, the best first.

    The best title is one that two places agree on: a heading with which the title of the page begins, or a headline
    that is also a heading. Then follow linked data, OpenGraph and the visible headings.
    """
    names = _names(sites)
    headlines, headings = _usable(headlines), _usable(headings)
    og_title, page_title = (title if len(title) <= _MAX_LENGTH else "" for title in (og_title, page_title))
    stated = [(_remove_site(title, names), "json-ld") for title in headlines if title]
    if og_title:
        stated.append((_remove_site(og_title, names), "opengraph"))
    titles = [title for title, _ in stated] + [_remove_site(page_title, names)]
    if not _is_site(titles[0], names):
        for heading in headings:
            if any(_begins_with(title, heading) for title in (*headlines, og_title, page_title)) and not _is_site(
                heading, names
            ):
                origin = next((origin for title, origin in stated if _begins_with(title, heading)), "dom")
                yield heading, origin
    yield from (found for found in stated if not _is_site(found[0], names))
    # A heading that is not in the title of the page belongs to something else, such as a column of the site.
    shown = _compact(page_title)
    yield from ((heading, "dom") for heading in headings if _compact(heading) in shown and not _is_site(heading, names))
    yield _remove_site(page_title, names), "dom"
    yield from ((heading, "dom") for heading in headings)


def is_agreed(title: str, headings: Sequence[str], page_title: str, sites: Sequence[str]) -> bool:
    """Return whether a heading and the title of the page agree on this title, and it is not the name of the site."""
    return title in _usable(headings) and _contains_apart(title, page_title) and not _is_site(title, _names(sites))


def _usable(titles: Sequence[str]) -> list[str]:
    return [title for title in titles[:_MAX_TITLES] if len(title) <= _MAX_LENGTH]


def _names(sites: Sequence[str]) -> set[str]:
    return {_compact(site) for site in sites if 0 < len(site) <= _MAX_LENGTH}


def _compact(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold().removeprefix("www.")))


def _begins_with(title: str, heading: str) -> bool:
    """Return whether a title is the heading, or the heading with a separated part after it."""
    if len(heading) < _MIN_LENGTH or not title.startswith(heading):
        return False
    return len(title) == len(heading) or SEPARATOR.match(title, len(heading)) is not None


def _contains_apart(heading: str, title: str) -> bool:
    """Return whether a title is the heading, or the heading with a separated part before or after it."""
    if _begins_with(title, heading):
        return True
    if len(title) > _MAX_LENGTH or len(heading) < _MIN_LENGTH:
        return False
    marks = [mark for pattern in (SEPARATOR, _COLON) for mark in pattern.finditer(title)]
    return any(heading in (title[: mark.start()], title[mark.end() :]) for mark in marks)


def _remove_site(title: str, sites: set[str]) -> str:
    for separator in reversed(list(SEPARATOR.finditer(title))):
        before, behind = title[: separator.start()].strip(), title[separator.end() :].strip()
        if before and _is_site(behind, sites):
            return before
        if behind and _is_site(before, sites):
            return behind
    return title


def _is_site(text: str, sites: set[str]) -> bool:
    name = _compact(text)
    if len(name) < _MIN_LENGTH:
        return False
    # The name of a host contains the name of the site.
    return any(
        name == site
        or (len(name) > 3 and name in site)
        or (len(site) > 5 and site in name and len(name) < 2 * len(site))
        for site in sites
    )
