"""The language of searches: words, "phrases", -without, OR, and filters such as site:example.org. Pure.

Every text is a search. A part that cannot be understood gives a note, and such a search finds nothing.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from headwater.core.dates import parse_moment
from headwater.core.errors import BadRequest
from headwater.core.language import split_language
from headwater.core.search_words import Form, split_words

MOST_TERMS = 40
LONGEST_QUERY = 1000  # characters
LONGEST_PHRASE = 50  # words
_OTHER_NAMES = {"language": "lang", "since": "after"}
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»\uff02", '"'))
_PART = re.compile(
    r"""(?P<minus>-?)(?:(?P<field>site|source|category|topic|lang|language|before|after|since|title):)?"""
    r"""(?:"(?P<quoted>[^"]*)"?|(?P<bare>[^\s"]+))""",
    re.IGNORECASE,
)
_HOST = re.compile(r"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?([^/:?#]+)", re.IGNORECASE)


class Term(NamedTuple):
    """Words that follow each other: each with its distance from the word before. A lone character finds pairs, too."""

    words: tuple[tuple[str, int], ...]
    is_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A document matches if it has all of `wanted` and none of `unwanted`."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """The values of a field of which a document has one, and those of which it has none."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search. A document matches if one alternative matches, or there is none, and all filters match."""

    alternatives: tuple[Alternative, ...] = ()
    title: Alternative = Alternative()
    filters: dict[str, Filter] = field(default_factory=dict)
    after: datetime | None = None
    before: datetime | None = None
    notes: tuple[str, ...] = ()
    """What could not be understood."""

    @property
    def is_empty(self) -> bool:
        """Whether the search asks for nothing, so that it finds nothing."""
        return not (self.alternatives or self.title != Alternative() or self.filters or self.after or self.before)

    def get(self, name: str) -> Filter:
        """Return the filter of a field."""
        return self.filters.get(name, Filter())


def parse_query(text: str) -> SearchQuery:
    """Read a search. It never fails."""
    return _Parser().parse(text[:LONGEST_QUERY])


def make_terms(text: str) -> Term | None:
    """Return the words of a text as one phrase. None if it has no words."""
    words = [(number, word) for number, word in enumerate(split_words(text)) if word.form is not Form.LAST]
    words = words[:LONGEST_PHRASE]
    if not words:
        return None
    numbers = [number for number, _ in words]
    distances = [0, *(later - earlier for earlier, later in itertools.pairwise(numbers))]
    is_prefix = len(words) == 1 and words[0][1].form is Form.LONE
    return Term(tuple((word.text, distance) for (_, word), distance in zip(words, distances, strict=True)), is_prefix)


class _Parser:
    def __init__(self) -> None:
        self._alternatives: list[Alternative] = []
        self._title = Alternative()
        self._filters: dict[str, Filter] = {}
        self._after: datetime | None = None
        self._before: datetime | None = None
        self._notes: list[str] = []
        self._terms = 0

    def parse(self, text: str) -> SearchQuery:
        current = Alternative()
        joins = False  # an OR precedes
        for part in _PART.finditer(text.translate(_QUOTES)):
            bare = part["bare"]
            if bare is not None and not part["field"] and not part["minus"] and bare.upper() in ("OR", "AND", "|"):
                joins = bare.upper() != "AND"
                continue
            value = bare if bare is not None else part["quoted"]
            if part["field"]:
                self._read_filter(_OTHER_NAMES.get(part["field"].lower(), part["field"].lower()), value, part["minus"])
                continue
            term = make_terms(value)
            if term is None or self._terms >= MOST_TERMS:
                continue
            self._terms += 1
            if joins and current != Alternative():
                self._alternatives.append(current)
                current = Alternative()
            joins = False
            current = _add(current, term, is_unwanted=bool(part["minus"]))
        if current != Alternative():
            self._alternatives.append(current)
        return SearchQuery(
            tuple(self._alternatives), self._title, self._filters, self._after, self._before, tuple(self._notes)
        )

    def _read_filter(self, name: str, value: str, minus: str) -> None:
        value = value.strip()
        if name in ("before", "after"):
            self._read_moment(name, value, minus)
            return
        if name == "title":
            term = make_terms(value)
            if term is None:
                self._note(f"title: {value!r} has no words.")
            elif self._terms < MOST_TERMS:
                self._terms += 1
                self._title = _add(self._title, term, is_unwanted=bool(minus))
            return
        read = _READERS[name](value)
        if not read:
            self._note(_PROBLEMS[name].format(repr(value)))
            return
        old = self._filters.get(name, Filter())
        self._filters[name] = (
            replace(old, unwanted=(*old.unwanted, read)) if minus else replace(old, wanted=(*old.wanted, read))
        )

    def _read_moment(self, name: str, value: str, minus: str) -> None:
        try:
            moment = parse_moment(value, name)
        except BadRequest as error:
            self._note(str(error))
            return
        if (name == "after") != bool(minus):
            self._after = max(self._after, moment) if self._after else moment
        else:
            self._before = min(self._before, moment) if self._before else moment

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def _add(alternative: Alternative, term: Term, *, is_unwanted: bool) -> Alternative:
    if is_unwanted:
        return replace(alternative, unwanted=(*alternative.unwanted, term))
    return replace(alternative, wanted=(*alternative.wanted, term))


def _read_language(value: str) -> str | None:
    language = split_language(value)
    return language.code if language else None


def _read_site(value: str) -> str | None:
    found = _HOST.match(value)
    host = found[1].strip(".").removeprefix("*.").lower() if found else ""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return None


_READERS: dict[str, Callable[[str], str | None]] = {
    "site": _read_site,
    "source": str,
    "category": lambda value: value.strip("/"),
    "topic": str,
    "lang": _read_language,
}
_PROBLEMS = {
    "site": "site: {} is not the name of a host, such as example.org.",
    "source": "source: {} is not the name of a source.",
    "category": "category: {} is not a category, such as world/europe.",
    "topic": "topic: {} is not a topic.",
    "lang": "lang: {} is not the code of a language, such as de.",
}


def write_query(alternatives: tuple[Alternative, ...], *, only_wanted: bool = False) -> str:
    """Return alternatives in the syntax of PostgreSQL's to_tsquery. `only_wanted` leaves out what must not be there."""
    written = (" & ".join(_write_terms(one, only_wanted=only_wanted)) for one in alternatives)
    return " | ".join(f"({one})" for one in written if one)


def list_words(alternatives: tuple[Alternative, ...]) -> list[str]:
    """Return all wanted words, each once."""
    return list(dict.fromkeys(word for one in alternatives for term in one.wanted for word, _ in term.words))


def list_prefixes(alternatives: tuple[Alternative, ...]) -> list[str]:
    """Return the wanted lone characters."""
    return list(dict.fromkeys(term.words[0][0] for one in alternatives for term in one.wanted if term.is_prefix))


def _write_terms(alternative: Alternative, *, only_wanted: bool) -> Iterator[str]:
    for term in alternative.wanted:
        yield _write_term(term)
    if not only_wanted:
        for term in alternative.unwanted:
            yield f"!({_write_term(term)})"


def _write_term(term: Term) -> str:
    (first, _), *others = term.words
    # Words have letters, digits and their signs only, so quotes enclose them.
    written = f"'{first}'" + (":*" if term.is_prefix else "")
    return f"({written}" + "".join(f" <{distance}> '{word}'" for word, distance in others) + ")"
