"""The stories of the demo web. The same seed, headline, topic and language give the same words on every run.

The phrases are in `words/<language>.txt`; a new language is one more such file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from random import Random
from string import Template

_SECTION = re.compile(r"\[(.+)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_GENERAL_SENTENCES = (24, 32)  # with the sentences of the topic, 600 to 1,500 words
_SENTENCES_PER_PARAGRAPH = (2, 4)
_NAMES, _NAMES_OF_A_STORY = frozenset({"slot place", "slot person", "slot body"}), 4
_WITHOUT_SPACES = frozenset({"ja", "zh"})


@cache
def read_file(*path: str) -> str:
    """Return the text of a file of this package."""
    return resources.files(__package__).joinpath(*path).read_text("utf-8").rstrip("\n")


@cache
def template(*path: str) -> Template:
    """Return a template below `looks/`."""
    return Template(read_file("looks", *path))


@dataclass(frozen=True, slots=True)
class Part:
    """A heading and the paragraphs below it. The first part of a story has no heading."""

    heading: str | None
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoStory:
    """The content of a page, without its HTML."""

    headline: str
    topic: str
    language: str
    byline: str
    parts: tuple[Part, ...]

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """All paragraphs in reading order."""
        return tuple(paragraph for part in self.parts for paragraph in part.paragraphs)

    @property
    def summary(self) -> str:
        """The first sentence, which feeds and teasers show."""
        return self.parts[0].paragraphs[0]


@lru_cache(maxsize=8192)  # a page, its feed and a check of both use the same story
def write_story(headline: str, *, topic: str, language: str = "en", seed: int = 1) -> DemoStory:
    """Write the story of these arguments."""
    random = Random(f"{seed}/{language}/{topic}/{headline}")  # noqa: S311 - not a secret
    writer = _Writer(_phrases(language), random, headline, "" if language in _WITHOUT_SPACES else " ")
    body = writer.paragraphs(topic)
    third = len(body) // 3
    parts = (
        Part(None, tuple(body[:third])),
        Part(writer.heading(), tuple(body[third : 2 * third])),
        Part(writer.heading(), tuple(body[2 * third :])),
    )
    return DemoStory(headline, topic, language, writer.fill("{person}"), parts)


@dataclass(slots=True)
class _Writer:
    """Draws phrases like cards: no phrase comes twice before the whole deck is used."""

    phrases: Mapping[str, tuple[str, ...]]
    random: Random
    headline: str
    between: str  # two sentences
    decks: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def heading(self) -> str:
        return self.fill(self.draw("heading"))

    def paragraphs(self, topic: str) -> list[str]:
        topical = self.phrases.get(f"topic {topic}", ())
        count = min(self.random.randint(*_GENERAL_SENTENCES), len(self.phrases["general"]))
        sentences = [*topical, *(self.draw("general") for _ in range(count))]
        self.random.shuffle(sentences)
        paragraphs = [self.fill(self.draw("lead"))]
        while sentences:
            size = self.random.randint(*_SENTENCES_PER_PARAGRAPH)
            paragraphs.append(self.between.join(self.fill(sentence) for sentence in sentences[:size]))
            del sentences[:size]
        return paragraphs

    def fill(self, phrase: str) -> str:
        slots = {"headline": self.headline}
        filled = _SLOT.sub(lambda slot: slots.get(slot[1]) or self.draw(f"slot {slot[1]}"), phrase)
        return filled[0].upper() + filled[1:]

    def draw(self, section: str) -> str:
        deck = self.decks.setdefault(section, [])
        if not deck:
            chosen = self.phrases[section]
            if section in _NAMES and len(chosen) > _NAMES_OF_A_STORY:
                # A story keeps to a few names, so that stories about other events have other names.
                chosen = self.names.setdefault(section, tuple(self.random.sample(chosen, _NAMES_OF_A_STORY)))
            deck.extend(chosen)
            self.random.shuffle(deck)
        return deck.pop()


@cache
def _phrases(language: str) -> Mapping[str, tuple[str, ...]]:
    text = read_file("words", f"{language}.txt")
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if heading := _SECTION.fullmatch(line):
            lines = sections.setdefault(heading[1], [])
        elif not line.startswith("#"):
            lines.append(line)
    return {name: tuple(phrases) for name, phrases in sections.items()}
