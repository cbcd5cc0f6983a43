"""`headwater doctor` on real trouble: each part that is broken is named, and keeps no other from being checked.

Spec 8.2. Every test runs the real command, in most of them forked from a process that has imported it.
"""

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from headwater.app.maintenance import RESCUERS
from headwater.browser.chromium import find_program
from headwater.db import migrate
from headwater.db.embedded.server import open_server
from headwater.db.pool import Database
from headwater.db.search import rebuild_search_index, search_index_is_whole
from headwater.db.sql import query
from headwater.sources.registry import get_kinds
from tests.conftest import Server
from tests.postgres15 import Postgres15
from tests.program import address_of, forked, headwater, with_a_mount

NAMES = [
    "settings",
    "data folder",
    "disk",
    "database",
    "schema",
    "clock",
    "leases",
    "hosts",
    "hand-offs",
    "index",
    "raw content",
    "sources",
    "webhooks",
    "api key",
    "time zone",
    "dns",
    "api address",
    "api token",
    "sandbox",
    "contact url",
    "kinds",
    "chromium",
    "redis",
    "search url",
]
CHROMIUM = find_program() or ""
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


class Doctor:
    """The command, run in a folder of its own."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.wrapped_by: tuple[str, ...] = ()
        self.plant = "-"

    def finds(self, *, exit_code: int, **settings: object) -> dict[str, dict[str, Any]]:
        """Return the findings. The command answers within ten seconds, lists all checks in order, and has fixes."""
        began = time.monotonic()
        settings = {"data_dir": self.cwd / "data", "listen_port": 0} | settings
        answer = headwater("doctor", "--json", cwd=self.cwd, wrapped_by=self.wrapped_by, plant=self.plant, **settings)
        assert time.monotonic() - began < 10
        assert (answer.returncode, answer.stderr) == (exit_code, ""), answer.stdout
        report = json.loads(answer.stdout)
        found = {check["name"]: check for check in report["checks"]}
        assert list(found) == NAMES
        assert report["healthy"] is (exit_code == 0)
        for check in found.values():
            assert check["state"] in ("ok", "warning", "failed", "not checked", "not configured")
            assert "\n" not in check["found"] + (check["fix"] or "")
            assert bool(check["fix"]) is (check["state"] != "ok"), check
        return found


def test_every_check_is_explained() -> None:
    """Spec 8.2: docs/operations.md explains each check."""
    explained = re.findall(r"^\| ([a-z -]+) \| ", OPERATIONS.read_text(), re.MULTILINE)
    assert [name for name in NAMES if name not in explained] == []


@pytest.fixture
def hasty_doctor(doctor: "Doctor") -> "Doctor":
    """A doctor that waits a second for parts that never answer."""
    doctor.plant = "hasty doctor"
    return doctor


@pytest.fixture
def doctor(tmp_path: Path, without_browser: str, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    # The machine of the tests may have no DNS.
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    # Most tests need no browser.
    monkeypatch.setenv("PATH", without_browser)
    return Doctor(tmp_path)


def states(found: dict[str, dict[str, Any]], *names: str) -> dict[str, str]:
    """The states of the checks, or of those that are named."""
    return {name: found[name]["state"] for name in names or NAMES}


async def tell(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def guest(url: str) -> AsyncIterator[str]:
    """The same database for a role that has no rights in it."""
    role = f"guest_{secrets.token_hex(4)}"
    await tell(url, f"CREATE ROLE {role} LOGIN PASSWORD 'guest'")
    yield urlsplit(url)._replace(netloc=f"{role}:guest@").geturl()
    await tell(url, f"DROP ROLE {role}")


@pytest.fixture
def current_url(database: Database, database_url: str) -> str:
    """A database with the schema in place."""
    del database
    return database_url


def test_a_healthy_machine_is_found_healthy_and_unchanged(data: Path, tmp_path: Path, doctor: Doctor) -> None:
    headwater("migrate", "up", cwd=tmp_path, data_dir=data)
    found = doctor.finds(exit_code=0)
    del found["dns"]  # there may be none where tests run
    not_ok = {name for name, check in found.items() if check["state"] != "ok"}
    assert not_ok <= {
        "api token",
        "contact url",
        "chromium",
        "redis",
        "webhooks",
        "api key",
        "search url",
        "raw content",
    }
    assert "PostgreSQL 18." in found["database"]["found"]
    assert "embedded" in found["database"]["found"]
    assert not list(data.glob("postgres/**/postmaster.pid"))


@pytest.mark.both_servers
def test_a_given_server_is_found_healthy(current_url: str, server: Server, doctor: Doctor) -> None:
    found = doctor.finds(exit_code=0, database_url=current_url)
    assert set(states(found, "database", "schema", "clock", "leases", "hosts").values()) == {"ok"}
    major = "15" if isinstance(server, Postgres15) else "18"
    assert f"PostgreSQL {major}." in found["database"]["found"]
    assert urlsplit(current_url).path in found["database"]["found"]


def test_kinds_that_cannot_be_loaded_are_named_with_the_reason(
    tmp_path: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.1: the sources of such a kind cannot be read, and all others can."""
    installed = f"installed: {', '.join(sorted(get_kinds()))}"
    healthy = doctor.finds(exit_code=0)["kinds"]
    assert (healthy["state"], healthy["found"]) == ("ok", installed)
    assert "manual, " in installed
    metadata = tmp_path / "plugins" / "odd_kinds-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-kinds\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[headwater.kinds]\nvotes = nosuchmodule:Kind\nhearings = json:dumps\nbase = headwater:Item\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(metadata.parent), os.environ.get("PYTHONPATH", "")]))
    found = doctor.finds(exit_code=1)["kinds"]
    assert found["state"] == "failed"
    assert found["found"] == "3 cannot be loaded: base, hearings, votes; " + installed
    assert found["lines"] == [
        "base: headwater:Item: is no subclass of headwater.Kind, in the package odd-kinds",
        "hearings: json:dumps: is no subclass of headwater.Kind, in the package odd-kinds",
        "votes: nosuchmodule:Kind: ModuleNotFoundError: No module named 'nosuchmodule', in the package odd-kinds",
    ]
    assert found["fix"] == (
        "Fix the package that it comes from and install it again, or uninstall it; then restart Headwater."
    )


def test_an_empty_machine_has_no_faults_and_stays_empty(data: Path, doctor: Doctor) -> None:
    found = doctor.finds(exit_code=0)
    missing = states(found, "data folder", "database", "schema", "leases", "hosts", "api token")
    assert set(missing.values()) == {"not configured"}
    assert found["clock"]["state"] == "not checked"
    assert "first start makes it" in found["database"]["fix"]
    assert not data.exists()


def test_webhooks_and_key_have_the_same_finding_before_and_after_the_first_start(doctor: Doctor) -> None:
    """Spec 8.2: each finding is true."""
    found = doctor.finds(exit_code=0)
    headwater("migrate", "up", cwd=doctor.cwd, data_dir=doctor.cwd / "data")
    assert states(found, "webhooks", "api key") == {"webhooks": "not configured", "api key": "not configured"}
    later = doctor.finds(exit_code=0)
    assert [found[name] for name in ("webhooks", "api key")] == [later[name] for name in ("webhooks", "api key")]


def test_a_key_that_is_set_is_found_before_there_is_a_database(doctor: Doctor) -> None:
    """Spec 1.4."""
    assert doctor.finds(exit_code=0, api_data_gov_key="a-key")["api key"]["state"] == "ok"


@pytest.mark.empty_database
async def test_an_empty_database_has_no_tables_and_says_how_to_make_them(database_url: str, doctor: Doctor) -> None:
    """Spec 8.2: a start makes tables, and neither leases, hosts, hand-offs, webhooks nor keys."""
    found = doctor.finds(exit_code=0, database_url=database_url)
    for name in ("leases", "hosts", "hand-offs", "index"):
        assert found[name]["state"] == "not configured"
        assert found[name]["found"] == "there are no tables yet"
        assert found[name]["fix"] == "`headwater up` or `headwater migrate up` makes them."
    assert "webhook add" in found["webhooks"]["fix"]
    assert "api.data.gov/signup" in found["api key"]["fix"]


@pytest.mark.usefixtures("doctor")
def test_the_report_fits_into_eighty_columns(data: Path, tmp_path: Path) -> None:
    for settings in ({}, {"database_url": "postgresql://127.0.0.1:1/x", "fetch_workers": "many"}):
        answer = headwater("doctor", cwd=tmp_path, data_dir=data / ("long" * 30), listen_port=0, **settings)
        lines = answer.stdout.splitlines()
        assert max(map(len, lines)) <= 80
        assert all(line == line.rstrip() for line in lines)
        starts = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
        assert starts[: len(NAMES)] == NAMES
        assert lines[-1 - bool(settings)].endswith(" not configured")
        assert (lines[-1] == "Failed: settings, database.") is bool(settings)


@pytest.mark.both_servers
async def test_an_older_or_missing_schema_is_fixed_by_a_start(
    database: Database, database_url: str, doctor: Doctor
) -> None:
    for to, state, said in ((1, "warning", "at version 1, this program needs"), (0, "not configured", "not there")):
        await migrate.down(database, to)
        found = doctor.finds(exit_code=0, database_url=database_url)
        assert found["schema"]["state"] == state
        assert said in found["schema"]["found"]
        assert "migrate up" in found["schema"]["fix"]


async def test_a_newer_schema_is_failed_and_left_alone(current_url: str, doctor: Doctor) -> None:
    await tell(current_url, "INSERT INTO schema_migrations (number, name) VALUES (999, 'future')")
    found = doctor.finds(exit_code=1, database_url=current_url)
    assert states(found, "database", "schema") == {"database": "ok", "schema": "failed"}
    assert "999" in found["schema"]["found"]


@pytest.mark.both_servers
@pytest.mark.empty_database
async def test_a_role_that_may_not_create_tables_fails(database_url: str, doctor: Doctor) -> None:
    """The usual stumbling block of PostgreSQL 15: the role does not own its database."""
    async with guest(database_url) as url:
        found = doctor.finds(exit_code=1, database_url=url)
    assert states(found, "database", "schema") == {"database": "ok", "schema": "failed"}
    assert "GRANT CREATE" in found["schema"]["fix"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:hunter2@127.0.0.1:1/x", "127.0.0.1:1/x"),
        ("postgresql://me:hunter2@no-such-host.invalid/x", "no-such-host.invalid"),
        ("postgresql://me:hunter2/hunter2@127.0.0.1/x", "must be escaped"),
        ("postgresql://me:1/hunter2@127.0.0.1/x", "the given address"),
    ],
)
def test_an_unreachable_database_is_named_without_its_password(url: str, said: str, doctor: Doctor) -> None:
    found = doctor.finds(exit_code=1, database_url=url)
    assert states(found, "database", "schema", "clock", "sandbox") == {
        "database": "failed",
        "schema": "not checked",
        "clock": "not checked",
        "sandbox": "ok",
    }
    assert said in found["database"]["found"]
    assert "HEADWATER_DATABASE_URL" in found["database"]["fix"]
    assert "hunter" not in str(found)


def test_a_database_that_accepts_and_never_answers_delays_no_other_check(hasty_doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = hasty_doctor.finds(exit_code=1, database_url=f"postgresql://127.0.0.1:{port}/x")
    assert "did not answer within 1 second" in found["database"]["found"]
    assert states(found, "disk", "time zone", "sandbox") == {"disk": "ok", "time zone": "ok", "sandbox": "ok"}


async def test_a_database_that_stops_answering_affects_only_later_checks(
    current_url: str, hasty_doctor: Doctor
) -> None:
    connection = await asyncpg.connect(current_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")
            found = await asyncio.to_thread(hasty_doctor.finds, exit_code=1, database_url=current_url)
    finally:
        await connection.close()
    assert states(found, "database", "clock", "schema") == {"database": "ok", "clock": "ok", "schema": "failed"}
    assert "no answer within" in found["schema"]["found"]


def test_an_embedded_server_that_hangs_delays_no_other_check_and_is_not_killed(
    data: Path, hasty_doctor: Doctor
) -> None:
    with open_server(data):
        postmaster = int(next(data.glob("postgres/*/cluster/postmaster.pid")).read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGSTOP)
        try:
            found = hasty_doctor.finds(exit_code=1)
        finally:
            os.kill(postmaster, signal.SIGCONT)
        assert "not ready within 1 seconds" in found["database"]["found"]
        hasty_doctor.plant = "-"
        assert hasty_doctor.finds(exit_code=0)["database"]["state"] == "ok"


def test_an_embedded_server_that_cannot_start_shows_its_log(data: Path, doctor: Doctor) -> None:
    open_server(data).close()
    cluster = next(data.glob("postgres/*/cluster"))
    with (cluster / "postgresql.auto.conf").open("a") as settings:
        settings.write("wal_level = nonsense\n")
    found = doctor.finds(exit_code=1)
    assert "it did not start" in found["database"]["found"]
    assert str(cluster.parent / "log") in found["database"]["fix"]
    assert any("wal_level" in line for line in found["database"]["lines"])
    assert len(found["database"]["lines"]) <= 5


def test_a_cluster_of_another_version_fails_and_no_new_one_is_made(data: Path, doctor: Doctor) -> None:
    (data / "postgres/17/cluster").mkdir(parents=True)
    (data / "postgres/17/cluster/PG_VERSION").write_text("17\n")
    found = doctor.finds(exit_code=1)
    assert "PostgreSQL 17" in found["database"]["found"]
    assert "`headwater upgrade`" in found["database"]["fix"]
    assert [path.name for path in (data / "postgres").iterdir()] == ["17"]


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, doctor: Doctor) -> None:
    """No user may create a folder in /proc, not even root."""
    (tmp_path / "file").write_text("x")
    for folder, said in (
        (Path("/proc/headwater"), "/proc cannot be"),
        (tmp_path / "file/below", "file is not a folder"),
    ):
        found = doctor.finds(exit_code=1, data_dir=folder)
        assert found["data folder"]["state"] == "failed"
        assert said in found["data folder"]["found"]
        assert "HEADWATER_DATA_DIR" in found["data folder"]["fix"]
        assert found["sandbox"]["state"] == "ok"
        for name in ("database", "schema", "clock", "leases", "hosts", "api token"):
            assert found[name]["state"] == "not checked"
            assert found[name]["fix"] == "Fix the data folder first."


def test_an_external_database_is_checked_without_the_data_folder(current_url: str, doctor: Doctor) -> None:
    found = doctor.finds(exit_code=1, data_dir="/proc/headwater", database_url=current_url)
    assert states(found, "data folder", "database", "clock") == {
        "data folder": "failed",
        "database": "ok",
        "clock": "ok",
    }


def test_the_fix_of_a_read_only_disk_is_to_remount_it(data: Path, doctor: Doctor) -> None:
    """The log of an existing cluster is not shown: the cluster is not the cause."""
    data.mkdir()
    doctor.wrapped_by = with_a_mount(
        f'cd "{data}" && mount -t tmpfs tmpfs . && cd "{data}" && mkdir -p postgres/18/cluster && '
        'echo 18 >postgres/18/cluster/PG_VERSION && echo "long ago" >postgres/18/log && mount -o remount,ro . && '
        f'cd "{data.parent}" && exec "$@"'
    )
    found = doctor.finds(exit_code=1)
    assert found["data folder"]["found"] == f"{data} cannot be written to: Read-only file system"
    assert f"mount -o remount,rw {data}" in found["data folder"]["fix"]
    assert found["database"]["state"] == "not checked"
    assert "long ago" not in str(found)


@only_root
def test_a_folder_of_another_user_is_named(data: Path, doctor: Doctor) -> None:
    data.mkdir()
    os.chown(data, 12345, 12345)
    found = doctor.finds(exit_code=0)
    assert found["data folder"]["state"] == "warning"
    assert "belongs to uid 12345, and this is root" in found["data folder"]["found"]


@only_root
def test_folders_of_raw_files_that_belong_to_another_user_are_named(data: Path, doctor: Doctor) -> None:
    """Spec 8.2: a run as another user leaves folders that the service cannot write to."""
    folder = data / "corpus" / "news"
    folder.mkdir(parents=True)
    os.chown(folder, 12345, 12345)
    found = doctor.finds(exit_code=1)["data folder"]
    assert (found["state"], found["fix"]) == ("failed", f"chown -R 0 {folder}")
    assert f"{folder} belongs to uid 12345" in found["found"]


@pytest.mark.parametrize(
    ("contact", "state"), [("", "warning"), ("me", "warning"), ("https://example.org/crawler", "ok")]
)
def test_a_missing_contact_page_is_a_warning(contact: str, state: str, doctor: Doctor) -> None:
    """Spec 1.2: the user agent names a page that explains the crawler."""
    found = doctor.finds(exit_code=0, contact_url=contact)["contact url"]
    assert (found["state"], "HEADWATER_CONTACT_URL" in (found["fix"] or "")) == (state, state != "ok")


async def test_sources_whose_kind_is_not_installed_are_listed(current_url: str, doctor: Doctor) -> None:
    """Spec 8.2: no program reads such a source."""
    await tell(
        current_url,
        "INSERT INTO sources (name, kind, created_at) VALUES ('rulings', 'court_rulings', now()), "
        "('by-hand', 'manual', now())",
    )
    found = doctor.finds(exit_code=1, database_url=current_url)["sources"]
    assert (found["state"], found["lines"]) == ("failed", ["rulings: kind court_rulings"])


@pytest.mark.parametrize(
    ("options", "state"), [("size=100m", "failed"), ("size=1g", "warning"), ("size=4g,nr_inodes=900", "failed")]
)
def test_a_disk_that_is_nearly_full_is_named(options: str, state: str, data: Path, doctor: Doctor) -> None:
    data.mkdir()
    doctor.wrapped_by = with_a_mount(f'mount -t tmpfs -o {options} tmpfs "{data}" && exec "$@"')
    found = doctor.finds(exit_code=int(state == "failed"))
    assert found["disk"]["state"] == state
    assert str(data) in found["disk"]["fix"]


@pytest.fixture
def up(data: Path, tmp_path: Path) -> Iterator[int]:
    """The port of a running Headwater."""
    with forked("up", cwd=tmp_path, data_dir=data, listen_port=0) as process:
        yield int(address_of(process).rpartition(":")[2])
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_an_address_that_headwater_listens_on_is_ok(up: int, doctor: Doctor) -> None:
    found = doctor.finds(exit_code=0, listen_port=up)
    assert "Headwater 0." in found["api address"]["found"]
    assert set(states(found, "database", "schema").values()) == {"ok"}


def test_an_address_of_another_program_or_machine_fails(hasty_doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        found = hasty_doctor.finds(exit_code=1, listen_port=stranger.getsockname()[1])
    assert found["api address"]["state"] == "failed"
    assert "HEADWATER_LISTEN_PORT" in found["api address"]["fix"]
    found = hasty_doctor.finds(exit_code=1, listen_host="203.0.113.9")
    assert "203.0.113.9" in found["api address"]["found"]


def test_every_bad_setting_is_listed_and_other_checks_still_run(tmp_path: Path, doctor: Doctor) -> None:
    (tmp_path / "headwater.toml").write_text("nonsense = 1\nfetch_workers = 0\n")
    found = doctor.finds(exit_code=1, database_url="mysql://me:hunter2@x/y", fetch_worker=3)
    assert found["settings"]["found"] == "4 cannot be used"
    for said, line in zip(
        ("nonsense", "fetch_workers", "HEADWATER_DATABASE_URL", "HEADWATER_FETCH_WORKER "),
        found["settings"]["lines"],
        strict=True,
    ):
        assert said in line
    assert "hunter2" not in str(found)
    assert str(found["settings"]).count("docs/settings.md") == 1
    assert states(found, "settings", "database", "schema", "data folder", "sandbox") == {
        "settings": "failed",
        "database": "not checked",
        "schema": "not checked",
        "data folder": "not configured",
        "sandbox": "ok",
    }


def test_with_an_unreadable_settings_file_only_the_environment_is_checked(tmp_path: Path, doctor: Doctor) -> None:
    (tmp_path / "headwater.toml").write_text("data_dir = ")
    found = doctor.finds(exit_code=1)
    assert "not TOML" in found["settings"]["found"]
    assert states(found, "data folder", "database", "time zone") == {
        "data folder": "not configured",
        "database": "not checked",
        "time zone": "not checked",
    }


def test_an_unknown_time_zone_is_an_error_of_the_settings(doctor: Doctor) -> None:
    found = doctor.finds(exit_code=1, timezone="Mars/Olympus")
    assert states(found, "settings", "time zone") == {"settings": "failed", "time zone": "not checked"}
    assert "Mars/Olympus" in found["settings"]["found"]


@pytest.mark.parametrize(("seconds", "state"), [(10, "warning"), (-10, "warning"), (90, "failed"), (-90, "failed")])
async def test_a_clock_that_is_off_is_named(seconds: int, state: str, current_url: str, doctor: Doctor) -> None:
    """The database has another time, because it finds this function before PostgreSQL's own."""
    database = urlsplit(current_url).path[1:]
    await tell(
        current_url,
        "CREATE SCHEMA skewed",
        "CREATE FUNCTION skewed.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
        f"RETURN pg_catalog.clock_timestamp() + interval '{seconds} s'",
        f"ALTER DATABASE {database} SET search_path = skewed, pg_catalog, public",
    )
    found = doctor.finds(exit_code=int(state == "failed"), database_url=current_url)
    assert found["clock"]["state"] == state
    assert f"{abs(seconds)}.0 s {'behind' if seconds > 0 else 'ahead of'} the database" in found["clock"]["found"]
    assert "NTP" in found["clock"]["fix"]


def test_a_machine_without_time_zones_is_named(tmp_path: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shadow/tzdata").mkdir(parents=True)
    (tmp_path / "shadow/tzdata/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "shadow"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONTZPATH", "")
    found = doctor.finds(exit_code=1)
    assert found["time zone"]["state"] == "failed"
    assert "tzdata" in found["time zone"]["fix"]


async def test_the_host_of_the_first_feed_is_looked_up(current_url: str, doctor: Doctor) -> None:
    for number, (host, state) in enumerate((("no-such-host.invalid", "warning"), ("localhost", "ok"))):
        await tell(
            current_url,
            "DELETE FROM sources",
            "INSERT INTO sources (name, kind, settings, created_at) "
            f"""VALUES ('s{number}', 'site', '{{"feed_url": "http://{host}/feed"}}', now())""",
        )
        found = doctor.finds(exit_code=0, database_url=current_url)
        assert found["dns"]["state"] == state
        assert host in found["dns"]["found"]


@pytest.mark.parametrize(
    ("hosts", "looked_up"), [(["news.demo.test", "localhost"], "localhost"), (["news.demo.test"], "example.org")]
)
async def test_a_host_with_a_fixed_address_is_not_resolved(
    hosts: list[str], looked_up: str, current_url: str, doctor: Doctor
) -> None:
    for number, host in enumerate(hosts):
        await tell(
            current_url,
            "INSERT INTO sources (name, kind, settings, created_at) "
            f"""VALUES ('{9 - number}', 'site', '{{"feed_url": "http://{host}/feed"}}', now())""",
        )
    found = doctor.finds(exit_code=0, database_url=current_url, connect_to="*.demo.test=127.0.0.1:1")
    assert looked_up in found["dns"]["found"]


@only_root
def test_a_name_server_that_never_answers_delays_no_other_check(
    tmp_path: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RES_OPTIONS")
    (tmp_path / "resolv.conf").write_text("nameserver 127.7.7.7\n")
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.7.7.7", 53))
        doctor.wrapped_by = with_a_mount(f'mount --bind "{tmp_path}/resolv.conf" /etc/resolv.conf && exec "$@"')
        found = doctor.finds(exit_code=1, database_url="postgresql://database.example.org/x")
    assert "did not answer within" in found["database"]["found"]
    assert found["dns"]["state"] == "warning"
    assert "no answer within 3 seconds" in found["dns"]["found"]


def test_a_token_that_others_can_read_fails(data: Path, doctor: Doctor) -> None:
    data.mkdir()
    token = data / "api-token"
    secret = "5e6a0b2f-a-token-for-the-doctor-only"
    token.write_text(f"{secret}\n")
    for mode, exit_code, state in ((0o600, 0, "ok"), (0o644, 1, "failed")):
        token.chmod(mode)
        found = doctor.finds(exit_code=exit_code)
        assert found["api token"]["state"] == state
        assert secret not in str(found)
    assert found["api token"]["fix"] == f"chmod 600 {token}"
    assert doctor.finds(exit_code=0, api_token=secret)["api token"]["state"] == "ok"
    token.write_text("\n")
    token.chmod(0o600)
    assert doctor.finds(exit_code=1)["api token"]["state"] == "failed"
    token.write_bytes(b"\xff\xfe" * 32)
    assert doctor.finds(exit_code=1)["api token"]["state"] == "failed"


@pytest.mark.both_servers
async def test_a_role_that_may_not_read_is_named(current_url: str, doctor: Doctor) -> None:
    async with guest(current_url) as url:
        found = doctor.finds(exit_code=1, database_url=url)
    assert states(found, "database", "clock", "schema") == {"database": "ok", "clock": "ok", "schema": "failed"}
    assert "permission denied" in found["schema"]["found"]
    assert "rights" in found["schema"]["fix"]


async def test_leases_past_their_end_and_blocked_hosts_are_counted(current_url: str, doctor: Doctor) -> None:
    held = "'me', gen_random_uuid(), now()"
    await tell(
        current_url,
        "INSERT INTO sources (name, kind, created_at) VALUES ('s', 'site', now())",
        "INSERT INTO poll_state (source_id, lease_holder, lease_token, lease_until) "
        f"SELECT id, {held} - interval '1 hour' FROM sources",
        f"INSERT INTO host_state (host, lease_holder, lease_token, lease_until) VALUES ('a', {held} - interval '1 s')",
        f"INSERT INTO host_state (host, lease_holder, lease_token, lease_until) VALUES ('b', {held} + interval '1 h')",
        "INSERT INTO host_state (host, not_before, blocked_reason) VALUES ('c', now() + interval '1 h', 'dns')",
        "INSERT INTO host_state (host, not_before, blocked_reason) VALUES ('d', now() - interval '1 h', 'dns')",
    )
    found = doctor.finds(exit_code=0, database_url=current_url)
    assert "2 past their end" in found["leases"]["found"]
    assert found["hosts"]["found"] == "0 have work, 1 blocked for now, 0 closed"


def test_leases_of_every_kind_are_counted() -> None:
    counted = query("count_overdue_leases") + query("count_overdue_handoffs")
    assert all(f"FROM {table} WHERE" in counted for table in RESCUERS)


def test_an_installed_browser_is_started(doctor: Doctor) -> None:
    """Spec 1.7."""
    program = find_program(CHROMIUM)
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    found = doctor.finds(exit_code=0, chromium_path=program)["chromium"]
    assert re.fullmatch(rf"{program} starts, version \d[\d.]+", found["found"])


def test_a_missing_browser_has_the_command_to_install_one(doctor: Doctor) -> None:
    found = doctor.finds(exit_code=0)["chromium"]
    assert (found["state"], "apt-get install chromium" in found["fix"]) == ("not configured", True)


async def test_a_missing_browser_lists_the_sources_that_need_one(current_url: str, doctor: Doctor) -> None:
    """Spec 1.7."""
    await tell(
        current_url,
        """INSERT INTO sources (name, kind, settings, created_at, fetch_profile)
           VALUES ('gao', 'manual', '{}', now(), '{"needs_browser": true}'),
                  ('bbc', 'manual', '{}', now(), '{"needs_browser": false}')""",
    )
    found = doctor.finds(exit_code=0, database_url=current_url)["chromium"]
    assert found["state"] == "warning"
    assert found["found"] == "not found, and the pages of gao wait for one"
    assert "apt-get install chromium" in found["fix"]


def test_a_browser_that_does_not_start_is_named(tmp_path: Path, doctor: Doctor) -> None:
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\nexit 1\n")
    browser.chmod(0o755)
    for named, said in ((browser, f"{browser} does not start"), ("/nowhere", "There is no Chromium at /nowhere")):
        found = doctor.finds(exit_code=1, chromium_path=named)["chromium"]
        assert (found["state"], found["found"].startswith(said)) == ("failed", True), found
    assert found["fix"].startswith("Correct the path")


@pytest.mark.both_servers
async def test_a_broken_or_missing_search_index_fails_and_migrate_up_rebuilds_it(
    current_url: str, tmp_path: Path, doctor: Doctor
) -> None:
    """Issue 3: without it every search reads every document."""
    assert doctor.finds(exit_code=0, database_url=current_url)["index"]["state"] == "ok"
    for harm in (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'document_search_words'::regclass",
        "DROP INDEX document_search_words",
    ):
        await tell(current_url, harm)
        found = doctor.finds(exit_code=1, database_url=current_url)["index"]
        assert found["state"] == "failed"
        assert "`headwater migrate up`" in found["fix"]
        mended = await asyncio.to_thread(headwater, "migrate", "up", cwd=tmp_path, database_url=current_url)
        assert (mended.returncode, mended.stdout) == (0, "applied the search index of documents\n")
        assert doctor.finds(exit_code=0, database_url=current_url)["index"]["state"] == "ok"
    again = await asyncio.to_thread(headwater, "migrate", "up", cwd=tmp_path, database_url=current_url)
    assert again.stdout == "nothing to be applied\n"


async def test_words_of_an_earlier_version_are_a_warning_and_reindex_makes_them_again(
    current_url: str, tmp_path: Path, doctor: Doctor
) -> None:
    """Issue 23: a search cuts its words as the index does."""
    await tell(current_url, "UPDATE search_state SET version = 0")
    found = doctor.finds(exit_code=0, database_url=current_url)["index"]
    assert (found["state"], "`headwater search reindex`" in found["fix"]) == ("warning", True)
    done = await asyncio.to_thread(headwater, "search", "reindex", cwd=tmp_path, database_url=current_url)
    assert done.returncode == 0, done.stderr
    assert doctor.finds(exit_code=0, database_url=current_url)["index"]["state"] == "ok"


async def test_only_one_process_rebuilds_the_search_index_and_others_do_not_wait(database: Database) -> None:
    """Machines that start together all migrate; each waits for all statements that were begun before its own."""
    async with database.connection() as first, database.connection() as second:
        await first.execute("DROP INDEX document_search_words")
        assert sorted(await asyncio.gather(rebuild_search_index(first), rebuild_search_index(second))) == [False, True]
        assert await search_index_is_whole(first)


async def test_a_role_without_rights_learns_who_may_rebuild_the_search_index(current_url: str, tmp_path: Path) -> None:
    """CONTRIBUTING: operators get one line and exit code 2."""
    await tell(current_url, "DROP INDEX document_search_words")
    async with guest(current_url) as url:
        await tell(current_url, "GRANT SELECT ON schema_migrations TO PUBLIC")
        answer = await asyncio.to_thread(headwater, "migrate", "up", cwd=tmp_path, database_url=url)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.endswith("Connect as the owner of the table document_search.")


async def test_receivers_that_refuse_deliveries_are_listed(current_url: str, doctor: Doctor) -> None:
    """Spec 4.4."""
    assert doctor.finds(exit_code=0, database_url=current_url)["webhooks"]["state"] == "not configured"
    await tell(
        current_url,
        "INSERT INTO webhooks (name, url, secret, events, position, created_at) "
        "SELECT name, 'http://a.test/', sha256(''), '{job.failed}', 0, now() FROM unnest('{a,b}'::text[]) AS g (name)",
    )
    assert doctor.finds(exit_code=0, database_url=current_url)["webhooks"]["state"] == "ok"
    await tell(current_url, "UPDATE webhooks SET failures = 3, failing_reason = 'gone', error = 'No.' WHERE name = 'b'")
    found = doctor.finds(exit_code=0, database_url=current_url)["webhooks"]
    assert (found["state"], found["found"]) == ("warning", "1 of 2 do not accept all deliveries")
    assert found["lines"] == ["b: 0 parked, failing: No."]


async def test_hand_offs_that_wait_longer_than_a_lease_are_a_warning(current_url: str, doctor: Doctor) -> None:
    """Issue 9: no hand-off waits unseen."""
    assert doctor.finds(exit_code=0, database_url=current_url)["hand-offs"]["state"] == "ok"
    await tell(
        current_url,
        "INSERT INTO sources (name, kind, created_at) VALUES ('s', 'manual', now())",
        "INSERT INTO items "
        "(id, source_id, url, title, published_at, published_is_sighting, first_seen_at, last_seen_at) "
        "SELECT repeat('a', 64), id, 'http://a.test/', 'A', now(), false, now(), now() FROM sources",
        "INSERT INTO ingestion_handoffs (reference_id, payload_hash, source_id, reason_code, updated_at) "
        "SELECT id, repeat('b', 64), source_id, 'queued_from_scrape', now() - interval '1 hour' FROM items",
    )
    found = doctor.finds(exit_code=0, database_url=current_url)["hand-offs"]
    assert found["state"] == "warning"
    assert found["found"].startswith("1 wait to be handed off, the oldest since")


async def test_sources_that_lack_their_key_are_listed(current_url: str, doctor: Doctor) -> None:
    """Spec 1.4; bills that are not looked up, and sources that are not read, need none."""
    assert doctor.finds(exit_code=0, database_url=current_url)["api key"]["state"] == "not configured"
    await tell(
        current_url,
        "INSERT INTO sources (name, kind, settings, created_at, fetch_profile, enabled) VALUES "
        """('bills', 'bills', '{}', now(), '{"budget": null}', true), """
        """('crs', 'crs_reports', '{}', now(), '{"budget": "api.data.gov"}', true), """
        """('gao', 'gao_reports', '{}', now(), '{}', true), """
        """('off', 'public_laws', '{}', now(), '{"budget": "api.data.gov"}', false)""",
    )
    found = doctor.finds(exit_code=0, database_url=current_url)["api key"]
    assert (found["state"], found["lines"]) == ("warning", ["crs"])
    assert "HEADWATER_API_DATA_GOV_KEY" in found["fix"]
    assert doctor.finds(exit_code=0, database_url=current_url, api_data_gov_key="k" * 40)["api key"]["state"] == "ok"


async def test_rolled_back_hand_offs_affect_no_other_check(current_url: str, doctor: Doctor) -> None:
    """Spec 7.5."""
    await tell(
        current_url,
        "DROP TABLE ingestion_handoffs",
        "DELETE FROM schema_migrations WHERE name = 'handoffs'",
    )
    found = doctor.finds(exit_code=0, database_url=current_url)
    assert "003_handoffs" in found["schema"]["found"]
    checked = states(found, "leases", "hosts", "index", "webhooks", "hand-offs")
    assert list(checked.values()) == ["ok", "ok", "ok", "not configured", "not configured"]
