# ruff: noqa: RUF001 (signs of other scripts)
"""Interstitials of each sort, in several looks and languages."""

from collections.abc import Iterator

from headwater.core.reasons import Reason

_TEASERS = (
    "The old ferry house by the weir has been sold to a couple from the city who want to open a small hotel there.",
    "After three dry summers the council has agreed to plant four hundred young oaks along the northern ring road.",
    "A choir of bakers, nurses and bus drivers won the regional contest with a song that none of them can read.",
    "The museum shows what was found when the harbour was drained: coins, boots, and the bell of a lost ship.",
    "Pupils of the upper school measured the noise on their way to class for a month and drew a map of it.",
    "The last coal barge on the canal has become a library, and the books go where the barge goes in spring.",
)
_SECTIONS = ("News", "Politics", "Business", "Culture", "Sport", "Weather", "Opinion", "Travel", "Science", "Archive")


def bare(title: str, body: str, head: str = "", attributes: str = "") -> str:
    style = "<style>body { font-family: sans-serif; margin: 3em auto; max-width: 40em; text-align: center }</style>"
    return (
        f"<!doctype html><html><head><title>{title}</title>{style}{head}</head><body {attributes}>{body}</body></html>"
    )


def with_nav(title: str, body: str, head: str = "", attributes: str = "") -> str:
    links = "".join(f"<li><a href='/{name.lower()}'>{name}</a></li>" for name in _SECTIONS)
    return bare(
        f"{title} | The Wend Valley Post",
        f"<header><a href='/'>The Wend Valley Post</a><nav><ul>{links}</ul></nav></header><main>{body}</main>"
        "<footer><p>Published by Wend Valley Media. All rights reserved.</p></footer>",
        f"<meta property='og:site_name' content='The Wend Valley Post'>{head}",
        attributes,
    )


def with_long_footer(title: str, body: str, head: str = "", attributes: str = "") -> str:
    columns = "".join(
        f"<div class='column'><h4>{name}</h4><ul>"
        + "".join(
            f"<li><a href='/{name}/{number}'>{name} in the valley, part {number}</a></li>" for number in range(20)
        )
        + "</ul></div>"
        for name in _SECTIONS
    )
    menu = "".join(f"<div><a href='/{name}'>{name}</a></div>" for name in _SECTIONS)
    return bare(
        f"{title} - Valley Online",
        f"<div class='menu'>{menu}</div><div id='content'>{body}</div><div class='bottom'>{columns}"
        "<p>Valley Online is a service of the valley's towns. Prices include taxes. Pictures are those of the authors."
        "</p></div>",
        head,
        attributes,
    )


def with_recent_posts(title: str, body: str, head: str = "", attributes: str = "") -> str:
    posts = "".join(
        f"<article class='teaser'><h3><a href='/{number}'>{text.split(' has ')[0][:50]}</a></h3>"
        f"<time datetime='2024-03-{number + 10}'>{number + 10} March 2024</time><p>{text}</p></article>"
        for number, text in enumerate(_TEASERS * 5)
    )
    return with_nav(title, f"{body}<section><h2>Latest</h2>{posts}</section>", head, attributes)


def in_one_list(title: str, body: str, head: str = "", attributes: str = "") -> str:
    posts = "".join(
        f"<h3><a href='/{number}'>{text[:45]}</a></h3><p>{text}</p>" for number, text in enumerate(_TEASERS)
    )
    return with_long_footer(title, f"{body}<div class='posts'>{posts}</div>", head, attributes)


LOOKS = (bare, with_nav, with_long_footer, with_recent_posts, in_one_list)
_SEARCH = "<form role='search' action='/'><input type='search' name='s'><button>Search</button></form>"

# language, the heading, what is said below it
_MISSING = (
    ("en", "Page not found", "We looked everywhere. Try the search or go to our front page."),
    ("en", "Oops! That page can&rsquo;t be found.", f"It looks like nothing was found at this location. {_SEARCH}"),
    ("en", "404 Not Found", "The requested URL was not found on this server."),
    ("en", "Sorry, we couldn't find that page", "Check the address, or use the menu above to find what you want."),
    ("en", "We can't seem to find the page you're looking for", "Here are some helpful links instead."),
    ("en", "This page doesn't exist", "You may have followed an old link. Let us take you home."),
    ("en", "The page you were looking for doesn't exist", "It may have been moved or deleted."),
    ("en", "Error 404", "The page cannot be found."),
    ("en", "Not Found", "Apologies, but no results were found. Perhaps searching will help find a related post."),
    (
        "en",
        "Sorry, this page isn't available",
        "The link you followed may be broken, or the page may have been removed.",
    ),
    ("en", "Requested Page Not Found (404)", "Return to the home page of the White House."),
    ("en", "Roll call vote not available", "The roll call vote you requested is not available yet."),
    ("de", "Seite nicht gefunden", "Die von Ihnen gesuchte Seite konnte leider nicht gefunden werden."),
    ("fr", "Page introuvable", "La page que vous cherchez n'existe pas ou a été déplacée."),
    ("es", "Página no encontrada", "Lo sentimos, la página que buscas no existe o ha sido eliminada."),
    ("it", "Pagina non trovata", "La pagina che stai cercando non esiste o è stata spostata."),
    ("nl", "Pagina niet gevonden", "De pagina die u zoekt bestaat niet meer."),
    ("ru", "Страница не найдена", "К сожалению, запрошенная страница не существует или была удалена."),
    ("ar", "الصفحة غير موجودة", "عذراً، الصفحة التي تبحث عنها غير موجودة."),
    ("zh", "页面不存在", "抱歉，您访问的页面不存在或已被删除。"),
    ("ja", "ページが見つかりません", "お探しのページは見つかりませんでした。"),
)
# The title is the site's, and only a line of the page says it.
_MISSING_WITHIN = (
    "<h1>Valley Online</h1><p>Sorry, we couldn't find that page.</p>",
    f"<h1>Oops</h1><p>It looks like nothing was found at this location. Maybe try a search?</p>{_SEARCH}",
    "<div class='message'>The page you requested does not exist.</div>",
    "<center><h1>404</h1></center><hr><center>nginx</center>",
    "<h2>Whoops!</h2><p>The article you are looking for is no longer available.</p><p><a href='/'>Home</a></p>",
    "<p>Leider existiert die angeforderte Seite nicht.</p><p><a href='/'>Zur Startseite</a></p>",
    "<h1>Désolé</h1><p>La page demandée est introuvable.</p>",
    "<p>お探しのページは存在しません。</p>",
)
# Markup decides where the words are somebody's own.
_MISSING_MARKED = (
    (
        "<h1>Page not found</h1><p>Somewhere between the reeds and the river this one slipped off its leash and ran"
        " for the"
        " hills.</p><p>Our best hound is on the trail already, and until he is back the kettle is on for everybody"
        " else,"
        " with biscuits and with old stories about the weather.</p>",
        "class='error404 wide'",
    ),
    (
        "<h1>404</h1><p>Even the lighthouse keeper, who sees everything, has no idea about this one.</p>",
        "class='page-404'",
    ),
)

_CHALLENGES = (
    (
        "Just a moment...",
        "<noscript><div>Enable JavaScript and cookies to continue</div></noscript>"
        "<script>window._cf_chl_opt = {cvId: '3'};</script>",
    ),
    (
        "Just a moment...",
        "<h1>www.example.org</h1><h2>Verifying you are human. This may take a few seconds.</h2>"
        "<p>www.example.org needs to review the security of your connection before proceeding.</p>",
    ),
    (
        "Attention Required! | Cloudflare",
        "<h1>Sorry, you have been blocked</h1><h2>You are unable to access example.org</h2><p>This website is using a"
        " security service to protect itself from online attacks.</p><div id='cf-error-details'>Ray ID: 7d1</div>",
    ),
    (
        "example.org",
        "<p id='cmsg'>Please enable JS and disable any ad blocker</p><script"
        " src='https://ct.captcha-delivery.com/c.js'>"
        "</script>",
    ),
    (
        "Access Denied",
        '<h1>Access Denied</h1>You don\'t have permission to access "http://example.org/a" on this server.<p>'
        "Reference #18.2f1e1602.1700000000.1a2b3c4d</p>",
    ),
    (
        "Access to this page has been denied",
        "<div id='px-captcha'></div><p>Press &amp; Hold to confirm you are a human (and not a bot).</p><p>Reference ID"
        " 1b2c</p>",
    ),
    (
        "",
        "<iframe src='/_Incapsula_Resource?x=1'>Request unsuccessful. Incapsula incident ID: 1234-5678</iframe>",
    ),
    ("", "<p>Request unsuccessful. Incapsula incident ID: 1234000120-5678</p>"),
    (
        "",
        "<div"
        " id='challenge-container'></div><script>AwsWafIntegration.saveReferrer();</script><noscript><h1>JavaScript is"
        " disabled</h1>In order to continue, we need to verify that you're not a robot. This requires JavaScript."
        "</noscript>",
    ),
    ("Human Verification", "<h1>Let's confirm you are human</h1><p>Solve the puzzle to go on.</p>"),
    ("One more step", "<p>Please complete the security check to go on.</p><div class='h-captcha'></div>"),
    ("example.org", "<form action='/go'><p>Please verify you are human.</p><div class='g-recaptcha'></div></form>"),
    ("example.org", "<p>Verify you are human by completing the action below.</p><div class='cf-turnstile'></div>"),
    (
        "Making sure you&#39;re not a bot!",
        "<h1>Making sure you're not a bot!</h1><p>Loading...</p><details><p>You are seeing this because whoever runs"
        " this"
        " site set up Anubis to keep scrapers from taking it down, which happens more and more often.</p><p>It makes a"
        " computer do a little work: hardly felt by one visitor, dear for those who send a great crowd of them, and"
        " so a"
        " bargain that most of us can live with for now.</p></details>"
        "<script src='/.within.website/x/cmd/anubis/static/js/main.mjs'></script>",
    ),
    (
        "Request Access",
        "<h1>Request Access</h1><p>Due to aggressive automated scraping of these sites, programmatic access is limited"
        " to our developer APIs.</p><p>If you are human user receiving this message, we can add your IP address to a"
        " set of IPs that can access the site. This process will be necessary for each IP address you wish to access"
        " the site from.</p>",
    ),
    ("Pardon Our Interruption", "<p>Something about your browser made us think that you might be a bot.</p>"),
    ("Robot or human?", "<p>Activate and hold the button to confirm that you're human. Thank you!</p>"),
    ("Request Rejected", "<p>The requested URL was rejected. Please consult with your administrator.</p>"),
    ("Vercel Security Checkpoint", "<p>We're verifying your browser</p>"),
    ("Einen Moment, bitte...", "<p>Bitte bestätigen Sie, dass Sie ein Mensch sind.</p>"),
    ("Un instant...", "<p>Nous devons vérifier que vous êtes humain avant de continuer.</p>"),
    ("Acceso denegado", "<p>Confirma que no eres un robot para seguir.</p>"),
    ("Подождите...", "<p>Подтвердите, что вы не робот.</p>"),
    ("请稍候…", "<p>请完成安全验证，以确认您不是机器人。</p>"),
)

_PAYWALLS = (
    "<p>This article is for subscribers only. Sign in to continue reading.</p>",
    "<div class='gate'><h3>Subscribe to continue reading</h3><p>Get every story of the valley for €1 a week. Cancel"
    " anytime.</p><p>Already a subscriber? <a href='/login'>Log in</a></p></div>",
    "<p>The tunnel was dug by night.</p><p>You have reached your limit of free articles.</p><p>Register to read this"
    " story"
    " and three more this month.</p>",
    "<div>Exclusive to members. <a href='/in'>Sign in</a> or <a href='/join'>join</a> to read the full story.</div>",
    "<p>Dieser Artikel ist nur für Abonnenten.</p><p>Bereits Abonnent? Hier anmelden</p>",
    "<p>Article réservé aux abonnés</p><p>Déjà abonné ? Se connecter</p>",
    "<p>Contenido exclusivo para suscriptores. ¿Ya eres suscriptor? Inicia sesión</p>",
    "<p>Contenuto riservato agli abbonati.</p><p>Accedi per continuare a leggere.</p>",
    "<p>Conteúdo exclusivo para assinantes. Já é assinante? Faça login para continuar lendo.</p>",
)
_LOGINS = (
    ("Log in", "<p>Log in to read on.</p>"),
    ("Mein Konto", "<h1>Bitte anmelden</h1><p>Nur für Abonnenten.</p>"),
    ("Sign in - Valley Online", "<h1>Welcome back</h1><p>Enter your e-mail address and your password.</p>"),
    ("Connexion", "<h1>Connectez-vous</h1>"),
    ("ログイン", "<p>メールアドレスとパスワードを入力してください。</p>"),
)
_FIELDS = (
    "<form method='post'><input type='email' name='who'><input type='password' name='p'><button>Go</button></form>"
)

_CONSENTS = (
    (
        "Before you continue",
        "<h1>Before you continue</h1><p>We use cookies and data to</p><ul><li>Keep our services running</li><li>Guard"
        " against spam and fraud</li></ul><p>If you choose to accept all, we will also use cookies and data to show"
        " personalised ads, depending on your settings.</p><button>Accept all</button><button>Reject all</button>",
    ),
    (
        "Wend Valley Post",
        "<h2>We value your privacy</h2><p>We and our 841 partners store or access information on a device, such as"
        " cookies,"
        " and process personal data, such as unique identifiers, for personalised advertising and content.</p><p>Your"
        " choices on this site will be applied only to this site. You can withdraw your consent at any time with the"
        " link"
        " at the bottom of each page.</p><button>Manage options</button><button>Accept all</button>",
    ),
    (
        "Privacy Preference Center",
        "<p>When you visit any website, it may store or retrieve information on your browser, mostly in the form of"
        " cookies."
        " We respect your right to privacy, so you can choose not to allow some types.</p><a href='#'>Allow All</a>",
    ),
    (
        "Votre vie privée",
        "<a href='#'>Continuer sans accepter</a><p>Avec votre accord, nous et nos partenaires utilisons des cookies"
        " pour"
        " mesurer l'audience et vous proposer des publicités personnalisées.</p><button>Tout accepter</button>",
    ),
    (
        "Tu privacidad",
        "<p>Nosotros y nuestros socios usamos cookies y tratamos tus datos personales. Puedes aceptar o retirar tu"
        " consentimiento.</p><button>Aceptar y continuar</button>",
    ),
    (
        "La tua privacy",
        "<p>Noi e i nostri partner utilizziamo i cookie con il tuo consenso. Puoi rifiutare o accettare.</p>"
        "<input type='submit' value='Accetta'>",
    ),
    (
        "Twoja prywatność",
        "<p>My i nasi partnerzy używamy plików cookie. Prosimy o Twoją zgodę na przetwarzanie danych w celach"
        " reklamowych."
        "</p><button>Zgadzam się</button>",
    ),
    ("隐私设置", "<p>我们和合作伙伴使用 Cookie 来改善您的体验，并需要您的同意才能继续。</p><button>全部接受</button>"),
)


_CARDS = (
    "The ferry house is a hotel",
    "Four hundred oaks for the ring road",
    "A choir of bakers wins the regional contest",
)
_ABOUT = (
    "Valley Portal has the news that matters to people who live by the river. We have an office in each of the three"
    " towns, and a team that works every day to make it better for you."
)


def with_cards(title: str, body: str) -> str:
    links = "".join(f"<div class='n'><a href='/{name}'>{name}</a></div>" for name in ("Home", "News", "Sport", "Jobs"))
    cards = "".join(
        f"<div class='c'><a href='/{number}'><div>{text}</div></a><div class='t'>{text}. {_ABOUT[:90]}</div></div>"
        for number, text in enumerate(_CARDS)
    )
    return bare(
        title,
        f"<div class='x1'>{links}</div><div class='x2'><div>{body}</div></div><div class='x3'>{cards}</div>"
        f"<div class='x4'><div>{_ABOUT}</div><div>© Valley Portal 2024</div></div>",
    )


_PASSWORD = "<form><label>Password: <input type='password'></label><input type='submit' value='Enter'></form>"
_EMAIL = "<form><input type='email'><a href='/help'>Can't access your account?</a><button>Next</button></form>"
_IN_SITES: tuple[tuple[Reason, str, str], ...] = (
    (Reason.SOFT_404, "Lamp", "<h1>Sorry, this product is no longer available</h1><p>You may like one of these.</p>"),
    (
        Reason.SOFT_404,
        "Job expired",
        "<h1>This job is no longer available</h1><p>The position you are looking for has been filled.</p>",
    ),
    (Reason.SOFT_404, "Events", "<h1>This event has passed or been removed</h1><p>Look at our calendar.</p>"),
    (Reason.SOFT_404, "Wiki", "<h1>Reed boats</h1><p>There is currently no text in this page. You can search.</p>"),
    (Reason.SOFT_404, "Stories", "<h2>This story was deleted by its author</h2><a href='/'>Go to the front page</a>"),
    (
        Reason.CHALLENGE,
        "Valley Portal - Are you a robot?",
        "<h1>We've detected unusual activity from your network</h1><p>To continue, please click the box below to let"
        " us know you're not a robot.</p>",
    ),
    (
        Reason.CHALLENGE,
        "Loading",
        "<noscript><h1>JavaScript is required</h1><p>Please enable JavaScript in your browser to continue.</p>"
        "</noscript>",
    ),
    (
        Reason.LOGIN_WALL,
        "Protected: Minutes",
        f"<h1>Protected: Minutes</h1><p>This content is password protected. To view it please enter"
        f" your password below:</p>{_PASSWORD}",
    ),
    (
        Reason.LOGIN_WALL,
        "Silt in slow rivers",
        "<h1>Silt in slow rivers</h1><div>You do not currently have access to this article. Buy it for $39.95.</div>",
    ),
    (Reason.LOGIN_WALL, "Sign in to your account", f"<h1>Sign in</h1>{_EMAIL}"),
)


def interstitials() -> Iterator[tuple[str, Reason, str]]:
    """Yield the name, the expected reason and the markup of each page."""
    for number, (language, heading, text) in enumerate(_MISSING):
        look = LOOKS[number % 5]
        yield f"{language} {heading}", Reason.SOFT_404, look(heading, f"<h1>{heading}</h1><p>{text}</p>")
    for number, body in enumerate(_MISSING_WITHIN):
        yield f"within {body}", Reason.SOFT_404, LOOKS[number % 3]("Valley Online", body)
    for body, attributes in _MISSING_MARKED:
        yield f"marked {body[:30]}", Reason.SOFT_404, with_nav("Lost", body, "", attributes)
    for title, body in _CHALLENGES:
        yield f"challenge {title or body}", Reason.CHALLENGE, bare(title, body)
    for number, body in enumerate(_PAYWALLS):
        headline = "How the strong room under the old bank was emptied in one night"
        page = LOOKS[number % 3](headline, f"<article><h1>{headline}</h1>{body}</article>", _STATED)
        yield f"paywall {body}", Reason.LOGIN_WALL, page
    for title, body in _LOGINS:
        yield f"login {title}", Reason.LOGIN_WALL, bare(title, body + _FIELDS)
    for number, (title, body) in enumerate(_CONSENTS):
        yield f"consent {title}", Reason.COOKIE_WALL, LOOKS[number % 2](title, body)
    for number, (reason, title, body) in enumerate(_IN_SITES):
        yield title, reason, (bare, with_nav, with_cards)[number % 3](title, body)


_STATED = (
    '<script type="application/ld+json">{"@type": "NewsArticle", "headline": "", "datePublished":'
    ' "2024-03-05T09:00:00Z"}'
    "</script>"
)
