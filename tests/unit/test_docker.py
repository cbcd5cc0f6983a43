"""The images and the compose file, checked without building them (spec 1.7)."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.core.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("Dockerfile*"))
INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENV", "EXPOSE", "ENTRYPOINT", "CMD"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each with its continued lines."""
    text = re.sub(r"\\\n\s*", "", path.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    return loaded


def test_one_image_has_a_browser_and_one_has_none() -> None:
    assert [path.name for path in DOCKERFILES] == ["Dockerfile", "Dockerfile.browser"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_pinned_runs_without_privileges_and_copies_existing_files(path: Path) -> None:
    said = instructions(path)
    assert {word for word, _ in said} <= INSTRUCTIONS
    (base,) = [rest for word, rest in said if word == "FROM"]
    assert re.search(r":[\w.-]+$", base)
    assert not base.endswith(":latest")
    users = [rest for word, rest in said if word == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    steps = [step for word, rest in said if word == "RUN" for step in rest.split("&&")]
    installs = [step for step in steps if re.search(r"\bpip\b.* install ", step)]
    assert len(installs) == 2
    assert all("--require-hashes" in step or "--no-deps" in step for step in installs)
    for copied in (name for word, rest in said if word == "COPY" for name in rest.split()[:-1]):
        assert (ROOT / copied).exists(), copied
        assert f"!{copied}" in (ROOT / ".dockerignore").read_text().splitlines()
    assert said[-2:] == [("ENTRYPOINT", '["headwater"]'), ("CMD", '["up"]')]


def test_the_browser_image_has_the_locked_version_of_playwright() -> None:
    """Spec 1.7: another version would not find its browser."""
    (base,) = [rest for word, rest in instructions(ROOT / "docker" / "Dockerfile.browser") if word == "FROM"]
    tag = re.search(r"playwright/python:v([\d.]+)-\w+$", base)
    locked = re.search(r"(?m)^playwright==([\d.]+) ", (ROOT / "requirements.txt").read_text())
    assert tag
    assert locked
    assert tag[1] == locked[1]


def test_the_browser_image_builds_from_the_official_image_by_default(compose: dict[str, Any]) -> None:
    """Spec 1.7: the default build arguments work. The image has no ensurepip, so `venv` must not need it."""
    said = instructions(ROOT / "docker" / "Dockerfile.browser")
    (registry,) = [rest for word, rest in said if word == "ARG"]
    assert registry == "REGISTRY=mcr.microsoft.com/"
    over = yaml.safe_load((ROOT / "docker" / "compose.browser.yaml").read_text())["services"]
    assert over["headwater"]["build"]["args"] == {"REGISTRY": "${REGISTRY:-mcr.microsoft.com/}"}
    assert compose["services"]["headwater"]["build"]["dockerfile"] == "docker/Dockerfile"
    environments = [step for word, rest in said if word == "RUN" for step in rest.split("&&") if " -m venv" in step]
    assert environments
    assert all("--without-pip" in step for step in environments)


def test_opensearch_starts_only_by_its_profile(compose: dict[str, Any]) -> None:
    """Spec 4.4: PostgreSQL holds the documents by default."""
    profiles = {name: service["profiles"] for name, service in compose["services"].items() if "profiles" in service}
    assert profiles == {"opensearch": ["opensearch"]}
    assert "opensearch" not in compose["services"]["headwater"]["depends_on"]


def test_every_service_has_a_health_check(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        kind, program, *_ = service["healthcheck"]["test"]
        assert (kind, bool(program)) == ("CMD", True), name
    waits = compose["services"]["headwater"]["depends_on"]
    assert {one["condition"] for one in waits.values()} == {"service_healthy"}


def test_linters_find_nothing() -> None:
    """The linters run as in `make check`. Their information messages are no failures."""
    tools = Path(sys.executable).parent
    for words in (
        [tools / "hadolint", "--failure-threshold", "warning", *DOCKERFILES],
        [tools / "yamllint", "--strict", "--config-file", ROOT / ".yamllint", ROOT / "docker"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_pins_its_images_and_keeps_the_data(compose: dict[str, Any]) -> None:
    services = compose["services"]
    images = {name: service["image"] for name, service in services.items() if "image" in service}
    assert {name: image.partition(":")[0].split("/")[-1] for name, image in images.items()} == {
        "postgres": "postgres",
        "redis": "redis",
        "opensearch": "opensearch",
    }
    assert all(re.search(r":\d[\w.]*$", image) for image in images.values())
    for name, service in services.items():
        (mounted,) = service["volumes"]
        assert mounted.partition(":")[0] in compose["volumes"], name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "open to this machine only"
        if "build" in service:
            folder = ROOT / "docker" / service["build"]["context"]
            assert (folder / service["build"]["dockerfile"]).exists()
        assert {*service.get("depends_on", ())} <= services.keys()


def test_the_browser_overlay_changes_the_same_service(compose: dict[str, Any]) -> None:
    over = yaml.safe_load((ROOT / "docker" / "compose.browser.yaml").read_text())["services"]
    assert over.keys() <= compose["services"].keys()
    assert (ROOT / over["headwater"]["build"]["dockerfile"]).name == "Dockerfile.browser"


def test_the_compose_file_uses_existing_settings_and_no_password(compose: dict[str, Any]) -> None:
    known = {PREFIX + setting.name.upper() for setting in fields(Settings)}
    for service in compose["services"].values():
        given = {name for name in service.get("environment", {}) if name.startswith(PREFIX)}
        assert given <= known
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "password" in str(value).lower():
                assert "${POSTGRES_PASSWORD:?" in value
