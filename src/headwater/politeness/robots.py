"""Reads robots.txt by RFC 9309. Numbers such as 2.2.2 are its sections."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple
from urllib.parse import urlsplit

from headwater.core.errors import InvalidURL
from headwater.core.urls import join_url

# 2.5: a reader must read at least this much. This one ignores the rest.
MAX_BYTES = 500 * 1024
_KEPT_PARSED = 32
_MOST_SITEMAPS = 500
_SHOWN_CHARACTERS = 200

# The product token ends where its version starts. In "Mozilla/5.0 (compatible; Name/1.0)" it is the name.
_PRODUCT_TOKEN = re.compile(r"\s*(?:mozilla/\S+\s+\(compatible;\s*)?([^\s/;()]*)", re.IGNORECASE)
# Other readers accept these misspellings, too, and a missing colon.
_RECORD = re.compile(
    r"(?:(?P<agent>user[- ]?agent)|(?P<disallow>diss?all?ow|diasllow|disallaw)|(?P<allow>allow)"
    r"|(?P<delay>crawl[- ]delay)|(?P<sitemap>site-map|sitemaps?))(?:\s*:|\s)",
    re.IGNORECASE,
)
_LINE_END = re.compile(r"\r\n?|\n")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_ESCAPED_SLASHES = re.compile("%2f", re.IGNORECASE)
_ESCAPED_SLASH = "\u0100"  # a character that no octet has


@dataclass(frozen=True, slots=True)
class RobotsRule:
    """The line that decides: its number, its text, and the agent of its group, in lower case or `*`."""

    line: int
    text: str
    allow: bool
    agent: str


class Robots:
    """The rules of one robots.txt.

    `sitemaps` has the URLs of the sitemaps, in order. An agent is its product token or its whole header.
    """

    def __init__(self, text: str) -> None:
        # The agents of a group share its list. Copies would be slow for many agents with many rules.
        self._groups: dict[str, list[list[_Record]]] = {}
        self._ranked: dict[str, list[tuple[list[str], _Record]]] = {}
        self._delays: dict[str, float] = {}
        records = list(_records(text))
        self._read(records)
        self.sitemaps = tuple(record.value for record in records if record.kind == "sitemap" and record.value)

    def allowed(self, user_agent: str, url: str) -> bool:
        """Return whether the agent may fetch the absolute URL."""
        rule = self.rule(user_agent, url)
        return rule is None or rule.allow

    def rule(self, user_agent: str, url: str) -> RobotsRule | None:
        """Return the rule that decides on the absolute URL; None: no rule does, and the URL is allowed."""
        path = _path_and_query(url)
        if path == "/robots.txt":
            return None
        agent = self._agent(user_agent)
        for pieces, record in self._rules(agent):
            if _match(pieces, path):
                text = record.text[:_SHOWN_CHARACTERS].expandtabs(1)
                return RobotsRule(record.line, text, record.kind == "allow", agent)
        return None

    def crawl_delay(self, user_agent: str) -> float | None:
        """Return the Crawl-delay in seconds, or None."""
        return self._delays.get(self._agent(user_agent))

    def _read(self, records: "list[_Record]") -> None:
        rules: list[_Record] = []
        undelayed: list[str] = []
        for record in records:
            if record.kind in ("allow", "disallow"):
                rules.append(record)
            elif record.kind == "agent":
                if rules:  # only a rule ends a run of agents: other records must not interfere (2.2.4)
                    rules, undelayed = [], []
                if agent := _product_token(record.value):
                    groups = self._groups.setdefault(agent, [])
                    if not groups or groups[-1] is not rules:
                        groups.append(rules)
                    undelayed.append(agent)
            elif record.kind == "delay" and (seconds := _seconds(record.value)) is not None:
                # The RFC has no Crawl-delay, so its groups do not apply: agents later in the run have none.
                for agent in undelayed:
                    self._delays[agent] = max(seconds, self._delays.get(agent, seconds))
                undelayed = []

    def _agent(self, user_agent: str) -> str:
        token = _product_token(user_agent)
        return token if token in self._groups else "*"

    def _rules(self, agent: str) -> "list[tuple[list[str], _Record]]":
        """Return the agent's rules: the longest first, and of equally long ones first those that allow (2.2.2)."""
        if agent not in self._ranked:
            records = [record for rules in self._groups.get(agent, []) for record in rules if record.value]
            records.sort(key=lambda record: (len(_octets(record.value)), record.kind == "allow"), reverse=True)
            self._ranked[agent] = [(_pieces(record.value), record) for record in records]
        return self._ranked[agent]


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """The decision of a robots.txt for one agent and one URL, and the rule that decides."""

    allowed: bool
    crawl_delay: float | None
    rule: RobotsRule | None = None


def check_robots(text: str, user_agent: str, url: str) -> RobotsVerdict:
    """Return the verdict. The parsed rules stay in memory for the next URL of the same host."""
    robots = _parsed(text)
    rule = robots.rule(user_agent, url)
    return RobotsVerdict(rule is None or rule.allow, robots.crawl_delay(user_agent), rule)


def named_sitemaps(body: bytes, url: str) -> list[str]:
    """Return the first sitemaps that the robots.txt at `url` names, in its order, each once."""
    robots = Robots(within_limit(body).decode("utf-8", "replace"))
    found: dict[str, None] = {}
    for address in robots.sitemaps[:_MOST_SITEMAPS]:
        with suppress(InvalidURL):
            found.setdefault(join_url(address, url))
    return list(found)


_parsed = lru_cache(maxsize=_KEPT_PARSED)(Robots)


class _Record(NamedTuple):
    line: int
    text: str
    kind: str | None
    value: str


def _records(text: str) -> Iterator[_Record]:
    for number, line in enumerate(
        _LINE_END.split(_CONTROLS.sub("", within_limit(text.encode(errors="surrogatepass")).decode(errors="replace"))),
        start=1,
    ):
        content = line.partition("#")[0].strip()
        if match := _RECORD.match(content):
            yield _Record(number, line.strip(), match.lastgroup, content[match.end() :].strip())


def within_limit(body: bytes) -> bytes:
    """Cut a file that is too long, after a whole line: half a rule may forbid everything."""
    if len(body) < MAX_BYTES:
        return body
    return body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES), 0)]


def _product_token(user_agent: str) -> str:
    match = _PRODUCT_TOKEN.match(user_agent)
    return match[1].lower() if match else ""


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < inf else None


def _path_and_query(url: str) -> str:
    try:
        parts = urlsplit(url)
        # urlsplit drops an empty query, but a rule may match its "?".
        query = "?" + parts.query if "?" in url.partition("#")[0] else ""
        return _octets((parts.path or "/") + query)
    except ValueError:
        raise InvalidURL("The address cannot be compared with robots.txt.", url=url) from None


def _pieces(pattern: str) -> list[str]:
    """Return the pieces between the `*`. Without a `$`, any text may follow, as after a last `*`."""
    whole = pattern[:-1] if pattern.endswith("$") else pattern + "*"
    return [_octets(piece) for piece in whole.split("*")]


def _match(pieces: list[str], path: str) -> bool:
    """Match each piece at its first place: a later place would leave less for the other pieces."""
    head = pieces[0]
    if not path.startswith(head):
        return False
    if len(pieces) == 1:
        return path == head
    position = len(head)
    for piece in pieces[1:-1]:
        position = path.find(piece, position)
        if position < 0:
            return False
        position += len(piece)
    return path.endswith(pieces[-1], position)


def _octets(path: str) -> str:
    """Return one character for each octet, escaped or not. An escaped slash differs from a slash (2.2.2)."""
    octets = path if path.isascii() else path.encode().decode("latin-1")
    if "%" not in octets:
        return octets
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), _ESCAPED_SLASHES.sub(_ESCAPED_SLASH, octets))
