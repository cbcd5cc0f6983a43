"""A network of namespaces: one for the web, and one for each machine, whose cable a test can cut."""

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

WEB = "192.0.2.1"  # the machines have the next ones of this range for documentation, which no host uses


@dataclass(frozen=True)
class Network:
    """The namespaces, and a cable from each machine to the web's switch."""

    name: str
    count: int = 1
    web_address: str = WEB

    @property
    def machines(self) -> list[str]:
        """The namespaces of the machines."""
        return [f"{self.name}p{number}" for number in range(self.count)]

    @property
    def for_programs(self) -> str:
        """The namespace of the first machine."""
        return self.machines[0]

    def listen(self, address: tuple[str, int]) -> socket.socket:
        """Open a listening socket at the web's end, in a thread, because a thread cannot leave a namespace."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._listen_there, address).result()

    def _listen_there(self, address: tuple[str, int]) -> socket.socket:
        enter(f"{self.name}w")
        return socket.create_server(address)

    def cut(self, machine: int = 0) -> None:
        """Cut the cable of a machine: packets are lost."""
        self._set_cable(machine, "down")

    def restore(self, machine: int = 0) -> None:
        """Restore the cable."""
        self._set_cable(machine, "up")

    def _set_cable(self, machine: int, state: str) -> None:
        _ip("-n", f"{self.name}w", "link", "set", f"cable{machine}", state)


def enter(namespace: str) -> None:
    """Move this thread into a namespace. It cannot leave it."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns failed")


@contextlib.contextmanager
def own_network(machines: int = 1) -> Iterator[Network]:
    """Make the namespaces, the switch and the cables, and remove them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("may not make a network here (needs root and iproute2)")
    network = Network(f"hw{secrets.token_hex(3)}", machines)
    web = f"{network.name}w"
    namespaces = [web, *network.machines]
    try:
        for name in namespaces:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", web, "link", "add", "switch", "type", "bridge")
        _ip("-n", web, "addr", "add", f"{WEB}/24", "dev", "switch")
        _ip("-n", web, "link", "set", "switch", "up")
        for number, name in enumerate(network.machines):
            cable = f"cable{number}"
            _ip("-n", web, "link", "add", cable, "type", "veth", "peer", "cable", "netns", name)
            _ip("-n", web, "link", "set", cable, "master", "switch", "up")
            _ip("-n", name, "addr", "add", f"192.0.2.{number + 2}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        yield network
    finally:
        for name in namespaces:
            _ip("netns", "del", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
