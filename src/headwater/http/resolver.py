"""Resolves host names to the addresses that the guard allows."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp.abc import AbstractResolver, ResolveResult

from headwater.http.guard import AddressGuard, AddressRefused

ConnectTo = Mapping[str, tuple[str, int]]


@dataclass(slots=True)
class GuardedResolver(AbstractResolver):
    """Resolves host names and returns only the addresses that the guard allows."""

    guard: AddressGuard
    connect_to: ConnectTo

    async def close(self) -> None:
        """Do nothing: the resolver holds no connection. aiohttp requires this method."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a host; raise OSError if there is none."""
        fixed = fixed_address(host, self.connect_to)
        found = [fixed] if fixed else await self._look_up(host, port, family)
        allowed: list[ResolveResult] = []
        refusal = OSError(f"{host} has no address")
        for address, to_port in found:
            try:
                self.guard.check(address)
            except AddressRefused as error:
                refusal = error
            else:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                allowed.append(
                    ResolveResult(
                        hostname=host,
                        host=address,
                        port=to_port,
                        family=family,
                        proto=0,
                        flags=socket.AI_NUMERICHOST,
                    )
                )
        if not allowed:
            raise refusal
        return allowed

    async def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[tuple[str, int]]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.getaddrinfo(
                host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        except UnicodeError:  # a label is too long or empty
            raise OSError(f"{host} is not a host name") from None
        return [(str(address[0]), port) for *_, address in answers]


def fixed_address(host: str, connect_to: ConnectTo) -> tuple[str, int] | None:
    """Return the fixed address of a host in `connect_to`; None if the host needs a look-up."""
    name = host.lower().rstrip(".")
    labels = name.split(".")
    patterns = [name, *("*." + ".".join(labels[start:]) for start in range(1, len(labels)))]
    return next((connect_to[pattern] for pattern in patterns if pattern in connect_to), None)
