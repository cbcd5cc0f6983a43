"""The format of the index `raw_content`: its template, its documents, and searches in its language. Pure.

The fields `words` and `titles` have the stems that PostgreSQL made, at their positions, and a search has the stems that
PostgreSQL made of it. So both find the same documents, and the index needs no analyzer of its own for a language. The
other fields are for other programs.
"""

import itertools
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headwater.db.search import MOST_COUNTED, SearchRequest
from headwater.db.search_index import IndexedDocument

ALIAS = "raw_content"
TEMPLATE = "headwater-raw-content"
_CONFIGURATION = "#"  # before the name of a configuration among the words
_TITLE_BOOST = 4.0
_RECENCY = 2.0
_FIELDS = {"lang": "language", "source": "source_id", "site": "site"}  # of marks
_GAP = "_"  # a word that PostgreSQL leaves out, such as "the"; other words have no such sign
_TOKEN = re.compile(r"'((?:[^']|'')*)'(:\*)?|<(?:(\d+)|-)>|([&|!()])|\s+")
_Json = dict[str, Any]
_KEYWORDS = "url host site source language region topics configuration canonical_url image content_hash"
_MAPPINGS: dict[str, _Json] = {
    "id source_id revision version": {"type": "long"},
    "published_at updated_at fetched_at dated_at": {"type": "date"},
    "title byline abstract text": {"type": "text"},
    "titles words": {"type": "text", "analyzer": "whitespace"},
    _KEYWORDS: {"type": "keyword", "ignore_above": 2000},
}


def make_template() -> _Json:
    """Return the index template."""
    return {
        "index_patterns": [f"{ALIAS}-*"],
        "priority": 200,
        "template": {
            "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
            "mappings": {
                "dynamic": "false",
                "_source": {"excludes": ["words", "titles"]},
                "properties": {name: mapping for names, mapping in _MAPPINGS.items() for name in names.split()},
            },
        },
    }


def make_document(document: IndexedDocument) -> _Json:
    """Return the fields of a document in the index."""
    parts = document.host.split(".")
    fields = {name: getattr(document, name) for name in document._fields}
    configuration = next(one for one in document.titles if one.startswith(_CONFIGURATION))
    return {
        **{name: value for name, value in fields.items() if value is not None},
        "site": [".".join(parts[number:]) for number in range(len(parts))],
        "configuration": configuration.strip().removeprefix(_CONFIGURATION),
        "titles": _join_words(document.titles),
        "words": _join_words(document.words),
    }


def _join_words(stems: Sequence[str]) -> str:
    """Return stems, each given with its positions, as a text with a word for each position."""
    places: dict[int, str] = {}
    more: list[str] = []  # at a position that has a word
    for stem, positions in (one.split(" ") for one in stems if not one.startswith(_CONFIGURATION)):
        for position in map(int, positions.split(",")):
            if position in places:
                more.append(stem)
            else:
                places[position] = stem
    last = max(places, default=0)
    return " ".join(itertools.chain((places.get(position, _GAP) for position in range(1, last + 1)), more))


def make_search(request: SearchRequest) -> _Json:
    """Return a search and its page."""
    prepared = request.prepared
    filters: list[_Json] = [
        {"range": {"id": {"lte": request.last_document}}},
        *_any_of("language", request.languages),
        *_any_of("source_id", request.source_ids),
        *_any_of("site", request.sites),
        *_any_of("topics", request.topics),
        *_any_of("topics", [request.topic] if request.topic is not None else None),
        *_make_range(request.after, request.before),
    ]
    if prepared.titled is not None:
        filters.append(_Translation(prepared.titled, "titles").translate())
    pairs = [mark.split(":", 1) for mark in request.unwanted_marks]
    excluded: list[_Json] = [{"term": {_FIELDS[name]: value}} for name, value in pairs]
    excluded += _any_of("topics", request.unwanted_topics)
    query: _Json = {
        "bool": {
            "must": [_Translation(prepared.wanted, "words").translate()],
            "filter": filters,
            "must_not": excluded,
        }
    }
    if prepared.in_titles and not request.newest_first:
        title = _Translation(prepared.in_titles, "titles").translate()
        query["bool"]["should"] = [{"constant_score": {"filter": title, "boost": _TITLE_BOOST}}]
    if not request.newest_first:
        news = {"exp": {"dated_at": {"origin": request.now, "scale": "30d", "decay": 0.5}}, "weight": _RECENCY}
        query = {"function_score": {"query": query, "functions": [news], "boost_mode": "sum"}}
    body: _Json = {
        "query": query,
        "size": request.limit,
        "_source": False,
        "track_total_hits": MOST_COUNTED + 1,
        "sort": [{"dated_at" if request.newest_first else "_score": "desc"}, {"id": "desc"}],
    }
    if request.after_hit:
        score = request.after_hit.score
        body["search_after"] = [int(score) if request.newest_first else score, request.after_hit.id]
    return body


class _Translation:
    """Translates a tsquery, as PostgreSQL writes it: `|` binds least, then `&`, then distances, then `!`."""

    def __init__(self, text: str, field: str) -> None:
        self._tokens = [match for match in _TOKEN.finditer(text) if not match[0].isspace()]
        self._next = 0
        self._field = field

    def translate(self) -> _Json:
        """Return the query."""
        return self._read_either()

    def _take(self, sign: str) -> bool:
        if self._next < len(self._tokens) and self._tokens[self._next][4] == sign:
            self._next += 1
            return True
        return False

    def _read_either(self) -> _Json:
        found = [self._read_all()]
        while self._take("|"):
            found.append(self._read_all())
        return found[0] if len(found) == 1 else {"bool": {"should": found, "minimum_should_match": 1}}

    def _read_all(self) -> _Json:
        found = [self._read_phrase()]
        while self._take("&"):
            found.append(self._read_phrase())
        return found[0] if len(found) == 1 else {"bool": {"must": found}}

    def _read_phrase(self) -> _Json:
        words = [self._read_one()]
        gaps = 0
        while self._next < len(self._tokens) and (distance := self._tokens[self._next])[0].startswith("<"):
            self._next += 1
            gaps += int(distance[3] or 1) - 1
            words.append(self._read_one())
        if len(words) == 1:
            return words[0]
        stems = [word["term"][self._field] for word in words if self._field in word.get("term", {})]
        if len(stems) < len(words):
            return {"bool": {"must": words}}
        return {"match_phrase": {self._field: {"query": " ".join(stems), "slop": gaps}}}

    def _read_one(self) -> _Json:
        if self._take("!"):
            return {"bool": {"must_not": [self._read_one()]}}
        if self._take("("):
            found = self._read_either()
            self._take(")")
            return found
        token = self._tokens[self._next]
        self._next += 1
        word = token[1].replace("''", "'")
        if token[2]:
            return {"prefix": {self._field: word}}
        if word.startswith(_CONFIGURATION):
            return {"term": {"configuration": word.removeprefix(_CONFIGURATION)}}
        return {"term": {self._field: word}}


def _any_of(field: str, values: Sequence[object] | None) -> list[_Json]:
    return [] if values is None else [{"terms": {field: list(values)}}]


def _make_range(after: datetime | None, before: datetime | None) -> list[_Json]:
    given = {name: moment for name, moment in (("gte", after), ("lt", before)) if moment}
    return [{"range": {"dated_at": given}}] if given else []
