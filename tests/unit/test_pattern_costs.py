"""No text from the web makes a pattern slow (spec 4.3)."""

import importlib
import inspect
import itertools
import pkgutil
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater import extract_pdf
from headwater.extraction.pdf.dehyphenation import join_lines
from headwater.extraction.pdf.page_content import SOFT_HYPHEN
from tests.unit.pdf_writer import page_of, pdf

PACKAGES = ("core", "extraction", "feeds", "politeness", "sources", "http")
SHORT, LONGER = 600, (2000, 5000, 10_000, 20_000)  # characters
SUSPECT, TOO_LONG = 0.0004, 0.5  # seconds of CPU of this thread
LONG_FOR_A_PDF = 1.5
OPERATIONS = ("search", "match", "fullmatch", "sub", "finditer", "findall", "split")
# The longest texts of patterns whose callers limit them.
CUT: dict[str, int] = {
    "headers_footers._PAGE_NUMBER": 40,
    "dehyphenation._ADDRESS": 300,
    "pdf_blocks._NO_TITLE": 300,
    **{f"interstitials._{sort}_NAMES": 120 for sort in ("CHALLENGE", "NOT_FOUND", "LOGIN")},
    **{f"interstitials._{sort}_SENTENCES": 400 for sort in ("CHALLENGE", "NOT_FOUND", "LOGIN", "CONSENT")},
    **{f"interstitials.{name}": 400 for name in ("_CONSENT_PROSE", "_POLICY", "_AGREE")},
}
OF_CATEGORY = {
    sre.CATEGORY_DIGIT: "1",
    sre.CATEGORY_SPACE: " \n",
    sre.CATEGORY_WORD: "a_1",
    sre.CATEGORY_NOT_DIGIT: "a ",
    sre.CATEGORY_NOT_SPACE: "a.",
    sre.CATEGORY_NOT_WORD: ". ",
}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(headwater.__path__, "headwater."):
        if found.name.split(".")[1] in PACKAGES and "skeleton" not in found.name:
            yield importlib.import_module(found.name)


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(patterns_in, (*value, *value.values())))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from itertools.chain.from_iterable(map(patterns_in, value))


def operations(module: ModuleType, name: str) -> list[str]:
    """Return the operations of a module on a pattern, by its name. A pattern of a list is used through a variable."""
    source = inspect.getsource(module)
    used = [one for one in OPERATIONS if re.search(rf"\b{name}\.{one}\b", source)]
    is_elsewhere = name.isupper() and not name.startswith("_")
    return used or [one for one in OPERATIONS if not is_elsewhere and re.search(rf"\b[a-z]{{3,}}\.{one}\b", source)]


def every_pattern() -> dict[str, tuple[re.Pattern[Any], list[str]]]:
    found: dict[str, tuple[re.Pattern[Any], list[str]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for number, pattern in enumerate(patterns_in(value)):
                key = f"{module.__name__.rpartition('.')[2]}.{name}" + (f"[{number}]" if number else "")
                found[key] = pattern, operations(module, name)
    return found


def pieces_of(tree: Any) -> Iterator[str]:
    """Yield the characters and the words of a pattern."""
    word = ""
    for kind, value in tree:
        if kind is sre.LITERAL:
            word += chr(value)
            yield chr(value)
            continue
        yield word[:12]
        word = ""
        if kind is sre.NOT_LITERAL:
            yield from ("x", chr(value))
        elif kind is sre.ANY:
            yield "x"
        elif kind is sre.IN:
            yield from _members(value)
        elif kind is sre.BRANCH:
            yield from itertools.chain.from_iterable(map(pieces_of, value[1]))
        elif kind is sre.ATOMIC_GROUP:
            yield from pieces_of(value)
        elif isinstance(value, tuple) and isinstance(value[-1], sre_parser.SubPattern):
            yield from pieces_of(value[-1])
    yield word[:12]


def _members(members: Any) -> Iterator[str]:
    for kind, value in members:
        if kind is sre.LITERAL:
            yield chr(value)
        elif kind is sre.RANGE:
            yield from map(chr, value)
        elif kind is sre.CATEGORY:
            yield from OF_CATEGORY[value]
        elif kind is sre.NEGATE:
            yield from "x "


def shapes(pattern: re.Pattern[Any], most: int = 8) -> Iterator[tuple[str, str, str]]:
    """Yield the beginning, the repeated part and the end of a slow text."""
    found = dict.fromkeys(filter(None, pieces_of(sre_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))))
    bases = sorted(dict.fromkeys((*found, "a", " ", ".", "1", "_")), key=lambda base: (base.isalpha(), len(base), base))
    few = bases[:most]
    units = [*bases[:30], *map("".join, itertools.permutations(few, 2))]
    begins = dict.fromkeys(("", *itertools.islice(found, 1)))
    yield from itertools.product(begins, units, ("", "\0", " ,"))


def written(shape: tuple[str, str, str], length: int, pattern: re.Pattern[Any]) -> Any:
    begin, unit, end = shape
    text = begin + unit * (length // len(unit)) + end
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


def seconds(pattern: re.Pattern[Any], operation: str, text: Any) -> float:
    began = time.thread_time()
    if operation == "sub":
        pattern.sub(text[:0], text)
    elif operation == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, operation)(text)
    return time.thread_time() - began


def slow(key: str, pattern: re.Pattern[Any], operation: str) -> str | None:
    """Return the shape of a slow text, or None."""
    most = CUT.get(key, LONGER[-1])
    costs = {shape: seconds(pattern, operation, written(shape, min(SHORT, most), pattern)) for shape in shapes(pattern)}
    worst = max(costs, key=lambda shape: costs[shape])
    if costs[worst] < SUSPECT:
        return None
    is_slow = any(
        seconds(pattern, operation, written(worst, min(most, length), pattern)) > TOO_LONG for length in LONGER
    )
    return f"{key}.{operation} on {worst}" if is_slow else None


def test_no_pattern_takes_long_on_a_text_of_its_own_parts() -> None:
    found = every_pattern()
    assert len(found) > 100
    assert set(CUT) <= set(found)
    told = (slow(key, pattern, one) for key, (pattern, used) in found.items() for one in used)
    assert not list(filter(None, told))


def test_a_slow_pattern_is_found() -> None:
    pattern = re.compile(r"(?<![^\W_])_+(?=[^\s_])")
    assert slow("planted", pattern, "search")
    assert not slow("planted", pattern, "match")


@pytest.mark.parametrize(
    "lines",
    [
        ["1." * 10_000 + "a"],
        ["." * 10_000 + "abcdefghijkl", "and so on"],
        ["_" * 20_000 + " a name, if there is one"],
    ],
    ids=lambda lines: lines[0][:4],
)
def test_no_line_of_a_pdf_takes_long_to_read(lines: list[str]) -> None:
    began = time.thread_time()
    assert extract_pdf(pdf([page_of(*lines, top=80), page_of(*lines)])).status == "ok"
    assert time.thread_time() - began < LONG_FOR_A_PDF


def test_no_title_of_a_pdf_takes_long_to_read() -> None:
    began = time.thread_time()
    assert extract_pdf(pdf([page_of("Ferries")], title="_" * 20_000 + " ,")).title == "Ferries"
    assert time.thread_time() - began < LONG_FOR_A_PDF


def test_many_lines_are_joined_as_quickly_as_few() -> None:
    began = time.thread_time()
    assert join_lines(["ab-"] * 40_000) == "ab-" * 40_000
    assert join_lines(["www.a.test/a", "7" * 20_000]).startswith("www.a.test/a 7")
    assert time.thread_time() - began < LONG_FOR_A_PDF


@given(st.lists(st.text(f"aB1-./ {SOFT_HYPHEN}", max_size=9).map(str.strip).filter(bool), max_size=9))
def test_joining_all_lines_equals_joining_one_by_one(lines: list[str]) -> None:
    whole = ""
    for line in lines:
        whole = join_lines([whole, line]) if whole else line
    assert join_lines(lines) == whole
