"""A network of two namespaces, one for programs and one for the web, with a cable that a test can cut."""

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

WEB, PROGRAMS = "192.0.2.1", "192.0.2.2"  # a range for documentation, which no host uses


@dataclass(frozen=True)
class Network:
    """Two namespaces and a cable between them."""

    name: str
    web_address: str = WEB

    @property
    def for_programs(self) -> str:
        """The namespace at the programs' end."""
        return f"{self.name}p"

    def listen(self, address: tuple[str, int]) -> socket.socket:
        """Open a listening socket at the web's end, in a thread, because a thread cannot leave a namespace."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._listen_there, address).result()

    def _listen_there(self, address: tuple[str, int]) -> socket.socket:
        enter(f"{self.name}w")
        return socket.create_server(address)

    def cut(self) -> None:
        """Cut the cable: packets are lost."""
        _ip("-n", f"{self.name}w", "link", "set", "cable", "down")

    def restore(self) -> None:
        """Restore the cable."""
        _ip("-n", f"{self.name}w", "link", "set", "cable", "up")


def enter(namespace: str) -> None:
    """Move this thread into a namespace. It cannot leave it."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns failed")


@contextlib.contextmanager
def own_network() -> Iterator[Network]:
    """Make the namespaces and the cable, and remove them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("may not make a network here (needs root and iproute2)")
    network = Network(f"hw{secrets.token_hex(3)}")
    ends = {f"{network.name}w": WEB, f"{network.name}p": PROGRAMS}
    try:
        for end in ends:
            _ip("netns", "add", end)
        _ip(
            "-n",
            f"{network.name}w",
            "link",
            "add",
            "cable",
            "type",
            "veth",
            "peer",
            "cable",
            "netns",
            f"{network.name}p",
        )
        for end, address in ends.items():
            _ip("-n", end, "addr", "add", f"{address}/30", "dev", "cable")
            _ip("-n", end, "link", "set", "cable", "up")
            _ip("-n", end, "link", "set", "lo", "up")
        yield network
    finally:
        for end in ends:
            _ip("netns", "del", end)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
