"""Spec 11.9: a child that reads bytes of the web has no privileges, no network, no other files, and starts nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.sandbox.confinement import USER, Rule
from tests.integration import forbid
from tests.integration.attacks import ATTACKS
from tests.program import headwater

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
REFUSALS = {"PermissionError", "FileNotFoundError", "RuntimeError", "ValueError"}  # no /proc, no thread, no limit
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all")
needs_root = pytest.mark.skipif(not IS_ROOT or not shutil.which("setpriv"), reason="needs root and setpriv")


def attack(mode: str, *wrapped_by: str) -> dict[str, Any]:
    command = [*wrapped_by, sys.executable, "-m", "tests.integration.attacks", mode]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def forbidding(*names: str) -> tuple[str, ...]:
    return sys.executable, str(Path(forbid.__file__)), ",".join(names)


def assert_refused(found: dict[str, Any]) -> None:
    """Assert that each attack failed in a child that lived on, and left no trace."""
    every = {function.__name__ for group in ATTACKS.values() for function in group}
    assert set(found["errors"]) == every
    assert {name: error for name, error in found["errors"].items() if error not in REFUSALS} == {}
    assert found["files"] == {"open": "secret", "removable": "secret"}
    assert found["is_alive"]


def test_each_attack_on_the_rules_fails() -> None:
    found = attack("confined")
    assert_refused(found)
    status = found["status"]
    assert {status[name].strip("0") for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {""}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert len(found["descriptors"]) == 5  # three of /dev/null, the socket of its calls, the memory of their bodies
    assert found["shared_memory"] == [False], "a child only reads the bodies"


@needs_root
def test_a_child_of_root_has_its_own_user_and_no_group() -> None:
    status = attack("confined")["status"]
    assert status["Uid"].split()[:3] == status["Gid"].split()[:3] == [str(USER)] * 3
    assert status["Groups"].strip() == ""


@needs_root
def test_the_rules_need_no_root() -> None:
    found = attack("confined", *WITHOUT_CAPABILITIES)
    assert_refused(found)
    assert set(found["missing"]) == {Rule.PRIVILEGES}  # root without capabilities cannot give a child its own user


@needs_root
def test_each_attack_works_without_the_rules() -> None:
    """Without this test, an attack that never works would prove nothing."""
    assert {name: error for name, error in attack("free")["errors"].items() if error} == {}


@pytest.mark.parametrize(
    ("absent", "missing"),
    [
        ("landlock", {Rule.FILES}),
        ("unshare", {Rule.PROCESSES}),
        ("seccomp", set(Rule)),
        pytest.param("setresuid", {Rule.PRIVILEGES}, marks=needs_root),
    ],
)
def test_a_child_works_without_what_the_kernel_lacks_and_breaks_only_that_rule(absent: str, missing: set[Rule]) -> None:
    found = attack("confined", *forbidding(*absent.split(",")))
    assert set(found["missing"]) == missing
    may_work = {function.__name__ for rule in missing for function in ATTACKS[rule]}
    assert {name for name, error in found["errors"].items() if error is None} <= may_work


def test_doctor_names_each_rule_that_the_kernel_cannot_enforce(tmp_path: Path) -> None:
    done = headwater("doctor", "--json", cwd=tmp_path, data_dir=tmp_path, wrapped_by=forbidding("landlock", "unshare"))
    [found] = (check for check in json.loads(done.stdout)["checks"] if check["name"] == "sandbox")
    assert found["state"] == "warning"
    assert [line.partition(":")[0] for line in found["lines"]] == [Rule.PROCESSES, Rule.FILES]
    assert "unshare: Operation not permitted" in found["lines"][0]
