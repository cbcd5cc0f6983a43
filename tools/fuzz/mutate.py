"""Changes of inputs: of bytes, of tokens (tags, words, numbers), and of sizes."""

import random
import re
from collections.abc import Sequence

_TOKEN = re.compile(rb"<[^<>]{0,400}>|[A-Za-z]+|[0-9]+|\s+|.", re.DOTALL)
_OPENING = re.compile(rb"<[A-Za-z][^<>]{0,200}>|<<|\[|\(|\{")
_NUMBER = re.compile(rb"[0-9]+")
_WINDOW = 2_000  # tokens are changed in a window, because a long input has too many of them
_CHANGES = (1, 1, 1, 2, 2, 4, 8, 24)
_NUMBERS = (b"0", b"-1", b"1", b"65536", b"2147483648", b"4294967295", b"18446744073709551616", b"1e999", b"9" * 400)
_BYTES = (
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc3\x28",
    b"\r",
    b"\n",
    b"\x1a",
    b"\xe2\x80\xae",
)


class Mutator:
    """Makes new inputs from known ones. The words are those of the format that is read."""

    def __init__(self, chance: random.Random, words: Sequence[bytes], max_bytes: int) -> None:
        self._chance = chance
        self._words = words
        self._max_bytes = max_bytes
        self._steps = (
            self._change_byte,
            self._insert_bytes,
            self._remove_part,
            self._repeat_part,
            self._insert_word,
            self._swap_tokens,
            self._nest_token,
            self._replace_number,
            self._cut_off,
        )

    def mutate(self, known: bytes, other: bytes) -> bytes:
        """Return the input after a few changes. Parts of another input may become part of it."""
        made = self._splice(known, other) if self._chance.random() < 0.1 else known
        for _ in range(self._chance.choice(_CHANGES)):
            made = self._chance.choice(self._steps)(made)[: self._max_bytes]
        return made

    def _place(self, body: bytes) -> int:
        return self._chance.randint(0, len(body))

    def _part(self, body: bytes) -> tuple[int, int]:
        begin = self._place(body)
        return begin, min(len(body), begin + int(2 ** self._chance.uniform(0, 12)))

    def _times(self, size: int) -> int:
        """Choose how often to repeat a part: seldom very often."""
        times = int(2 ** self._chance.uniform(1, 16 if self._chance.random() < 0.03 else 4))
        return min(times, self._max_bytes // max(1, size))

    def _change_byte(self, body: bytes) -> bytes:
        if not body:
            return self._insert_bytes(body)
        at = self._chance.randrange(len(body))
        return body[:at] + bytes([self._chance.randrange(256)]) + body[at + 1 :]

    def _insert_bytes(self, body: bytes) -> bytes:
        at = self._place(body)
        return body[:at] + self._chance.choice(_BYTES) + body[at:]

    def _remove_part(self, body: bytes) -> bytes:
        begin, end = self._part(body)
        return body[:begin] + body[end:]

    def _repeat_part(self, body: bytes) -> bytes:
        begin, end = self._part(body)
        return body[:begin] + body[begin:end] * self._times(end - begin) + body[end:]

    def _insert_word(self, body: bytes) -> bytes:
        at, word = self._place(body), self._chance.choice(self._words)
        return body[:at] + word * (1 if self._chance.random() < 0.8 else self._times(len(word))) + body[at:]

    def _window(self, body: bytes) -> tuple[int, int]:
        begin = max(0, self._place(body) - _WINDOW // 2)
        return begin, begin + _WINDOW

    def _swap_tokens(self, body: bytes) -> bytes:
        begin, end = self._window(body)
        tokens: list[bytes] = _TOKEN.findall(body[begin:end])
        if len(tokens) < 2:
            return body
        one, other = self._chance.randrange(len(tokens)), self._chance.randrange(len(tokens))
        tokens[one], tokens[other] = tokens[other], tokens[one]
        return body[:begin] + b"".join(tokens) + body[end:]

    def _nest_token(self, body: bytes) -> bytes:
        begin, end = self._window(body)
        tags: list[bytes] = _OPENING.findall(body[begin:end])
        if not tags:
            return self._insert_word(body)
        at, tag = self._place(body), self._chance.choice(tags)
        return body[:at] + tag * self._times(len(tag)) + body[at:]

    def _replace_number(self, body: bytes) -> bytes:
        begin, end = self._window(body)
        spans = [found.span() for found in _NUMBER.finditer(body, begin, end)]
        if not spans:
            return self._change_byte(body)
        begin, end = self._chance.choice(spans)
        return body[:begin] + self._chance.choice(_NUMBERS) + body[end:]

    def _cut_off(self, body: bytes) -> bytes:
        return body[: self._place(body)] if self._chance.random() < 0.3 else self._change_byte(body)

    def _splice(self, one: bytes, other: bytes) -> bytes:
        return one[: self._place(one)] + other[self._place(other) :]
