"""Sends messages to services such as Slack, Teams, Matrix and ntfy through Apprise.

Apprise sends HTTP requests by itself. All of them open their connections with one function of urllib3. It is replaced
here by one that connects only to addresses that the guard allows, also after a redirect. A service that does not use
HTTP, or that reads files, is refused.
"""

import logging
import socket
import sys
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from headwater.core.errors import ExchangeFailed, InvalidURL
from headwater.core.reasons import Reason
from headwater.http.blocking import Connections, run_exchange
from headwater.http.guard import AddressGuard, AddressRefused

if TYPE_CHECKING:
    from apprise.plugins.base import NotifyBase

_OTHER_NETWORKS = frozenset({"smtplib", "socket", "subprocess", "slixmpp", "mqtt", "ctypes", "dbus", "Gio"})
_LONGEST_URL = 2000
_CONNECT_SECONDS = 5.0


@dataclass(slots=True)
class _Attempt:
    """The connections of one message."""

    guard: AddressGuard
    connections: Connections = field(default_factory=Connections)
    refusal: str = ""


_attempt: ContextVar[_Attempt] = ContextVar("message to a service")


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """Sends messages to the services that Apprise knows."""

    guard: AddressGuard
    seconds: float = 300.0  # a long digest is several messages, and Apprise waits between them

    async def send(self, url: str, title: str, text: str) -> None:
        """Send a message. Raises ExchangeFailed, whose text does not have the URL."""
        service = find_service(url)
        attempt = _Attempt(self.guard)
        _attempt.set(attempt)
        try:
            is_sent = await run_exchange(
                lambda: service.notify(body=text, title=title), attempt.connections, self.seconds
            )
        except TimeoutError:
            raise ExchangeFailed("The service took too long.", reason=Reason.TIMEOUT) from None
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and its text may have the secret
            raise ExchangeFailed(f"The service failed: {type(error).__name__}.", reason=Reason.NETWORK) from None
        if attempt.refusal:
            raise ExchangeFailed(attempt.refusal, reason=Reason.ADDRESS_REFUSED)
        if not is_sent:
            raise ExchangeFailed("The service did not accept the message.", reason=Reason.NETWORK)


def find_service(url: str) -> "NotifyBase":
    """Return the service of an address. Raises InvalidURL, whose text does not have the address."""
    apprise = _import_apprise()
    targets = 0
    try:
        service = apprise.Apprise.instantiate(url, suppress_exceptions=True) if len(url) <= _LONGEST_URL else None
        targets = len(service) if service else 0
    except Exception:  # noqa: BLE001 - a plugin may raise anything
        service = None
    if service is None:
        raise InvalidURL("Apprise knows no service with such an address, or a part of it is missing.")
    if not _sends_requests_only(type(service)):
        raise InvalidURL("Headwater uses only services of Apprise that are reached by HTTP and read no files.")
    if "overflow=" not in url.lower():
        service.overflow_mode = apprise.OverflowMode.SPLIT  # a long digest becomes several messages
    if targets > 1:  # a retry would repeat the message to those that got it
        raise InvalidURL("The address has several targets. Add a channel for each.")
    found: NotifyBase = service
    return found


def _sends_requests_only(plugin: type) -> bool:
    """Return whether all connections of a service are HTTP requests of the library that is guarded."""
    names = [one.__module__ for one in plugin.__mro__ if one.__module__.startswith("apprise.plugins.")]
    modules = [vars(sys.modules[name]) for name in names if name != "apprise.plugins.base"]
    uses_requests = any("requests" in module for module in modules)
    uses_others = any(_OTHER_NETWORKS & module.keys() for module in modules)
    values = [name for part in ("args", "tokens") for name in getattr(plugin, f"template_{part}", ())]
    return uses_requests and not uses_others and not any("keyfile" in name for name in values)


@cache
def _import_apprise() -> Any:
    """Import Apprise when it is needed: that takes long. Its log would have addresses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import apprise
        import requests
        from apprise.manager_plugins import NotificationManager
        from urllib3.util import connection

        plugins: Any = NotificationManager
        plugins().load_modules()
    # An operator's proxy would hide the address from the guard, and .netrc has passwords of others.
    vars(requests)["Session"].trust_env = property(lambda _: False, lambda _, value: None)
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    connection.create_connection = _connect
    return apprise


def _connect(
    address: tuple[str, int],
    timeout: Any = None,
    source_address: tuple[str, int] | None = None,
    socket_options: Any = (),
) -> socket.socket:
    """Connect to the first address of a host that the guard allows and that answers."""
    attempt, seconds = _attempt.get(), timeout if isinstance(timeout, int | float) else _CONNECT_SECONDS
    try:
        host, port = address
        return attempt.connections.open(host.strip("[]"), port, seconds, attempt.guard.check, socket_options or ())
    except AddressRefused as error:
        attempt.refusal = str(error)
        raise
