"""How pages of the demo web may end, other than stored: for each the reasons that are right."""

from headwater.core.reasons import Reason

REDIRECTED = frozenset({Reason.REDIRECT})
SAME_PAGE = frozenset({Reason.SAME_PAGE})
REDIRECT_LIMIT = frozenset({Reason.REDIRECT_LIMIT})
NOT_FOUND = frozenset({Reason.NOT_FOUND})
GONE = frozenset({Reason.GONE})
REFUSED = frozenset({Reason.HTTP_4XX})
ROBOTS_BLOCKED = frozenset({Reason.ROBOTS_BLOCKED})
TOO_LARGE = frozenset({Reason.BODY_TOO_LARGE})
GIVEN_UP = frozenset({Reason.MAX_RETRIES, Reason.WORKER_LOST})  # the second where the last try was killed with us
NO_BROWSER = frozenset({Reason.NO_BROWSER})  # it does not end either, as long as there is none
WAITS = frozenset({Reason.ROBOTS_UNREACHABLE})  # it does not end: the host is asked again later
