"""The normalizers by name. A version that has stored documents never changes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.article import Article, BodyStatus
from headwater.extraction.html.html_v1 import normalize_html
from headwater.extraction.html.site_blocks import SiteBlocks
from headwater.extraction.json_v1 import normalize_json
from headwater.extraction.sniffing import choose_normalizer
from headwater.extraction.xml.xml_v1 import normalize_xml

Selectors = Mapping[str, str] | None


_Reader = Callable[[bytes, str, str | None, Selectors], Article]
_SiteReader = Callable[[bytes, str, str | None, Selectors, Collection[int]], tuple[Article, SiteBlocks]]


def _normalize_pdf(body: bytes, url: str, content_type: str | None, selectors: Selectors) -> Article:
    from headwater.extraction.pdf.pdf_v1 import normalize_pdf  # imported late: it needs large libraries

    return normalize_pdf(body, url, content_type, selectors)


def _ignore_site(read: _Reader) -> _SiteReader:
    return lambda body, url, content_type, selectors, _: (read(body, url, content_type, selectors), SiteBlocks())


NORMALIZERS: dict[str, _SiteReader] = {
    "html_v1": normalize_html,
    "json_v1": _ignore_site(normalize_json),
    "pdf_v1": _ignore_site(_normalize_pdf),
    "xml_v1": _ignore_site(normalize_xml),
}


@dataclass(frozen=True, slots=True)
class NormalizedPage:
    """An article, the name of its normalizer, the SHA-256 of its text in hex, and blocks that its site may share."""

    normalizer: str
    article: Article
    content_hash: str
    site_blocks: SiteBlocks


@dataclass(frozen=True, slots=True)
class FileReading:
    """The result of reading any file. Without text it has a `reason`. Only PDFs have a `page_count`."""

    normalizer: str | None = None
    reason: Reason | None = None
    message: str = ""
    page: Article | None = None
    page_count: int | None = None


def normalize(
    body: bytes, url: str, content_type: str | None, selectors: Selectors = None, known_blocks: Collection[int] = ()
) -> NormalizedPage:
    """Read the body from `url` with the normalizer that fits. Raises Unreadable if there is none, or if it fails.

    `known_blocks` are the hashes of blocks that recur on the pages of the site. An article is read without them.
    """
    return normalize_as(choose_normalizer(body, content_type), body, url, content_type, selectors, known_blocks)


def normalize_as(
    name: str,
    body: bytes,
    url: str,
    content_type: str | None,
    selectors: Selectors = None,
    known_blocks: Collection[int] = (),
) -> NormalizedPage:
    """Read the body with the normalizer of that name. The same input always gives the same result.

    A raw file and the URL, content type, normalizer, selectors and removed blocks in the row of its document are enough
    to derive its text again.
    """
    article, site_blocks = NORMALIZERS[name](body, url, content_type, selectors, known_blocks)
    return NormalizedPage(name, article, sha256(article.text.encode()).hexdigest(), site_blocks)


def read_file(body: bytes, url: str, content_type: str | None) -> FileReading:
    """Read a file and report what prevents it. Reports the page count and the status of a PDF."""
    name = None
    try:
        name = choose_normalizer(body, content_type)
        if name == "pdf_v1":
            return _read_pdf(body)
        return FileReading(name, page=normalize_as(name, body, url, content_type).article)
    except Unreadable as error:
        return FileReading(name, error.reason, str(error))


def _read_pdf(body: bytes) -> FileReading:
    from headwater.extraction.pdf.pdf_v1 import extract_pdf

    pdf = extract_pdf(body)
    page = Article(pdf.markdown, pdf.title, markdown=pdf.markdown, artifacts=pdf.artifacts)
    if pdf.status is BodyStatus.OK:
        return FileReading("pdf_v1", page=page, page_count=pdf.page_count)
    reason = Reason.of(pdf.status)
    return FileReading("pdf_v1", reason, reason.sentence, page, pdf.page_count)
