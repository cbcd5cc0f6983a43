"""News, notices and help pages of a few sentences, each in words that walls use as well."""

from collections.abc import Iterator

from tests.interstitial_pages import bare, with_cards, with_nav

# headline, paragraphs
_BRIEFS: tuple[tuple[str, str], ...] = (
    (
        "Paper ends free reading",
        "The Valley Post will ask its readers to subscribe to continue reading from January.\n"
        "Sign in to read the full story will be the first thing that most of its visitors see, its publisher said.\n"
        "Subscribers get five articles more than today.",
    ),
    (
        "Post drops its paywall",
        "From Monday on readers no longer have to sign in to continue reading. “Subscribe to read” had earned less than"
        " the bake sale, the editor said.",
    ),
    (
        "How to see old bills",
        "Log in to view your archive: it is under Account, then Bills. You can download every bill as a PDF.\n"
        "If you have forgotten your password, click the link below the form. You will receive an e-mail.",
    ),
    (
        "Rechnungen ansehen",
        "Melden Sie sich an, um Ihre Rechnungen zu sehen.\n"
        "Klicken Sie dann auf den Monat, den Sie brauchen. Die Datei wird geladen.",
    ),
    (
        "Wie lösche ich mein Konto?",
        "Melden Sie sich an, öffnen Sie „Mein Konto“ und wählen Sie „Löschen“. Sie erhalten dann eine E-Mail.",
    ),
    ("A night at the opera, for members only", "The opera opens its rehearsal on Friday for members only, it said."),
    (
        "Golf club opens",
        "The golf course, reserved for members since 1921, is now open to all. Fees are 20 pounds a day.\n"
        "Register at the desk to see the course.",
    ),
    ("Members' evening", "Thursday, 7pm, in the hall. For members only. Please bring your card and a chair."),
    ("Mitgliederabend", "Am 3. Mai um 19 Uhr im Saal. Nur für Mitglieder. Bitte bringen Sie Ihren Ausweis mit."),
    (
        "Password protected",
        "This content is password protected, said the note on the jar. Nobody in the office has eaten a biscuit since.",
    ),
    (
        "Oatmeal cookies",
        "These oatmeal cookies are crisp at the edge and soft in the middle, and you need one bowl only.\n"
        "Let your cookies cool before you eat them. We keep our cookies in a tin for a week.",
    ),
    ("Our cookies", "We bake our cookies every morning from five, and you can have them warm until noon. Call us."),
    (
        "Your cookies, our law",
        "We asked five lawyers what the new cookie law means for you and your privacy. All of them told us that consent"
        " must be given freely.\n"
        "Our reporter counted your choices: on average a site has 112 partners that process data with your consent.",
    ),
    (
        "Cookie policy",
        "We use cookies to keep you logged in and to remember your preferences. Our cookies hold no personal data.\n"
        "You can delete cookies in your browser. We ask for your consent before we set any other.",
    ),
    (
        "Your privacy at the doctor's",
        "We keep your records for ten years. Your consent is needed before we share them with a hospital, and you can"
        " withdraw it at any time by telling the desk.",
    ),
    (
        "Wir suchen Partner",
        "Wir suchen Partner für unsere Werbung: Ihre Firma auf unserem Bus, ein Jahr lang. Rufen Sie uns an.",
    ),
    (
        "Outage takes council site down",
        "Visitors saw “Sorry, you have been blocked” for three hours on Monday. Nobody had been, the council said.",
    ),
    (
        "Letters: robots",
        "Sir, why must I prove to your website that I am not a robot? I am eighty-three. Yours, M. Reed, Wendham.",
    ),
    (
        "Why CAPTCHAs fail",
        "You have clicked on a thousand traffic lights to prove that you are not a robot. Robots now do it better.",
    ),
    (
        "Are you a robot?",
        "You may be asked to prove that you are human more often this year. Robots now solve captchas faster than"
        " people do, and your browser gives you away before you click.\n"
        "You can turn that off.",
    ),
    (
        "Êtes-vous un robot ?",
        "L'exposition ouvre samedi au musée : cent automates, du canard de Vaucanson aux bras d'usine. Entrée libre.",
    ),
    (
        "Access denied",
        "If you see this message when opening a shared drive, your account lacks the permission it needs. Ask your"
        " administrator to add you to the group that owns the folder, then sign out and in again.",
    ),
    (
        "Security check",
        "Travellers must expect longer queues this week: the security check has moved to hall B, and you need your"
        " boarding pass and passport to get access.",
    ),
    (
        "Waiting room",
        "The new waiting room at the station opened on Monday. It has eleven seats, a heater and a clock that works.",
    ),
    (
        "JavaScript is required",
        "A course in JavaScript is required for all pupils from September, the school board decided by nine to two.",
    ),
    (
        "Nothing found",
        "Archaeologists have left the site of the new school after three weeks in the rain. They found a spoon.",
    ),
    (
        "ページが見つかりません",
        "町の図書館で、百年前の日記から三十ページが切り取られていることが分かった。館長は、だれがいつ切ったのか分からないと話している。",
    ),
    (
        "Seite nicht gefunden",
        "Im Stadtarchiv fehlt seit gestern ein Blatt der Chronik. Die Polizei sucht einen Mann mit rotem Hut, der"
        " zuletzt am Tisch saß.",
    ),
    (
        "Library page removed",
        "The page has been removed from the town's website after complaints. The mayor said it had been a mistake.",
    ),
    (
        "Position filled",
        "The position of town clerk has been filled: Mary Dale starts in March. She is from Wendham.",
    ),
    ("Event cancelled", "This event has been cancelled because of the storm. Tickets will be refunded by Friday."),
    ("Product recall", "This product has been withdrawn from all shops because of glass in the jam. Bring it back."),
)
_BANNER = "<div id='note'><p>This site uses cookies.</p><button>Accept</button></div>"


def _with_banner(title: str, body: str) -> str:
    return with_nav(title, body + _BANNER)


def brief_articles() -> Iterator[tuple[str, str]]:
    """Yield what each is called, and the page."""
    for number, (headline, said) in enumerate(_BRIEFS):
        paragraphs = "".join(f"<p>{paragraph}</p>" for paragraph in said.split("\n"))
        article = f"<article><h1>{headline}</h1>{paragraphs}</article>"
        look = (bare, with_nav, with_cards, _with_banner)[number % 4]
        yield headline, look(headline, article)
