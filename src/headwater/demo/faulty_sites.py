"""The hosts of the demo web that answer badly, slowly or oddly. The feed of `DIGEST` links to their pages."""

from headwater.demo.answers import (
    Answer,
    always,
    bomb,
    busy,
    drip,
    gzipped,
    hang,
    heals,
    mislabelled,
    oversized,
    redirect,
    reset,
    status,
    truncated,
)
from headwater.demo.plan import Ends, Piece, Site


def _plain_site(name: str, title: str, *pieces: Piece) -> Site:
    return Site(host=f"{name}.demo.test", title=title, pieces=pieces)


ARCHIVE = Site(
    host="archive.demo.test",
    title="The Valley Archive",
    look="council",
    folder="/pages",
    # the last rule is beyond the 500 KiB that Headwater reads
    robots="User-agent: *\nAllow: /\n"
    + "# One of many lines without a rule.\n" * 15_000
    + "User-agent: *\nDisallow: /\n",
    pieces=(
        Piece("Minutes of the bridge committee are set in type", "councils", 0, answer=gzipped),
        Piece("Le fonds des cartes postales est numérisé", "libraries", 3, language="fr", answer=gzipped),
        Piece(
            "Das Stadtarchiv öffnet die Akten der großen Flut",
            "rivers",
            6,
            language="de",
            answer=mislabelled("iso-8859-1", "utf-8"),
        ),
        Piece(
            "Où sont passées les clés de la bibliothèque ?",
            "libraries",
            7,
            language="fr",
            answer=mislabelled("utf-8", "windows-1252"),
        ),
        Piece("All newspapers of the valley in one file", "libraries", 8, answer=always(oversized), ends=Ends.TOO_BIG),
        Piece("A very small file", "libraries", 9, answer=always(bomb), ends=Ends.TOO_BIG),
    ),
)

FERRIES = _plain_site(
    "ferries",
    "Wend Ferries",
    Piece("Morning crossings double from Monday", "transport", 0, answer=heals(busy(2))),
    Piece("Night ferry keeps its old timetable", "transport", 4),
)

TICKETS = _plain_site(
    "tickets",
    "Valley Tickets",
    Piece("One ticket for bus, tram and boat", "transport", 1, answer=heals(busy(3, as_date=True))),
)

WORKS = Site(
    host="works.demo.test",
    title="Wendham Road Works",
    look="council",
    pieces=(
        Piece("Bridge Street closes for a new water main", "transport", 0, answer=heals(status(503))),
        Piece("Diversions are signposted from Monday", "transport", 2, answer=heals(status(500))),
        Piece("Night closures on the ring road", "transport", 3, answer=always(status(502)), ends=Ends.GIVEN_UP),
    ),
)

CANAL = _plain_site(
    "canal",
    "The Slow Canal",
    Piece("Barges wait for water", "rivers", 2, answer=always(drip), ends=Ends.GIVEN_UP),
)

CABLE = _plain_site(
    "cable",
    "Cable and Line",
    Piece("New cable reaches the upper valley", "transport", 1, answer=heals(reset)),
    Piece("Old exchange falls silent", "transport", 2, answer=always(reset), ends=Ends.GIVEN_UP),
    Piece("Engineers splice a broken line", "transport", 3, answer=heals(truncated)),
    Piece("Message breaks off in the middle", "transport", 4, answer=always(truncated), ends=Ends.GIVEN_UP),
)

WEATHER = Site(
    host="weather.demo.test",
    title="Valley Weather Station",
    robots="User-agent: *\nCrawl-delay: 0.2\n",
    pieces=(
        Piece("First frost comes early to the valley", "weather", 0),
        Piece("Wind gauge on the hill is replaced", "weather", 2),
        Piece("Rain fills the upper reservoir", "weather", 3),
        Piece("Fog closes the airfield for a morning", "weather", 5),
    ),
)

COUNTY = Site(
    host="county.demo.test",
    title="The County Paper",
    look="gazette",
    robots_answer=redirect(301, "http://digest.demo.test/robots.txt"),
    pieces=(
        Piece("County lends its snow ploughs to the town", "budgets", 1),
        Piece("County offices move, one desk at a time", "budgets", 1, answer=heals(drip)),
        Piece("Notes of an inspection", "councils", 2, path="/private/notes", ends=Ends.BLOCKED),
    ),
)

# The robots.txt of these hosts cannot be read, so all their pages wait.
_UNREADABLE: tuple[tuple[str, str, Answer, tuple[str, ...]], ...] = (
    ("clinic", "Hollin Hill Clinic", status(503), ("Clinic opens on two more evenings", "New ambulance bay is built")),
    ("baths", "Wendham Baths", busy(1), ("Outdoor pool opens a month early",)),
    ("quarry", "Hollin Hill Quarry", hang, ("Blasting ends before the bird season",)),
    ("mast", "The Mast on the Hill", reset, ("Second transmitter goes on the air",)),
)
ROBOTS_UNREADABLE = tuple(
    Site(
        host=f"{name}.demo.test",
        title=title,
        robots_answer=always(answer),
        pieces=tuple(Piece(headline, "councils", 1, ends=Ends.WAITS) for headline in headlines),
    )
    for name, title, answer, headlines in _UNREADABLE
)

# An unknown address answers 200, also robots.txt. An HTML page forbids nothing.
MUSEUM = Site(
    host="museum.demo.test",
    title="Millrace Museum",
    look="council",
    missing_status=200,
    pieces=(Piece("Museum shows the old mill wheel again", "libraries", 1),),
)

FAULTY = (ARCHIVE, FERRIES, TICKETS, WORKS, CANAL, CABLE, WEATHER, COUNTY, *ROBOTS_UNREADABLE, MUSEUM)
