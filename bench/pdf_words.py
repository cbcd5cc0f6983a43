"""Check the words and the reading order of a PDF against the text that pdfium reads."""

import itertools
import re
from collections import Counter

import pypdfium2

from headwater.extraction.pdf.headers_footers import remove_headers_and_footers
from headwater.extraction.pdf.page_content import PageContent, read_page


def missing_words(body: bytes, markdown: str) -> tuple[Counter[str], int]:
    """Return the missing words, and the number of expected ones, which excludes headers, footers and line numbers."""
    with pypdfium2.PdfDocument(body) as document:
        seen = _spoken(" ".join(page.get_textpage().get_text_range() for page in document))
        pages = [read_page(page) for page in document]
    whole = _all_words(pages)
    remove_headers_and_footers(pages)
    wanted = seen - (whole - _all_words(pages))
    return wanted - _spoken(markdown.replace("|", " ")), wanted.total()


def broken_joints(body: bytes, markdown: str) -> tuple[list[tuple[str, str]], int]:
    """Return the ends of lines that the start of the next line does not follow, and the number of checked ends.

    A file has its lines column by column. If the columns are interleaved, few lines follow each other.
    """
    with pypdfium2.PdfDocument(body) as document:
        texts = [page.get_textpage().get_text_range() for page in document]
    lines = [line.split() for text in texts for line in text.splitlines() if len(line.split()) >= 4]
    ends = ((one[-1], other[0]) for one, other in itertools.pairwise(lines))
    joints = [(end, start) for end, start in ends if end[-1:].islower() and start.islower()]
    written = " ".join(markdown.split())
    return [joint for joint in joints if " ".join(joint) not in written], len(joints)


def _spoken(text: str) -> Counter[str]:
    """Count words without punctuation at their edges. A word that is broken at the end of a line counts once."""
    words = (re.sub(r"[\W_]", "", word.replace("\ufffe", "")).lower() for word in text.split())
    return Counter(filter(None, words))


def _all_words(pages: list[PageContent]) -> Counter[str]:
    return _spoken(" ".join(word.text for page in pages for word in (*page.words, *page.aside)))
