"""URLs as the web writes them: about 80 characters, a query on some, tracking parameters on every third.

Standard library only: the peers' scripts use it in environments of their own.
"""

import random
from collections.abc import Iterator

SECTIONS = ("news", "politics", "business", "world/europe", "science/climate", "sport/results", "opinion", "culture")
WORDS = (
    *("minister", "council", "budget", "report", "river", "flood", "school", "court", "energy", "market"),
    *("strike", "summit", "harbour", "library", "railway", "hospital", "election", "archive", "inquiry"),
)
TRACKING = ("utm_source=newsletter&utm_medium=email", "utm_source=rss&utm_campaign=daily", "utm_medium=social")


def make_urls(count: int, hosts: int, seed: int = 1) -> Iterator[str]:
    """Yield `count` URLs of different pages in random order, spread over `hosts` hosts."""
    chance = random.Random(seed)
    for number in range(count):
        host = f"www.site-{chance.randrange(hosts):05}.example"
        slug = "-".join(chance.choices(WORDS, k=3))
        address = f"https://{host}/{chance.choice(SECTIONS)}/2026/03/{slug}-{seed}{number:07}"
        parts = [f"page={number % 7}&id={number}"] if number % 4 == 0 else []
        parts += [chance.choice(TRACKING)] if number % 3 == 0 else []
        yield f"{address}?{'&'.join(parts)}" if parts else address


def batches(urls: list[str], size: int) -> Iterator[list[str]]:
    """Cut a list into batches."""
    for start in range(0, len(urls), size):
        yield urls[start : start + size]
