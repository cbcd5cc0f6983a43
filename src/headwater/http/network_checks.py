"""Checks for the doctor: does a name resolve, is a port free, which program answers on a port of this machine."""

import asyncio
import contextlib
import json
import socket
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network

from headwater.core.errors import HeadwaterError
from headwater.core.http import Limits
from headwater.core.json_values import JsonObject
from headwater.http.client import HttpClient
from headwater.http.guard import AddressGuard

_ANSWER_BYTES = 64 * 1024


def resolve(host: str) -> list[str]:
    """Return the addresses of a name or raise OSError. The call blocks, sometimes for many seconds."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(f"{host} is not a host name") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))


def try_to_listen(host: str, port: int) -> None:
    """Bind an address and release it at once; raise OSError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # The probe does not listen, so another program can start on the port at the same moment.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


async def ask_this_machine(host: str, port: int, path: str, *, user_agent: str, seconds: float) -> JsonObject:
    """Return the JSON object that a program on this machine answers; an empty one if no program answers with one."""
    address = await asyncio.to_thread(_reachable, host)
    client = HttpClient(
        guard=AddressGuard([ip_network(address)]),
        clock=lambda: datetime.now(UTC),
        connect_to={"localhost": (address, port)},
    )
    limits = Limits(connect_seconds=seconds, read_seconds=seconds, total_seconds=seconds, body_bytes=_ANSWER_BYTES)
    with contextlib.suppress(HeadwaterError, ValueError):
        async with client:
            response = await client.request(
                "GET", f"http://localhost:{port}{path}", user_agent=user_agent, limits=limits
            )
            answer = json.loads(response.body)
            if response.status == 200 and isinstance(answer, dict):
                return answer
    return {}


def _reachable(host: str) -> str:
    """Return the address that reaches a program which listens on `host` of this machine."""
    address = ip_address(resolve(host or "0.0.0.0")[0])  # noqa: S104 (we do not listen on it)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return str(address)
