"""Any file, read by the normalizer that fits, with how that ended: what `headwater normalize` shows."""

from dataclasses import dataclass

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.article import Article
from headwater.extraction.pdf.document import BodyStatus
from headwater.extraction.registry import normalize_as
from headwater.extraction.sniffing import choose


@dataclass(frozen=True, slots=True)
class Reading:
    """What a body says. Without text it has a `reason`; only PDFs have a `page_count`."""

    normalizer: str | None = None
    reason: Reason | None = None
    message: str = ""
    page: Article | None = None
    page_count: int | None = None


def read(body: bytes, url: str, content_type: str | None) -> Reading:
    """Read what came from `url`; what cannot be read is told, not raised."""
    name = None
    try:
        name = choose(body, content_type)
        if name == "pdf_v1":
            return _read_pdf(body)
        return Reading(name, page=normalize_as(name, body, url, content_type).article)
    except Unreadable as error:
        return Reading(name, error.reason, str(error))


def _read_pdf(body: bytes) -> Reading:
    from headwater.extraction.pdf.pdf_v1 import extract_pdf

    pdf = extract_pdf(body)
    page = Article(pdf.markdown, pdf.title, markdown=pdf.markdown, artifacts=pdf.artifacts)
    if pdf.status is BodyStatus.OK:
        return Reading("pdf_v1", page=page, page_count=pdf.page_count)
    reason = Reason.of(pdf.status)
    return Reading("pdf_v1", reason, reason.sentence, page, pdf.page_count)
