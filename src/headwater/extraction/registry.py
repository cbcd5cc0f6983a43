"""Which normalizer reads which bytes. A version that has stored documents stays here as it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from headwater.extraction.article import Article
from headwater.extraction.html.html_v1 import normalize_html
from headwater.extraction.sniffing import choose


def _normalize_pdf(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    # imported here: it brings readers of PDF, which only the sandbox needs
    from headwater.extraction.pdf.pdf_v1 import normalize_pdf

    return normalize_pdf(body, url, content_type, selectors)


def _normalize_json(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    from headwater.extraction.json_v1 import normalize_json

    return normalize_json(body, url, content_type, selectors)


def _normalize_xml(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    # imported here, as that of JSON: few processes ever meet such documents
    from headwater.extraction.xml.xml_v1 import normalize_xml

    return normalize_xml(body, url, content_type, selectors)


Normalizer = Callable[[bytes, str, str | None, Mapping[str, str] | None], Article]
NORMALIZERS: dict[str, Normalizer] = {
    "html_v1": normalize_html,
    "json_v1": _normalize_json,
    "pdf_v1": _normalize_pdf,
    "xml_v1": _normalize_xml,
}


@dataclass(frozen=True, slots=True)
class NormalizedPage:
    """An article, the normalizer that made it, and the identity of its text: the SHA-256 of it, in hex."""

    normalizer: str
    article: Article
    content_hash: str


def normalize(
    body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None = None
) -> NormalizedPage:
    """Return what the bytes from `url` say. Raises Unreadable where no normalizer can tell."""
    return normalize_as(choose(body, content_type), body, url, content_type, selectors)


def normalize_as(
    name: str, body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None = None
) -> NormalizedPage:
    """Return what the normalizer of that name, one of NORMALIZERS, reads: the same from the same, at any time.

    So a document's text can be derived again from its raw file, with the address and the content type that its row
    keeps beside the normalizer's name.
    """
    article = NORMALIZERS[name](body, url, content_type, selectors)
    return NormalizedPage(name, article, sha256(article.text.encode()).hexdigest())
