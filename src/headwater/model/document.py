"""A document: what one URL said when it was fetched, with its provenance."""

from dataclasses import dataclass

from headwater.model.article import Article


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document about to be saved; `raw_path` is below the corpus folder and its bytes hash to `raw_hash`."""

    article: Article
    content_hash: bytes
    normalizer: str
    raw_path: str
    raw_hash: bytes
    raw_bytes: int
