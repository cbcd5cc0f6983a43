"""Settings: one table, three origins, clear refusals (issue 2)."""

import contextlib
import os
from dataclasses import fields
from pathlib import Path

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings, load, markdown, masked, split_connect_to
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")


def test_the_environment_overrides_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('fetch_workers = 3\nlog_level = "debug"\n')
    loaded = load({"HEADWATER_FETCH_WORKERS": "7", "PATH": "/bin"}, tmp_path)
    assert loaded.settings.fetch_workers == 7
    assert loaded.settings.log_level == "debug"
    assert loaded.settings.listen_port == Settings().listen_port
    assert loaded.origins["fetch_workers"] == "the environment"
    assert loaded.origins["log_level"] == str(tmp_path / "headwater.toml")
    assert loaded.origins["listen_port"] == "default"


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("HEADWATER_FETCH_WORKER", "3", "fetch_workers"),
        ("HEADWATER_FETCH_WORKERS", "many", "the environment"),
        ("HEADWATER_FETCH_WORKERS", "0", "from 1 to 1000"),
        ("HEADWATER_TIMEZONE", "Mars/Olympus", "Mars/Olympus"),
        ("HEADWATER_DATABASE_URL", "mysql://x", "postgresql://"),
        ("HEADWATER_ALLOW_NETWORKS", "10.0.0.1/8", "10.0.0.1/8"),
        ("HEADWATER_CONNECT_TO", "*.x=host:80", "*.x=host:80"),
        ("HEADWATER_LOG_LEVEL", "loud", "warning"),
        ("HEADWATER_DATA_DIR", "", ""),
        ("HEADWATER_PAGE_TIMEOUT_SECONDS", "nan", ""),
        ("HEADWATER_PAGE_TIMEOUT_SECONDS", "600", "lease_seconds"),
        ("HEADWATER_RATE_LIMIT_BILLS_PER_HOUR", "-5", "from 1 to 1000000"),
        ("HEADWATER_RATE_LIMIT_BILLS_PER_HOUR", "few", "from 1 to 1000000"),
        ("HEADWATER_RATE_LIMIT_BILLS", "5", ""),
        ("HEADWATER_RATE_LIMITS", "bills=5", "HEADWATER_RATE_LIMIT_<SOURCE>_PER_HOUR"),
        ("HEADWATER_API_DATA_GOV_KEY", "two words", ""),
    ],
)
def test_a_bad_setting_is_refused_by_name_with_what_to_do(
    variable: str, value: str, named: str, tmp_path: Path
) -> None:
    with refused(Reason.BAD_SETTING, named) as caught:
        load({variable: value}, tmp_path)
    assert variable.removeprefix("HEADWATER_").lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    ("mode", "owner", "group", "is_refused"),
    [
        (0o644, None, None, False),
        (0o600, None, None, False),
        (0o646, None, None, True),
        pytest.param(0o664, None, 12345, True, marks=needs_root),
        pytest.param(0o664, 54321, 54321, True, marks=needs_root),
        pytest.param(0o600, 54321, None, True, marks=needs_root),
    ],
)
def test_a_settings_file_that_others_own_or_can_write_is_refused(
    mode: int, owner: int | None, group: int | None, is_refused: bool, tmp_path: Path
) -> None:
    """Issue 21: it names folders, addresses and the program of the browser."""
    path = tmp_path / "headwater.toml"
    path.write_text("fetch_workers = 3\n")
    os.chown(path, -1 if owner is None else owner, -1 if group is None else group)
    path.chmod(mode)
    with refused(Reason.BAD_SETTING, str(path)) if is_refused else contextlib.nullcontext():
        assert load({}, tmp_path).settings.fetch_workers == 3


@needs_root
def test_a_file_that_only_the_private_group_of_its_owner_can_write_is_used(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text("fetch_workers = 3\n")
    path.chmod(0o664)  # root and its group of the same number
    assert load({}, tmp_path).settings.fetch_workers == 3


@pytest.mark.parametrize(
    ("text", "named"),
    [("fetch_workers = ", "TOML"), ("nonsense = 1", "nonsense"), ("fetch_workers = true", "fetch_workers")],
)
def test_a_bad_file_is_refused_by_its_path(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(text)
    with refused(Reason.BAD_SETTING, path, named):
        load({}, tmp_path)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with refused(Reason.BAD_SETTING, tmp_path / "other.toml"):
        load({"HEADWATER_CONFIG": str(tmp_path / "other.toml")}, tmp_path)


def test_lists_are_read_from_both_origins_alike(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('allow_networks = ["10.0.0.0/8", "::1/128"]\n')
    by_file = load({}, tmp_path).settings.allow_networks
    by_environment = load({"HEADWATER_ALLOW_NETWORKS": "10.0.0.0/8, ::1/128"}, tmp_path).settings.allow_networks
    assert by_file == by_environment == ("10.0.0.0/8", "::1/128")


def test_rates_of_both_origins_merge_and_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """Spec 1.4."""
    (tmp_path / "headwater.toml").write_text('[rate_limits]\nbills = 500\n"regulations.gov" = 50\n')
    loaded = load({"HEADWATER_RATE_LIMIT_BILLS_PER_HOUR": "600", "HEADWATER_RATE_LIMIT_CRS_PER_HOUR": "7"}, tmp_path)
    assert loaded.settings.rate_limits == {"bills": 600, "regulations_gov": 50, "crs": 7}
    assert loaded.origins["rate_limits"] == "the environment"
    (setting,) = (setting for setting in fields(Settings) if setting.name == "rate_limits")
    assert masked(setting, loaded.settings.rate_limits) == "bills=600,regulations_gov=50,crs=7"


def test_connect_to_takes_ipv6_too() -> None:
    assert split_connect_to("*.x=[::1]:80") == ("*.x", ("::1", 80))


def test_secrets_are_never_shown() -> None:
    for setting in fields(Settings):
        shown = masked(setting, "hunter2")
        assert shown == ("********" if setting.metadata["secret"] else "hunter2")
    assert {setting.name for setting in fields(Settings) if setting.metadata["secret"]} == {
        "database_url",
        "redis_url",
        "search_url",
        "api_token",
        "smtp_url",
        "api_data_gov_key",
    }


def test_every_default_passes_its_own_parser() -> None:
    defaults = Settings()
    for setting in fields(Settings):
        value = getattr(defaults, setting.name)
        raw = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        assert setting.metadata["parse"](raw) == value


def test_the_settings_page_is_generated_from_the_table() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == markdown(), "run `make docs`"
