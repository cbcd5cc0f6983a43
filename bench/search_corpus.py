"""Documents and queries for the bench of search: real pages, and a large generated corpus."""

import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from bench.extract_pages import read_pages
from headwater import HeadwaterError, extract_html
from headwater.core.urls import host_of, normalize_url

NEWEST = datetime(2026, 7, 1, tzinfo=UTC)
WORDS_OF_A_DOCUMENT = 200
_VOCABULARY = 200_000
_SHORTEST_TEXT = 300
_UNSPACED = ("ja", "zh", "th")
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "il", "or", "un")]


@dataclass(frozen=True, slots=True)
class Document:
    """A document to search for."""

    url: str
    title: str
    language: str | None
    published_at: datetime
    text: str

    @property
    def host(self) -> str:
        """The host of its URL."""
        return host_of(self.url)


@dataclass(frozen=True, slots=True)
class Query:
    """A search, and the document that it must find."""

    words: str
    expected: int
    language: str
    sort: str


def read_documents() -> list[Document]:
    """Return the real pages of the corpora that have a title and a text, each text once."""
    found: dict[str, Document] = {}
    for page in read_pages():
        try:
            article = extract_html(page.body(), url=page.url)
            url = normalize_url(page.url or f"http://{page.corpus}.test/{page.name}")
        except HeadwaterError:
            continue
        if len(article.text) >= _SHORTEST_TEXT and article.title:
            document = Document(url, article.title, article.language, article.published_at or NEWEST, article.text)
            found.setdefault(article.text, document)
    return list({document.url: document for document in found.values()}.values())


def choose_queries(documents: Sequence[Document], number: int, languages: Sequence[str]) -> list[Query]:
    """Return titles and rare phrases, as people type them: in small letters, and half of them without accents."""
    chance = random.Random(23)
    titles = Counter(document.title.lower() for document in documents)
    by_language: dict[str, list[tuple[int, Document]]] = defaultdict(list)
    for place, document in enumerate(documents):
        if document.language is not None and document.language in languages:
            by_language[document.language].append((place, document))
    queries: list[Query] = []
    for language in languages:
        chance.shuffle(by_language[language])
    turn = 0
    while len(queries) < number and any(by_language.values()):
        for language in languages:
            if not by_language[language] or len(queries) >= number:
                continue
            place, document = by_language[language].pop()
            phrase = _rare_phrase(document, documents, chance)
            turn += 1
            for words, sort in ((document.title, "title"), (f'"{phrase}"' if phrase else "", "phrase")):
                if words and (sort == "phrase" or titles[words.lower()] == 1):
                    typed = words.lower() if turn % 2 else _without_accents(words.lower())
                    queries.append(Query(typed, place, language, sort))
    return queries[:number]


def _rare_phrase(document: Document, documents: Sequence[Document], chance: random.Random) -> str | None:
    """Return some words of a text that no other text has."""
    for _ in range(20):
        if document.language in _UNSPACED:
            start = chance.randrange(max(1, len(document.text) - 8))
            phrase = document.text[start : start + 8]
            is_usable = phrase.isalpha()
        else:
            words = document.text.split()
            start = chance.randrange(max(1, len(words) - 5))
            phrase = " ".join(words[start : start + 5])
            is_usable = all(word.isalpha() for word in phrase.split()) and len(phrase) > 20
        if is_usable and sum(phrase in other.text for other in documents) == 1:
            return phrase
    return None


def _without_accents(text: str) -> str:
    return "".join(mark for mark in unicodedata.normalize("NFD", text) if not 0x300 <= ord(mark) < 0x370)


class GeneratedCorpus:
    """Documents of invented words, whose frequencies fall as in a real language: the n-th word has a share of 1/n."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        words = dict.fromkeys(
            "".join(self._chance.choices(_SYLLABLES, k=self._chance.randint(2, 4))) for _ in range(2 * _VOCABULARY)
        )
        self._words = list(words)[:_VOCABULARY]
        self._shares = list(accumulate(1 / (rank + 10) for rank in range(len(self._words))))

    def documents(self, number: int) -> Iterator[Document]:
        """Yield documents, the oldest first: three a minute on a hundred sites."""
        for n in range(number):
            words = self._chance.choices(self._words, cum_weights=self._shares, k=WORDS_OF_A_DOCUMENT)
            published = NEWEST - timedelta(seconds=20 * (number - n))
            url = f"https://site-{n % 100}.example/{n}"
            yield Document(url, " ".join(words[:8]).capitalize(), "en", published, " ".join(words[8:]))

    def queries(self, number: int, some: Sequence[Document]) -> dict[str, list[str]]:
        """Return searches of several sorts."""
        chance = random.Random(11)
        one_of = chance.choice

        def phrase(document: Document, length: int) -> str:
            words = document.text.split()
            start = chance.randrange(len(words) - length)
            return " ".join(words[start : start + length])

        return {
            "title": [one_of(some).title for _ in range(number)],
            "phrase": [f'"{phrase(one_of(some), 3)}"' for _ in range(number)],
            "two words": [
                f"{one_of(one_of(some).text.split())} {one_of(one_of(some).text.split())}" for _ in range(number)
            ],
            "one word": [one_of(one_of(some).text.split()) for _ in range(number)],
            "common words": [" ".join(chance.sample(self._words[:100], 2)) for _ in range(number)],
            "common word of a site": [
                f"{one_of(self._words[:100])} site:site-{chance.randrange(100)}.example" for _ in range(number)
            ],
            "words in a month": [
                f"{one_of(self._words[:2000])} after:2026-0{month}-01 before:2026-0{month + 1}-01"
                for month in (chance.randint(1, 5) for _ in range(number))
            ],
            "either, not": [
                f"{one_of(self._words[:5000])} OR {one_of(self._words[:5000])} -{one_of(self._words[:100])}"
                for _ in range(number)
            ],
        }
