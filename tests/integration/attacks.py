"""Attacks that a parser under hostile control may try in its child (spec 11.9).

An attack returns if it works, and raises an error if it fails. This module is a program too. It runs all attacks in a
child of a sandbox or (`free`) in a process without limits, and reports the error of each.
"""

import asyncio
import ctypes
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import SandboxFailed
from headwater.sandbox import kernel
from headwater.sandbox.confinement import Rule, list_missing_rules
from headwater.sandbox.pool import Sandbox

_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17


@dataclass(frozen=True)
class Target:
    """The victims of the attacks."""

    process: int
    port: int
    name: str  # an abstract UNIX socket
    folder: str  # it holds a file `open` that anyone can read and write


def connect_by_tcp(target: Target) -> None:
    socket.create_connection(("127.0.0.1", target.port), 5).close()


def send_by_udp(target: Target) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"loot", ("127.0.0.1", target.port))


def connect_to_a_unix_socket(target: Target) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"\0{target.name}")


def connect_to_a_socket_file(target: Target) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"{target.folder}/socket")


def ask_the_kernel_by_netlink(_: Target) -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()


def fork(_: Target) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def execute_a_program(_: Target) -> None:
    os.execv("/bin/true", ["true"])


def spawn_a_program(_: Target) -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def start_a_subprocess(_: Target) -> None:
    subprocess.run(["/bin/true"], check=True)


def start_a_thread(_: Target) -> None:
    thread = threading.Thread(target=os.getpid)
    thread.start()
    thread.join()


def read_a_file(target: Target) -> None:
    Path(target.folder, "open").read_bytes()


def read_the_list_of_users(_: Target) -> None:
    Path("/etc/passwd").read_bytes()


def list_a_folder(target: Target) -> None:
    os.listdir(target.folder)


def write_a_file(target: Target) -> None:
    Path(target.folder, "open").write_bytes(b"loot")


def make_a_file(target: Target) -> None:
    Path(target.folder, "new").write_bytes(b"loot")


def change_python(_: Target) -> None:
    Path(os.__file__).open("ab").close()


def remove_a_file(target: Target) -> None:
    Path(target.folder, "removable").unlink()


def make_a_folder(target: Target) -> None:
    Path(target.folder, "folder").mkdir()


def rename_a_file(target: Target) -> None:
    Path(target.folder, "open").replace(Path(target.folder, "open"))


def make_a_link(target: Target) -> None:
    Path(target.folder, "link").symlink_to("/etc/passwd")


def make_a_pipe(target: Target) -> None:
    os.mkfifo(Path(target.folder, "pipe"))


def change_a_mode(target: Target) -> None:
    Path(target.folder, "open").chmod(0o666)


def shorten_a_file(target: Target) -> None:
    os.truncate(Path(target.folder, "open"), 0)


def open_a_device(_: Target) -> None:
    Path("/dev/null").open("rb").close()


def make_a_file_in_memory(_: Target) -> None:
    os.close(os.memfd_create("loot"))


def ask_whether_a_process_exists(target: Target) -> None:
    os.kill(target.process, 0)


def signal_all_processes(_: Target) -> None:
    os.kill(-1, 0)


def signal_the_group(_: Target) -> None:
    os.kill(0, 0)


def find_a_process(target: Target) -> None:
    os.stat(f"/proc/{target.process}")


def read_a_command_line(target: Target) -> None:
    Path(f"/proc/{target.process}/cmdline").read_bytes()


def read_its_own_status(_: Target) -> None:
    Path("/proc/self/status").read_bytes()


def trace_a_process(target: Target) -> None:
    kernel.call("ptrace", _PTRACE_ATTACH, target.process, None, None)
    with suppress(ChildProcessError):
        os.waitpid(target.process, 0)
    kernel.call("ptrace", _PTRACE_DETACH, target.process, None, None)


def read_memory_of_a_process(target: Target) -> None:
    kernel.call("process_vm_readv", target.process, None, ctypes.c_ulong(0), None, ctypes.c_ulong(0), ctypes.c_ulong(0))


def open_a_process(target: Target) -> None:
    os.close(os.pidfd_open(target.process))


def read_limits_of_a_process(target: Target) -> None:
    resource.prlimit(target.process, resource.RLIMIT_NOFILE)


def read_priority_of_a_process(target: Target) -> None:
    os.getpriority(os.PRIO_PROCESS, target.process)


def read_group_of_a_process(target: Target) -> None:
    os.getpgid(target.process)


def become_root(_: Target) -> None:
    os.setresuid(0, 0, 0)


def enter_a_user_namespace(_: Target) -> None:
    kernel.call("unshare", kernel.CLONE_NEWUSER)


def change_the_root_folder(_: Target) -> None:
    os.chroot("/")


def raise_a_limit(_: Target) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


ATTACKS: dict[Rule, list[Callable[[Target], None]]] = {
    Rule.NETWORK: [
        connect_by_tcp,
        send_by_udp,
        connect_to_a_unix_socket,
        connect_to_a_socket_file,
        ask_the_kernel_by_netlink,
    ],
    Rule.PROGRAMS: [fork, execute_a_program, spawn_a_program, start_a_subprocess, start_a_thread],
    Rule.FILES: [
        read_a_file,
        read_the_list_of_users,
        list_a_folder,
        write_a_file,
        make_a_file,
        change_python,
        remove_a_file,
        make_a_folder,
        rename_a_file,
        make_a_link,
        make_a_pipe,
        change_a_mode,
        shorten_a_file,
        open_a_device,
        make_a_file_in_memory,
    ],
    Rule.PROCESSES: [
        ask_whether_a_process_exists,
        signal_all_processes,
        signal_the_group,
        find_a_process,
        read_a_command_line,
        read_its_own_status,
        trace_a_process,
        read_memory_of_a_process,
        open_a_process,
        read_limits_of_a_process,
        read_priority_of_a_process,
        read_group_of_a_process,
    ],
    Rule.PRIVILEGES: [become_root, enter_a_user_namespace, change_the_root_folder, raise_a_limit],
}


def open_descriptors() -> list[int]:
    """Return the descriptors that the child has."""
    return [number for number in range(32) if _is_open(number)]


def shared_memory() -> list[bool]:
    """Return for each piece of memory that the program shares with the child whether the child can write to it."""
    return [_is_writable(number) for number in open_descriptors() if stat.S_ISREG(os.fstat(number).st_mode)]


def _is_writable(descriptor: int) -> bool:
    with suppress(OSError):
        os.write(descriptor, b"x")
        return True
    return False


def _is_open(descriptor: int) -> bool:
    with suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


def process() -> int:
    return os.getpid()


def attack(name: str, target: dict[str, Any]) -> str | None:
    """Try one attack. Returns None if it works, and the name of its error if it fails."""
    [function] = (function for group in ATTACKS.values() for function in group if function.__name__ == name)
    try:
        function(Target(**target))
    except Exception as error:  # noqa: BLE001 (an attack may fail in any way)
        return type(error).__name__
    return None


def read_status(process: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())


async def attack_from_a_child(names: list[str], target: dict[str, Any]) -> dict[str, Any]:
    async with Sandbox(workers=1, packages=[__name__, "headwater"], preload=[__name__]) as sandbox:
        errors = {}
        for name in names:
            try:
                errors[name] = await sandbox.run(attack, name, target, returns=str | None)
            except SandboxFailed as error:  # the child died
                errors[name] = str(error)
        child = await sandbox.run(process, returns=int)
        return {
            "errors": errors,
            "missing": await sandbox.run(list_missing_rules, returns=dict[str, str]),
            "descriptors": await sandbox.run(open_descriptors, returns=list[int]),
            "shared_memory": await sandbox.run(shared_memory, returns=list[bool]),
            "status": read_status(child),
        }


def attack_freely(names: list[str], target: dict[str, Any]) -> dict[str, Any]:
    return {"errors": {name: _attack_in_a_fork(name, target) for name in names}}


def _attack_in_a_fork(name: str, target: dict[str, Any]) -> str | None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, (attack(name, target) or "").encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        error = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return error or (None if status == 0 else "death")


def main(mode: str) -> None:
    names = [function.__name__ for group in ATTACKS.values() for function in group]
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX) as file_listener,
        subprocess.Popen(["/bin/sleep", "60"]) as victim,
    ):
        name = f"headwater-attacks-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.listen()
        file_listener.bind(f"{folder}/socket")
        file_listener.listen()
        os.chmod(f"{folder}/socket", 0o777)
        os.chmod(folder, 0o777)
        for file in (Path(folder, "open"), Path(folder, "removable")):
            file.write_text("secret")
            file.chmod(0o666)
        target = asdict(Target(victim.pid, server.getsockname()[1], name, folder))
        found = attack_freely(names, target) if mode == "free" else asyncio.run(attack_from_a_child(names, target))
        found["is_alive"] = victim.poll() is None
        found["files"] = {file.name: file.read_text() for file in Path(folder).iterdir() if file.is_file()}
        victim.send_signal(signal.SIGKILL)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    from tests.integration import attacks  # the child finds functions by the name of their module

    attacks.main(sys.argv[1])
