"""The memory of a site's blocks, and articles that are read without them (issue 24)."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.core.site_memory import MAX_BLOCKS, MAX_PAGES, SiteMemory
from headwater.extraction.html.html_v1 import normalize_html
from headwater.extraction.html.site_blocks import hash_block
from headwater.extraction.registry import normalize_as

NOTICE = "The Harbour Times is an independent newspaper of the coast, and it has been printed every morning since 1911."
URL = "https://harbour.example/news/1"
_pages = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60), max_size=80)


def body(*paragraphs: str, heading: str = "The ferry") -> bytes:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<title>{heading}</title><body><article><h1>{heading}</h1>{text}</article>".encode()


def story(number: int) -> list[str]:
    return [
        f"The council decided on Monday that ferry {number} will sail from the old quay, because the new one is full. "
        f"Passengers of ferry {number} need to come {number + 5} minutes earlier than before.",
        f"A spokesperson of line {number} called the decision a good one for everyone who lives near the harbour.",
        f"The first boat of line {number} leaves at seven in the morning, and the last one at a quarter to midnight.",
    ]


def test_a_block_recurs_if_it_is_on_three_pages_and_on_a_fifth_of_the_pages() -> None:
    memory = SiteMemory().learn([[1, 10], [1, 11]])
    assert memory.recurring() == []
    memory = memory.learn([[1, 12]])
    assert memory.recurring() == [1]
    assert memory.learn([[100 + number] for number in range(13)]).recurring() == []


def test_a_block_counts_once_for_a_page() -> None:
    assert SiteMemory().learn([[1, 1, 1, 1]]).recurring() == []


def test_a_memory_forgets_what_its_site_has_dropped() -> None:
    memory = SiteMemory().learn([[1]] * 40)
    assert memory.recurring() == [1]
    assert memory.learn([[2]] * 200).recurring() == [2]


def test_rare_blocks_are_forgotten_first() -> None:
    memory = (
        SiteMemory().learn([[1, 2]] * 3).learn([list(range(number * 30, number * 30 + 30)) for number in range(1, 12)])
    )
    assert len(memory.counts) == MAX_BLOCKS
    assert {1, 2} <= set(memory.counts)
    assert memory.recurring() == [1, 2]


@given(_pages)
def test_a_memory_is_bounded_and_does_not_depend_on_how_pages_are_grouped(pages: list[list[int]]) -> None:
    memory = SiteMemory().learn(pages)
    assert len(memory.counts) <= MAX_BLOCKS
    assert memory.pages <= MAX_PAGES
    assert all(0 < count <= memory.pages for count in memory.counts.values())
    one_by_one = SiteMemory()
    for page in pages:
        one_by_one = one_by_one.learn([page])
    assert (one_by_one.pages, list(one_by_one.counts.items())) == (memory.pages, list(memory.counts.items()))


def test_a_known_block_is_left_out_of_text_and_markdown() -> None:
    article, blocks = normalize_html(body(*story(1), NOTICE), URL, None, None, [hash_block(NOTICE), 7])
    assert article.text == "\n\n".join(story(1))
    assert NOTICE not in article.markdown
    assert blocks.removed == (hash_block(NOTICE),)
    assert hash_block(NOTICE) in blocks.learned


def test_the_only_prose_of_a_page_is_never_left_out() -> None:
    page = body(NOTICE)
    known = [hash_block(NOTICE)]
    article, blocks = normalize_html(page, URL, None, None, known)
    assert NOTICE in article.text
    assert blocks.removed == ()
    assert normalize_html(page, URL, None, None)[0] == article


def test_headings_and_short_lines_are_never_left_out() -> None:
    heading = "The opinion of the readers of the Harbour Times"
    text = "".join(f"<p>{paragraph}</p>" for paragraph in story(1))
    page = f"<title>One</title><article><h1>One</h1>{text}<h2>{heading}</h2><p>Yes.</p>{text}</article>".encode()
    _, blocks = normalize_html(page, URL, None, None, [hash_block(heading), hash_block("Yes.")])
    assert blocks.removed == ()
    assert hash_block(heading) not in blocks.learned


def test_a_body_selector_of_the_source_decides_alone() -> None:
    page = body(*story(1), NOTICE)
    article, blocks = normalize_html(page, URL, None, {"body": "article"}, [hash_block(NOTICE)])
    assert NOTICE in article.text
    assert (blocks.removed, blocks.learned) == ((), ())


@given(
    shown=st.lists(st.sampled_from([NOTICE, *story(1), *story(2), "Short.", "A" * 300]), max_size=12),
    known=st.sets(st.sampled_from([NOTICE, *story(1), *story(2), "Another block that is on no page at all, ever."])),
)
def test_the_removed_blocks_alone_give_the_same_text_again(shown: list[str], known: set[str]) -> None:
    """The invariant of verify: a document pins only what was removed."""
    page = body(*story(3), *shown)
    first = normalize_as("html_v1", page, URL, None, None, [hash_block(text) for text in known])
    again = normalize_as("html_v1", page, URL, None, None, list(first.site_blocks.removed))
    assert again == first
    kept = set(first.article.text.split("\n\n"))
    whole = normalize_as("html_v1", page, URL, None)
    assert kept <= set(whole.article.text.split("\n\n"))
    assert set(whole.article.text.split("\n\n")) - kept <= known
    assert kept
