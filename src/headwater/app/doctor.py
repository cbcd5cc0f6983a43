"""`headwater doctor`: check everything that Headwater needs, change nothing, and say how to fix it (spec 8.2)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from headwater.app import doctor_machine
from headwater.app.doctor_database import DATABASE_CHECKS, DatabaseDoctor
from headwater.app.doctor_finding import DaemonThreads, Finding, State, failed, not_checked, ok, run_check, warning
from headwater.core.settings import WHERE_LISTED, Configuration, Problem, Settings, survey

__all__ = ["Finding", "State", "run_checks"]

_CHECK_SECONDS = 6.0
_HOST_SECONDS = 3.0  # to wait for the database to name a host before the DNS check uses another one
_DEFAULT_HOST = "example.org"
_BAD_SETTING = not_checked("a setting that it needs cannot be used", "the settings")
_BAD_FOLDER = not_checked("the data folder cannot be used", "the data folder")

# Each check of the machine, and the settings it needs.
_MACHINE_CHECKS: dict[str, tuple[Callable[[Settings], Awaitable[Finding]], tuple[str, ...]]] = {
    "data folder": (doctor_machine.check_data_folder, ("data_dir",)),
    "disk": (doctor_machine.check_disk, ("data_dir",)),
    "time zone": (doctor_machine.check_time_zone, ("timezone",)),
    "api address": (doctor_machine.check_api_address, ("listen_host", "listen_port")),
    "write token": (doctor_machine.check_write_token, ("data_dir", "api_token")),
    "sandbox": (doctor_machine.check_sandbox, ("sandbox_memory_mb", "sandbox_timeout_seconds")),
    "kinds": (doctor_machine.check_kinds, ()),
    "chromium": (doctor_machine.check_chromium, ("chromium_path",)),
    "redis": (doctor_machine.check_redis, ("redis_url",)),
}
_ORDER = ("settings", "data folder", "disk", *DATABASE_CHECKS, "time zone", "dns", "api address", "write token")


async def run_checks(environment: Mapping[str, str], folder: Path) -> dict[str, Finding]:
    """Run all checks at once. They take less than ten seconds, also if some of them hang."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    configuration, problems = survey(environment, folder)
    settings = configuration.settings
    bad_settings = {name for problem in problems for name in problem.affected}
    findings = {"settings": _check_settings(configuration, problems)}
    database = DatabaseDoctor(settings)

    async def check_machine(name: str) -> None:
        check, needed = _MACHINE_CHECKS[name]
        is_sure = bad_settings.isdisjoint(needed)
        findings[name] = await run_check(check(settings), _CHECK_SECONDS) if is_sure else _BAD_SETTING

    async def check_database() -> None:
        if bad_settings.isdisjoint({"database_url"} if settings.database_url else {"database_url", "data_dir"}):
            await database.check()
        else:
            database.findings.update(dict.fromkeys(DATABASE_CHECKS, _BAD_SETTING))

    async def check_dns() -> None:
        await asyncio.wait([checking_database], timeout=_HOST_SECONDS)
        host = database.feed_host or _DEFAULT_HOST
        findings["dns"] = await run_check(doctor_machine.check_dns(host), _CHECK_SECONDS)

    async with asyncio.TaskGroup() as group:
        checking_database = group.create_task(check_database())
        group.create_task(check_dns())
        for name in _MACHINE_CHECKS:
            group.create_task(check_machine(name))
    findings |= database.findings
    if (sources := database.browser_sources) and findings["chromium"].state is State.NOT_CONFIGURED:
        names = ", ".join(sources[:3]) + " and others" * (len(sources) > 3)
        findings["chromium"] = warning(
            f"not found, and the pages of {names} wait for one", findings["chromium"].fix or ""
        )
    if findings["data folder"].state is State.FAILED:
        if not settings.database_url and findings["database"].state is not State.OK:
            findings |= dict.fromkeys(DATABASE_CHECKS, _BAD_FOLDER)
        if findings["write token"].state is State.NOT_CONFIGURED:
            findings["write token"] = _BAD_FOLDER
    return {name: findings[name] for name in dict.fromkeys((*_ORDER, *_MACHINE_CHECKS))}


def _check_settings(configuration: Configuration, problems: list[Problem]) -> Finding:
    messages = tuple(str(problem.error).removesuffix(f" {WHERE_LISTED}") for problem in problems)
    fix = f"Correct or remove what is named; {WHERE_LISTED}"
    if len(messages) == 1:
        return failed(messages[0], fix)
    if messages:
        return failed(f"{len(messages)} cannot be used", fix, messages)
    origins = [origin for origin in configuration.origins.values() if origin != "default"]
    places = " and ".join(dict.fromkeys(origins))
    return ok(f"{len(origins)} set in {places}" if origins else "none set: all have their defaults")
