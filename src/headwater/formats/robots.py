"""robots.txt as RFC 9309 has it."""

import re
from dataclasses import dataclass
from functools import lru_cache

from protego import Protego

from headwater.errors import InvalidURL
from headwater.policy.text import clean

# RFC 9309, 2.5: at least so much must be read; what is beyond is ignored.
MAX_BYTES = 500 * 1024
_KEPT_PARSED = 32

# The product token ends where its version starts. "Mozilla/5.0 (compatible; Name/1.0)" is looked through.
_PRODUCT_TOKEN = re.compile(r"\s*(?:mozilla/\S+\s+\(compatible;\s*)?([^\s/;()]*)", re.IGNORECASE)
_AGENT_LINE = re.compile(r"^([ \t]*user[- ]?agent[ \t]*:[ \t]*)([^\s/#]+)[^\n]*", re.IGNORECASE | re.MULTILINE)


class Robots:
    """The rules of one robots.txt.

    `sitemaps` holds the addresses it names, in order. An agent is given as its product token or as its whole header.
    """

    def __init__(self, text: str) -> None:
        text = _AGENT_LINE.sub(r"\1\2", _within_limit(clean(text)))
        self._agents = frozenset(match[2].lower() for match in _AGENT_LINE.finditer(text))
        self._rules = Protego.parse(text)
        self.sitemaps = tuple(self._rules.sitemaps)

    def allowed(self, user_agent: str, url: str) -> bool:
        """Tell whether the agent may fetch the absolute address."""
        try:
            return self._rules.can_fetch(url, self._group(user_agent))
        except ValueError:
            raise InvalidURL("The address cannot be held against robots.txt.", url=url) from None

    def crawl_delay(self, user_agent: str) -> float | None:
        """Return the seconds asked for between two requests, or None."""
        return self._rules.crawl_delay(self._group(user_agent))

    def _group(self, user_agent: str) -> str:
        """Return the name of the group that holds, or nothing, which leaves the group for everybody.

        The whole token has to agree: protego by itself would give "Foobot" the rules that are for "Foo".
        """
        match = _PRODUCT_TOKEN.match(user_agent)
        token = match[1].lower() if match else ""
        return token if token in self._agents else ""


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """What a robots.txt says to one agent about one address."""

    allowed: bool
    crawl_delay: float | None


def check_robots(text: str, user_agent: str, url: str) -> RobotsVerdict:
    """Return the verdict; the text's rules are remembered for the next address of the same host."""
    robots = _parsed(text)
    return RobotsVerdict(allowed=robots.allowed(user_agent, url), crawl_delay=robots.crawl_delay(user_agent))


@lru_cache(maxsize=_KEPT_PARSED)
def _parsed(text: str) -> Robots:
    return Robots(text)


def _within_limit(text: str) -> str:
    body = text.encode()
    if len(body) < MAX_BYTES:
        return text
    # the line that is cut in two goes too: half of "Disallow: /private" would forbid everything
    return body[:MAX_BYTES].rpartition(b"\n")[0].decode(errors="ignore")
