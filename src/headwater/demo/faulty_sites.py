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
from headwater.demo.plan import Ends, Piece, make_site

# The charset that is sent. Another one is declared.
_UTF_8, _WINDOWS_1252 = mislabelled("iso-8859-1", "utf-8"), mislabelled("utf-8", "windows-1252")

ARCHIVE = make_site(
    "archive",
    "The Valley Archive",
    Piece("Minutes of the bridge committee are set in type", "councils", 0, answer=gzipped),
    Piece("Le fonds des cartes postales est numérisé", "libraries", 3, language="fr", answer=gzipped),
    Piece("Das Stadtarchiv öffnet die Akten der großen Flut", "rivers", 6, language="de", answer=_UTF_8),
    Piece("Où sont passées les clés de la bibliothèque ?", "libraries", 7, language="fr", answer=_WINDOWS_1252),
    Piece("All newspapers of the valley in one file", "libraries", 8, answer=always(oversized), ends=Ends.TOO_BIG),
    Piece("A very small file", "libraries", 9, answer=always(bomb), ends=Ends.TOO_BIG),
    look="council",
    folder="/pages",
    # the last rule is beyond the 500 KiB that Headwater reads
    robots="User-agent: *\nAllow: /\n"
    + "# One of many lines without a rule.\n" * 15_000
    + "User-agent: *\nDisallow: /\n",
)

FERRIES = make_site(
    "ferries",
    "Wend Ferries",
    Piece("Morning crossings double from Monday", "transport", 0, answer=heals(busy(2))),
    Piece("Night ferry keeps its old timetable", "transport", 4),
)

TICKETS = make_site(
    "tickets",
    "Valley Tickets",
    Piece("One ticket for bus, tram and boat", "transport", 1, answer=heals(busy(3, as_date=True))),
)

WORKS = make_site(
    "works",
    "Wendham Road Works",
    Piece("Bridge Street closes for a new water main", "transport", 0, answer=heals(status(503))),
    Piece("Diversions are signposted from Monday", "transport", 2, answer=heals(status(500))),
    Piece("Night closures on the ring road", "transport", 3, answer=always(status(502)), ends=Ends.GIVEN_UP),
    look="council",
)

CANAL = make_site(
    "canal",
    "The Slow Canal",
    Piece("Barges wait for water", "rivers", 2, answer=always(drip), ends=Ends.GIVEN_UP),
)

CABLE = make_site(
    "cable",
    "Cable and Line",
    Piece("New cable reaches the upper valley", "transport", 1, answer=heals(reset)),
    Piece("Old exchange falls silent", "transport", 2, answer=always(reset), ends=Ends.GIVEN_UP),
    Piece("Engineers splice a broken line", "transport", 3, answer=heals(truncated)),
    Piece("Message breaks off in the middle", "transport", 4, answer=always(truncated), ends=Ends.GIVEN_UP),
)

WEATHER = make_site(
    "weather",
    "Valley Weather Station",
    Piece("First frost comes early to the valley", "weather", 0),
    Piece("Wind gauge on the hill is replaced", "weather", 2),
    Piece("Rain fills the upper reservoir", "weather", 3),
    Piece("Fog closes the airfield for a morning", "weather", 5),
    robots="User-agent: *\nCrawl-delay: 0.2\n",
)

COUNTY = make_site(
    "county",
    "The County Paper",
    Piece("County lends its snow ploughs to the town", "budgets", 1),
    Piece("County offices move, one desk at a time", "budgets", 1, answer=heals(drip)),
    Piece("Notes of an inspection", "councils", 2, path="/private/notes", ends=Ends.BLOCKED),
    look="gazette",
    robots_answer=redirect(301, "http://digest.demo.test/robots.txt"),
)

# The robots.txt of these hosts cannot be read, so all their pages wait.
_UNREADABLE: tuple[tuple[str, str, Answer, tuple[str, ...]], ...] = (
    ("clinic", "Hollin Hill Clinic", status(503), ("Clinic opens on two more evenings", "New ambulance bay is built")),
    ("baths", "Wendham Baths", busy(1), ("Outdoor pool opens a month early",)),
    ("quarry", "Hollin Hill Quarry", hang, ("Blasting ends before the bird season",)),
    ("mast", "The Mast on the Hill", reset, ("Second transmitter goes on the air",)),
)
ROBOTS_UNREADABLE = tuple(
    make_site(
        name,
        title,
        *(Piece(headline, "councils", 1, ends=Ends.WAITS) for headline in headlines),
        robots_answer=always(answer),
    )
    for name, title, answer, headlines in _UNREADABLE
)

# An unknown address answers 200, also robots.txt. An HTML page forbids nothing.
MUSEUM = make_site(
    "museum",
    "Millrace Museum",
    Piece("Museum shows the old mill wheel again", "libraries", 1),
    look="council",
    missing_status=200,
)

FAULTY = (ARCHIVE, FERRIES, TICKETS, WORKS, CANAL, CABLE, WEATHER, COUNTY, *ROBOTS_UNREADABLE, MUSEUM)
