"""Each page that a kind yields has its own path for raw bytes (spec 1.5, issue 5)."""

from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Item
from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.sources.kind import check_item, refuse_shared_paths
from headwater.storage.folder import Corpus
from tests.kinds import LedgerKind


def item(number: int) -> Item:
    return Item(url=f"http://news.test/{number}", title="A record")


def are_accepted(places: list[str]) -> bool:
    try:
        refuse_shared_paths("votes", [(item(number), place) for number, place in enumerate(places)])
    except HeadwaterError:
        return False
    return True


def can_all_be_kept(places: list[str], folder: Path) -> bool:
    corpus = Corpus(folder)
    try:
        raw = [corpus.write("votes", place, place.encode()) for place in places]
    except StorageFailed:
        return False
    return len({file.path for file in raw}) == len(places)


def test_a_path_below_another_page_is_refused_with_both_pages() -> None:
    for order in ([(item(1), "a/b"), (item(2), "a/b/c/d")], [(item(2), "a/b/c/d"), (item(1), "a/b")]):
        with pytest.raises(HeadwaterError) as refused:
            refuse_shared_paths("votes", order)
        assert refused.value.reason is Reason.BAD_SOURCE
        assert str(refused.value) == (
            "Source votes: partition: 'a/b' is given to http://news.test/1, "
            "and 'a/b/c/d' to http://news.test/2, which would need it as a folder."
        )


def test_a_page_that_is_listed_twice_may_keep_its_path() -> None:
    refuse_shared_paths("votes", [(item(1), "a"), (item(1), "a/b"), (item(2), None)])


@given(st.lists(st.lists(st.sampled_from(["a", "b", "a0", "a "]), min_size=1, max_size=3).map("/".join), max_size=5))
def test_paths_are_accepted_only_if_all_files_can_be_written(places: list[str]) -> None:
    with TemporaryDirectory() as folder:
        assert are_accepted(places) == can_all_be_kept(places, Path(folder))


@pytest.mark.parametrize("spelling", ["2026/x.html", "2026//x.html", "./2026/x.html", "2026/./x.html", "2026/x.html/"])
def test_a_path_is_normalized(spelling: str) -> None:
    """Otherwise two spellings would count as two paths."""
    kind = LedgerKind(lists=(), subpath=spelling)
    assert check_item("votes", kind, item(1)) == "2026/x.html" == str(PurePosixPath(spelling))
