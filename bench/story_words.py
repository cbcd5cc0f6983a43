"""Count in how many real pages each word is, for src/headwater/stories/common_words.txt: python -m bench.story_words.

The words of each language are counted apart, so that the articles of a rare language count as common words, too.
"""

from collections import Counter, defaultdict
from pathlib import Path

from bench.search_corpus import read_documents
from headwater.core.search_words import split_words

_FEWEST_PAGES, _FEWEST = 12, 3  # of a language; with a word
SHARES = (0.5, 0.25, 0.12, 0.06, 0.03)  # of the pages of a language
_TABLE = Path(__file__).parents[1] / "src" / "headwater" / "stories" / "common_words.txt"


def main() -> None:
    """Write the table: the words of each class in one line, the most common class first."""
    pages: Counter[str] = Counter()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for document in read_documents():
        language = document.language or ""
        pages[language] += 1
        counts[language].update({word.text for word in split_words(f"{document.title} {document.text}"[:20_000])})
    shares: defaultdict[str, float] = defaultdict(float)
    for language, words in counts.items():
        if pages[language] >= _FEWEST_PAGES:
            for word, number in words.items():
                if number >= _FEWEST:
                    shares[word] = max(shares[word], number / pages[language])
    lines = []
    least = 1.1
    for share in SHARES:
        lines.append(" ".join(sorted(word for word, found in shares.items() if share <= found < least)))
        least = share
    _TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
