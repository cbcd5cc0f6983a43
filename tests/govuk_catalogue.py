"""Large generated days of GOV.UK."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from random import Random

from headwater.core.dates import bounds
from headwater.demo.govuk_pages import LONDON, READING, RIVERS, ROADS, TAXON_NAMES, GovukPage, content_id

_MINUTE, _SECOND = timedelta(minutes=1), timedelta(seconds=1)
_TYPES = ("guidance", "press_release", "policy_paper", "news_story", "official_statistics", "transparency")


def make_catalogue(day: date, *, new: int, latest: int, others: int = 0) -> list[GovukPage]:
    """Make the pages of a London day: first published on it, older ones updated on it, and others.

    The first two of each kind are on the first and the last second of the day, and several pages share a minute. Some
    new pages were updated again on the day, some after it, and some have no public_timestamp. The others changed only
    before the day or after it.
    """
    return list(_CatalogueMaker(day).pages(new, latest, others))


class _CatalogueMaker:
    def __init__(self, day: date) -> None:
        self.random = Random(f"1/{day}")
        self.start, self.end = bounds(day, LONDON)

    def pages(self, new: int, latest: int, others: int) -> Iterator[GovukPage]:
        for number in range(new):
            published = self.in_day(number)
            yield self.page("new", number, published, self.update_of_new(number, published))
        for number in range(latest):
            yield self.page("latest", number, self.before(), self.in_day(number))
        for number in range(others):
            published = self.before()
            yield self.page("other", number, published, self.after() if number % 2 else published)

    def page(self, kind: str, number: int, published: datetime, updated: datetime | None) -> GovukPage:
        link = f"/government/publications/{kind}-notice-{number}"
        taxon = self.random.choice(list(TAXON_NAMES))
        return GovukPage(
            title=f"{TAXON_NAMES[taxon]}: {kind} notice {number}",
            link=link,
            first_published_at=published,
            public_timestamp=updated,
            updated_at=(updated or published) + 90 * _SECOND,
            content_id=content_id(link),
            document_type=self.random.choice(_TYPES),
            organisations=(self.random.choice((RIVERS, READING, ROADS)),),
            taxons=(taxon,),
        )

    def in_day(self, number: int) -> datetime:
        edges = (self.start, self.end - _SECOND)
        return edges[number] if number < len(edges) else self.between(self.start, self.end)

    def update_of_new(self, number: int, published: datetime) -> datetime | None:
        if number % 50 == 9:
            return None
        match number % 10:
            case 3:
                return self.between(published, self.end)
            case 7:
                return self.after()
        return published

    def before(self) -> datetime:
        return self.between(self.start - timedelta(days=400), self.start)

    def after(self) -> datetime:
        return self.between(self.end, self.end + timedelta(days=1))

    def between(self, earliest: datetime, end: datetime) -> datetime:
        return earliest + self.random.randrange(max(1, (end - earliest) // _MINUTE)) * _MINUTE
