"""The title of a page, without the name of its site."""

import re
from collections.abc import Iterator, Sequence

SEPARATOR = re.compile(
    r" [-|\u2013\u2014\u00b7\u2022\u00bb\u203a:/~]+ | ?[|_\uff5c] ?| [\u00ab\u2039] |-(?=[^- a-z0-9]+$)"
)
# What sets a site's name apart too, but a headline's own parts as well.
_COLON = re.compile(r" ?\uff1a ?|: ")
_SHORTEST = 3
_LONGEST = (
    1000  # characters; no title is meant to be longer, and to look for a site in one takes the square of its length
)
_MOST = 50


def best_title(
    headlines: Sequence[str], og_title: str, headings: Sequence[str], page_title: str, sites: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield titles, the best first, each with where it was found.

    What two places agree on is the title: a heading that the page's title begins with, a headline that is also in the
    heading. Else linked data goes before OpenGraph, and what is seen comes last.
    """
    names = _names(sites)
    headlines, headings = _possible(headlines), _possible(headings)
    og_title, page_title = (title if len(title) <= _LONGEST else "" for title in (og_title, page_title))
    stated = [(_without_site(title, names), "json-ld") for title in headlines if title]
    if og_title:
        stated.append((_without_site(og_title, names), "opengraph"))
    titles = [title for title, _ in stated] + [_without_site(page_title, names)]
    if not _is_site(titles[0], names):
        for heading in headings:
            if any(_begins(title, heading) for title in (*headlines, og_title, page_title)) and not _is_site(
                heading, names
            ):
                origin = next((origin for title, origin in stated if _begins(title, heading)), "dom")
                yield heading, origin
    yield from (found for found in stated if not _is_site(found[0], names))
    # a heading that the page's own title does not speak of is another's: of a column, of a part of the site
    shown = compact(page_title)
    yield from ((heading, "dom") for heading in headings if compact(heading) in shown and not _is_site(heading, names))
    yield _without_site(page_title, names), "dom"
    yield from ((heading, "dom") for heading in headings)


def is_agreed(title: str, headings: Sequence[str], page_title: str, sites: Sequence[str]) -> bool:
    """Tell whether a heading and the page's title both say this, which is not the name of the site."""
    return title in _possible(headings) and _is_set_apart(title, page_title) and not _is_site(title, _names(sites))


def _possible(titles: Sequence[str]) -> list[str]:
    return [title for title in titles[:_MOST] if len(title) <= _LONGEST]


def _names(sites: Sequence[str]) -> set[str]:
    return {compact(site) for site in sites if 0 < len(site) <= _LONGEST}


def compact(text: str) -> str:
    """Return only the letters and digits of a name, which may be written with or without the rest."""
    return "".join(filter(str.isalnum, text.casefold().removeprefix("www.")))


def _begins(title: str, heading: str) -> bool:
    """Tell whether a title is the heading, with or without something set apart behind it."""
    if len(heading) < _SHORTEST or not title.startswith(heading):
        return False
    return len(title) == len(heading) or SEPARATOR.match(title, len(heading)) is not None


def _is_set_apart(heading: str, title: str) -> bool:
    """Tell whether a title is the heading, with or without something set apart before or behind it."""
    if _begins(title, heading):
        return True
    if len(title) > _LONGEST or len(heading) < _SHORTEST:
        return False
    marks = [mark for pattern in (SEPARATOR, _COLON) for mark in pattern.finditer(title)]
    return any(heading in (title[: mark.start()], title[mark.end() :]) for mark in marks)


def _without_site(title: str, sites: set[str]) -> str:
    for separator in reversed(list(SEPARATOR.finditer(title))):
        before, behind = title[: separator.start()].strip(), title[separator.end() :].strip()
        if before and _is_site(behind, sites):
            return before
        if behind and _is_site(before, sites):
            return behind
    return title


def _is_site(text: str, sites: set[str]) -> bool:
    name = compact(text)
    if len(name) < _SHORTEST:
        return False
    # a host's name holds that of the site
    return any(
        name == site
        or (len(name) > 3 and name in site)
        or (len(site) > 5 and site in name and len(name) < 2 * len(site))
        for site in sites
    )
