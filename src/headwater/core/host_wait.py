"""Why a host gets no request for a while, until when, and how it can be asked sooner."""

from dataclasses import dataclass
from datetime import datetime

from headwater.core.reasons import Reason
from headwater.core.text import format_distance

_CAUSES = {
    Reason.DNS: "its name was not found",
    Reason.CERTIFICATE: "its certificate is not valid",
    Reason.NETWORK: "the connection failed",
    Reason.TIMEOUT: "it did not answer in time",
    Reason.HTTP_5XX: "its robots.txt answered with an error",
    Reason.RATE_LIMITED: "it asked for fewer requests",
    Reason.HOST_CLOSED: "an operator closed it",
    Reason.HOST_BUSY: "its last request was too short a time ago",
}
_OTHER_CAUSE = "its robots.txt could not be read"


@dataclass(frozen=True, slots=True)
class HostWait:
    """A host that gets no request before `until`, and the reason, which is from the time `since`."""

    host: str
    until: datetime | None  # None: until it is released
    reason: Reason
    since: datetime | None = None
    is_gone: bool = False  # it has not answered for a week

    def explain(self, now: datetime) -> str:
        """Return the sentence for a person who reads it now."""
        return self._write(now, f" {format_distance(self.since, now)}" if self.since else "")

    def __str__(self) -> str:
        """Return a sentence that stays true."""
        return self._write(None, f" at {self.since:%Y-%m-%d %H:%M} UTC" if self.since else "")

    def _write(self, now: datetime | None, when: str) -> str:
        until = "until it is released" if self.until is None else f"until {_format_moment(self.until, now)}"
        gone = "it has not answered for 7 days, and " if self.is_gone else ""
        cause = f"{gone}{_CAUSES.get(self.reason, _OTHER_CAUSE)}{when}"
        return f"{self.host} is left alone {until}, because {cause}; now: `headwater frontier release {self.host}`."


def _format_moment(moment: datetime, now: datetime | None) -> str:
    is_today = now is not None and moment.date() == now.date()
    return f"{moment:%H:%M} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M} UTC"
