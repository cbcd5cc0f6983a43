"""What a page says, without the page around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.extraction.pdf.document import Artifact, BodyStatus


@dataclass(frozen=True, slots=True)
class Article:
    """The outcome of a normalizer.

    `provenance` names for each field where it came from, `confidence` tells how far it is to be trusted, from 0 to 1.
    """

    text: str
    title: str | None = None
    byline: str | None = None
    published_at: datetime | None = None
    updated_at: datetime | None = None
    language: str | None = None
    image: str | None = None
    abstract: str | None = None
    canonical_url: str | None = None
    markdown: str = ""
    body_status: BodyStatus = BodyStatus.OK
    artifacts: tuple[Artifact, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    confidence: Mapping[str, float] = field(default_factory=dict)
