"""Spec 4.3: no request goes to this machine, also not by its public addresses."""

import json
import os
import shutil
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, json, subprocess, sys
from datetime import UTC, datetime
from ipaddress import ip_network
from headwater.core.errors import HeadwaterError
from headwater.http.client import HttpClient
from headwater.http.guard import AddressGuard, AddressRefused

def add(address):
    subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    await writer.drain()
    writer.close()

async def ask(method, guard, url):
    async with HttpClient(guard=guard, clock=lambda: datetime.now(UTC)) as client:
        try:
            return (await client.request(method, url, user_agent="x")).status
        except HeadwaterError as error:
            return error.reason

async def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    add("9.9.9.9/32")
    server = await asyncio.start_server(answer, "9.9.9.9", 0)
    url = f"http://9.9.9.9:{server.sockets[0].getsockname()[1]}/"
    guard = AddressGuard()
    found = {method: await ask(method, guard, url) for method in ("GET", "POST")}
    found["allowed"] = await ask("GET", AddressGuard([ip_network("9.9.9.9/32")]), url)
    guard.check("9.9.9.10")
    add("9.9.9.10/32")
    async with asyncio.timeout(10):
        while True:
            try:
                guard.check("9.9.9.10")
            except AddressRefused:
                break
            await asyncio.sleep(0.05)
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
def test_the_public_addresses_of_this_machine_are_refused_and_read_again() -> None:
    command = ["unshare", "--net", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {"GET": "address_refused", "POST": "address_refused", "allowed": 204}
