"""A document: what one URL said when it was fetched, with its provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.core.article import Article


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document about to be saved; `raw_path` is below the corpus folder and its bytes hash to `raw_hash`.

    `fetched_url`, `content_type` and `selectors` are what its normalizer was given besides the bytes: with them the
    same text can be derived from the raw file again.
    """

    article: Article
    content_hash: bytes
    normalizer: str
    raw_path: str
    raw_hash: bytes
    raw_bytes: int
    fetched_url: str
    content_type: str | None
    selectors: Mapping[str, str] = field(default_factory=dict)
