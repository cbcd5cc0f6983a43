"""Look at everything a Headwater needs, change nothing, and say how to mend what is wrong (spec 8.2)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from headwater.app import doctor_database, doctor_machine, doctor_redis
from headwater.app.doctor_finding import Finding, LooseThreads, State, failed, isolated, not_checked, ok, warning
from headwater.core.settings import WHERE_LISTED, Configuration, Problem, Settings, survey

__all__ = ["Finding", "State", "examine"]

_LOOK_SECONDS = 6.0
_HOST_SECONDS = 3.0  # for the database to name a host, before another one is looked up
_ANY_HOST = "example.org"
_DOUBTFUL = not_checked("a setting that it needs cannot be used", "the settings")
_FOLDER_FIRST = not_checked("the data folder cannot be used", "the data folder")

# Each check of the machine, with the settings it needs.
_MACHINE: dict[str, tuple[Callable[[Settings], Awaitable[Finding]], tuple[str, ...]]] = {
    "data folder": (doctor_machine.data_folder, ("data_dir",)),
    "disk": (doctor_machine.disk, ("data_dir",)),
    "time zone": (doctor_machine.time_zone, ("timezone",)),
    "api address": (doctor_machine.api_address, ("listen_host", "listen_port")),
    "write token": (doctor_machine.write_token, ("data_dir", "api_token")),
    "sandbox": (doctor_machine.sandbox, ("sandbox_memory_mb", "sandbox_seconds")),
    "kinds": (doctor_machine.kinds, ()),
    "chromium": (doctor_machine.chromium, ("chromium_path",)),
    "redis": (doctor_redis.redis, ("redis_url",)),
}
_ORDER = ("settings", "data folder", "disk", *doctor_database.NAMES, "time zone", "dns", "api address", "write token")


async def examine(environment: Mapping[str, str], folder: Path) -> dict[str, Finding]:
    """Make every check, all at once; together they take well under ten seconds, whatever hangs."""
    asyncio.get_running_loop().set_default_executor(LooseThreads())
    configuration, problems = survey(environment, folder)
    settings = configuration.settings
    doubtful = {name for problem in problems for name in problem.affected}
    findings = {"settings": _settings(configuration, problems)}
    visit = doctor_database.Visit(settings)

    async def look_at(name: str) -> None:
        check, needed = _MACHINE[name]
        sure = doubtful.isdisjoint(needed)
        findings[name] = await isolated(check(settings), _LOOK_SECONDS) if sure else _DOUBTFUL

    async def visit_database() -> None:
        place = ("database_url",) if settings.database_url else ("database_url", "data_dir")
        if doubtful.isdisjoint(place):
            await visit.make()
        else:
            visit.findings.update(dict.fromkeys(doctor_database.NAMES, _DOUBTFUL))

    async def look_up() -> None:
        await asyncio.wait([visiting], timeout=_HOST_SECONDS)
        findings["dns"] = await isolated(doctor_machine.dns(visit.feed_host or _ANY_HOST), _LOOK_SECONDS)

    async with asyncio.TaskGroup() as group:
        visiting = group.create_task(visit_database())
        group.create_task(look_up())
        for name in _MACHINE:
            group.create_task(look_at(name))
    findings |= visit.findings
    if visit.browsing and (browser := findings["chromium"]).state is State.NOT_CONFIGURED:
        wait = f"not found, and the pages of {', '.join(visit.browsing[:3])}{' and others' * (len(visit.browsing) > 3)}"
        findings["chromium"] = warning(f"{wait} wait for one", browser.mend or "")
    if findings["data folder"].state is State.FAILED:
        findings |= dict.fromkeys(_below_the_folder(settings, findings), _FOLDER_FIRST)
    return {name: findings[name] for name in dict.fromkeys((*_ORDER, *_MACHINE))}


def _below_the_folder(settings: Settings, findings: Mapping[str, Finding]) -> Iterator[str]:
    """Name the checks that say nothing as long as the data folder cannot be used."""
    if not settings.database_url and findings["database"].state is not State.OK:
        yield from doctor_database.NAMES
    if findings["write token"].state is State.NOT_CONFIGURED:
        yield "write token"


def _settings(configuration: Configuration, problems: list[Problem]) -> Finding:
    said = tuple(str(problem.error).removesuffix(f" {WHERE_LISTED}") for problem in problems)
    mend = f"Correct or remove what is named; {WHERE_LISTED}"
    if len(said) == 1:
        return failed(said[0], mend)
    if said:
        return Finding(State.FAILED, f"{len(said)} cannot be used", mend, said)
    origins = [origin for origin in configuration.origins.values() if origin != "default"]
    places = " and ".join(dict.fromkeys(origins))
    return ok(f"{len(origins)} set in {places}" if origins else "none set: all have their defaults")
