"""Settings: one table, three origins, clear refusals (issue 2)."""

from dataclasses import fields
from pathlib import Path

import pytest

from headwater.core.errors import OperatorError
from headwater.core.settings import Settings, load, markdown, masked, split_connect_to

ROOT = Path(__file__).parents[2]


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
    ("variable", "value", "said"),
    [
        ("HEADWATER_FETCH_WORKER", "3", "Unknown setting HEADWATER_FETCH_WORKER.*fetch_workers"),
        ("HEADWATER_FETCH_WORKERS", "many", "HEADWATER_FETCH_WORKERS in the environment must be a whole number"),
        ("HEADWATER_FETCH_WORKERS", "0", "must be from 1 to 1000"),
        ("HEADWATER_TIMEZONE", "Mars/Olympus", "not a time zone"),
        ("HEADWATER_DATABASE_URL", "mysql://x", "must start with postgresql://"),
        ("HEADWATER_ALLOW_NETWORKS", "10.0.0.1/8", "not a network"),
        ("HEADWATER_CONNECT_TO", "*.x=host:80", "must look like"),
        ("HEADWATER_LOG_LEVEL", "loud", "must be one of"),
        ("HEADWATER_DATA_DIR", "", "must name a folder"),
        ("HEADWATER_PAGE_TIMEOUT_SECONDS", "nan", "must be from"),
        ("HEADWATER_PAGE_TIMEOUT_SECONDS", "600", "lease_seconds .* must be at least two more"),
        ("HEADWATER_RATE_LIMIT_BILLS_PER_HOUR", "-5", "RATE_LIMIT_BILLS_PER_HOUR .* bills that must be from 1"),
        ("HEADWATER_RATE_LIMIT_BILLS_PER_HOUR", "few", "RATE_LIMIT_BILLS_PER_HOUR .* bills that must be a whole"),
        ("HEADWATER_RATE_LIMIT_BILLS", "5", "Unknown setting HEADWATER_RATE_LIMIT_BILLS"),
        ("HEADWATER_RATE_LIMITS", "bills=5", "HEADWATER_RATE_LIMITS .* set HEADWATER_RATE_LIMIT_<SOURCE>_PER_HOUR"),
        ("HEADWATER_API_DATA_GOV_KEY", "two words", "must be one word"),
    ],
)
def test_a_bad_setting_is_refused_by_name_with_what_to_do(variable: str, value: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=said):
        load({variable: value}, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("fetch_workers = ", "not TOML"), ("nonsense = 1", "Unknown setting nonsense"), ("fetch_workers = true", "whole")],
)
def test_a_bad_file_is_refused_by_its_path(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(text)
    with pytest.raises(OperatorError, match=said) as refused:
        load({}, tmp_path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="does not exist"):
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
        "api_token",
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
