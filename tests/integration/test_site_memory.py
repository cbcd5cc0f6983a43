"""Blocks that recur on the pages of a site are left out, and the texts can be derived again (issue 24)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.settings import Settings
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page

NOTICE = (
    "The Harbour Times is an independent newspaper of the coast. It has been printed every morning since 1911, and it "
    "belongs to the families who founded it."
)
FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html"}


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to)) as opened:
        yield opened


def address(number: int) -> str:
    return f"http://news.test/{number}"


def story(number: int, more: str = "") -> Answer:
    return Answer(page(f"matter {number}", extra=f"{more}<p>{NOTICE}</p>"), headers=HTML)


async def read_pages(site: Site, harness: AppHarness, *numbers: int) -> None:
    """Fetch pages one by one, so that each is read with what the earlier ones taught."""
    for number in numbers:
        site.answers[address(number)] = story(number)
        await harness.fetch(address(number))


async def read_again(harness: AppHarness, *numbers: int) -> None:
    await harness.operations.frontier.retry([address(number) for number in numbers])
    await harness.work()


async def texts(harness: AppHarness) -> dict[int, str]:
    return {int(url.rpartition("/")[2]): document.text for url, document in (await harness.documents()).items()}


async def verified(harness: AppHarness) -> tuple[int, int]:
    async with harness.operations.upkeep.verify() as report:
        return report.checked, report.wrong


async def test_a_notice_on_all_pages_is_in_the_first_three_texts_only(site: Site, harness: AppHarness) -> None:
    await read_pages(site, harness, *range(6))
    found = await texts(harness)
    assert [number for number, text in sorted(found.items()) if NOTICE in text] == [0, 1, 2]
    assert all(f"Paragraph 7 of matter {number}." in text for number, text in found.items())
    assert await verified(harness) == (6, 0)
    documents = await harness.documents()
    markdown = await harness.operations.documents.make_markdown(documents[address(5)].id)
    assert NOTICE not in markdown
    assert "Paragraph 7" in markdown


async def test_the_first_text_of_a_page_changes_only_if_the_page_does(site: Site, harness: AppHarness) -> None:
    """A page keeps the blocks that it was first read without, so memory alone makes no revision."""
    await read_pages(site, harness, *range(5))
    first = await texts(harness)
    await read_again(harness, *range(5))
    assert await texts(harness) == first
    assert {document.revision for document in (await harness.documents()).values()} == {1}
    for number in (0, 4):
        site.answers[address(number)] = story(number, f"<p>The harbour master has confirmed this, {number}.</p>")
    await read_again(harness, 0, 4)
    found = await texts(harness)
    assert (NOTICE in found[0], NOTICE in found[4]) == (True, False)
    assert all("harbour master" in found[number] for number in (0, 4))
    assert await verified(harness) == (5, 0)


async def test_pages_of_another_host_and_copies_of_a_page_teach_nothing(site: Site, harness: AppHarness) -> None:
    for number in range(5):
        url = f"http://n{number}.test/a"
        site.answers[url] = story(number)
        await harness.fetch(url)
    for name in "abcde":
        site.answers[f"http://copies.test/{name}"] = story(9)
        await harness.fetch(f"http://copies.test/{name}")
    assert all(NOTICE in document.text for document in (await harness.documents()).values())


async def test_the_memory_of_a_host_is_one_row(site: Site, harness: AppHarness) -> None:
    await read_pages(site, harness, *range(8))
    rows = await harness.rows("SELECT host, pages, cardinality(blocks), 8 = ANY (counts) FROM site_memory")
    assert [(host, pages, has_notice) for host, pages, _, has_notice in rows] == [("news.test", 8, True)]
    assert rows[0][2] <= 256
