"""Runs the real program so that it kills itself at a named point, or has a named bug or fault.

Its words are POINT[:N] PLANT, each `-` for none, and then the words of the command. Points and plants replace functions
before the program starts, so its own code does not contain them.
"""

import asyncio
import functools
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Files in the program's folder for a late commit: it is held back, it may be made, it was made.
HELD_BACK, MAY_COMMIT, COMMITTED = Path("held-back"), Path("may-commit"), Path("committed")

DEADLY = "http://h0.test/0-0"  # for the plant "deadly page"

# The kill comes right after a call of the named function, given as module:attribute.
POINTS = {
    "a host is leased for a poll": "headwater.db.hosts:lease_hosts",
    "robots.txt is read": "headwater.politeness.robots_gate:RobotsGate._read_robots",
    "URLs of a poll are submitted": "headwater.discovery.save:submit",
    "items of a poll are saved": "headwater.db.items:save_items",
    "days of a poll are rebuilt": "headwater.db.items:rebuild_days",
    "a poll is settled": "headwater.db.sources:finish_polls",
    "a URL is claimed": "headwater.fetching.pool:claim",
    "a page has come": "headwater.http.client:HttpClient.request",
    "a page is read": "headwater.fetching.fetcher:Fetcher._read",
    "the raw file is drafted": "headwater.storage.folder:_Draft.flush",
    "the raw file is renamed": "headwater.storage.folder:os.replace",
    "the raw file is in place": "headwater.storage.folder:Corpus.write_batch",
    "texts are written": "headwater.db.documents:save_texts",
    "a document is saved": "headwater.db.documents:save_documents",
    "queue and log are written": "headwater.fetching.commit:finish",
    "a batch is committed": "headwater.fetching.pool:FetchPool._commit",
}

# The points of webhooks, which most crawls do not use.
DELIVERY_POINTS = {
    "changes are numbered": "headwater.db.changes:number_changes",
    "changes are fanned out": "headwater.db.changes:fan_out",
    "deliveries are claimed": "headwater.changes.outbox:Outbox.claim",
    "a delivery is sent": "headwater.changes.webhooks:WebhookSender.send",
    "a delivery is settled": "headwater.db.changes:settle_delivery",
}

# The points of digests, which most crawls do not have.
DIGEST_POINTS = {
    "documents that match are kept": "headwater.db.saved_searches:report_matches",
    "a digest is queued": "headwater.db.digests:save_digest",
    "a digest is planned": "headwater.db.digests:plan_digest",
    "a digest is handed over": "headwater.http.mail:MailClient.send",
    "a digest is settled": "headwater.db.changes:settle_delivery",
}

# The points of alarms. A crawl checks them soon with the plant "brisk alarms".
ALARM_POINTS = {
    "an alarm begins": "headwater.db.alarms:begin_alarm",
    "an alarm is over": "headwater.db.alarms:end_alarm",
    "alarms are checked": "headwater.notify.alarms:AlarmKeeper.check",
    "an alarm is handed over": "headwater.http.mail:MailClient.send",
}

# The points of a step of stories.
STORY_POINTS = {
    "keys of documents are changed": "headwater.db.stories:change_keys",
    "links of documents are saved": "headwater.db.stories:save_links",
    "stories are merged": "headwater.db.stories:merge_stories",
    "the position of stories is saved": "headwater.db.stories:save_position",
}

# The points of watched pages, which most crawls do not have.
WATCH_POINTS = {
    "the policy of a source is planned": "headwater.frontier.watches:plan_anew",
    "due pages are taken": "headwater.db.watches:take_due_watches",
    "due pages are queued": "headwater.app.maintenance:queue_due_pages",
    "the next fetches are planned": "headwater.fetching.commit:plan_after_fetches",
}

# The points of a backup and of a restore.
BACKUP_POINTS = {
    "the folder is made": "headwater.storage.backup:_clear",
    "raw files are copied": "headwater.storage.backup:_copy_raw_files",
    "a table is written": "headwater.db.dump:dump_table",
    "the manifest is written": "headwater.storage.backup:write_manifest",
}
RESTORE_POINTS = {
    "raw files are copied": "headwater.storage.restore:_copy_raw_files",
    "the schema is made": "headwater.db.migrate:apply_missing",
    "rows are loaded": "headwater.storage.restore:_load",
    "raw files are in place": "headwater.storage.restore:_put_in_place",
}

# The points of an upgrade of the embedded PostgreSQL, in their order, and of the deletion of the old cluster.
UPGRADE_POINTS = {
    "the place of the new cluster is free": "headwater.db.embedded.upgrade:_discard",
    "a server runs": "headwater.db.embedded.server:_start",
    "the new cluster is made": "headwater.db.embedded.cluster:create_cluster",
    "the new tables are made": "headwater.db.dump:make_empty_tables",
    "a table is read": "headwater.db.dump:read_table",
    "a table is filled": "headwater.db.dump:fill_table",
    "the new tables are finished": "headwater.db.dump:finish_tables",
    "rows are copied": "headwater.db.embedded.upgrade:_copy_rows",
    "the clusters are compared": "headwater.db.embedded.upgrade:_prove",
    "both servers are stopped": "headwater.db.embedded.upgrade:_copy_cluster",
    "the new cluster is in place": "headwater.db.embedded.upgrade:_switch",
    "the old cluster has its other name": "headwater.db.embedded.upgrade:_retire_old_homes",
}
DROP_POINTS = {"a copy is being deleted": "headwater.db.embedded.upgrade:Path.rename"}

# The points of a sync, from its reading to the end of its hand-offs.
SYNC_POINTS = {
    "a run is begun": "headwater.discovery.runs:Runner.begin",
    "hand-offs are queued": "headwater.discovery.save:queue_handoffs",
    "a run is read and saved": "headwater.discovery.poller:Poller.poll",
    "hand-offs are taken up": "headwater.db.handoffs:claim_handoffs",
    "pages are locked": "headwater.db.jobs:lock_pages",
    "jobs are made": "headwater.db.jobs:add_jobs",
    "hand-offs are ended": "headwater.db.handoffs:end_handoffs",
    "a batch is handed off": "headwater.handoff.handoffs:HandoffRunner._attempt",
}


def main(words: Sequence[str]) -> None:
    point, plant, *words = words
    for name in plant.split(","):
        if name != "-":
            PLANTS[name]()
    if point != "-":
        name, _, times = point.partition(":")
        starts = {
            "backup": BACKUP_POINTS,
            "restore": RESTORE_POINTS,
            "source": SYNC_POINTS,
            "upgrade": UPGRADE_POINTS | DROP_POINTS,
        }
        points = starts.get(
            words[0], POINTS | DELIVERY_POINTS | DIGEST_POINTS | ALARM_POINTS | STORY_POINTS | WATCH_POINTS
        )
        _arm(points[name], int(times or 1))
    sys.argv = ["headwater", *words]
    from headwater.cli import main as program

    program()


def _arm(where: str, times: int) -> None:
    """Kill this process after the n-th call."""
    calls = 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if calls == times:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **kwargs: Any) -> Any:
                result = await function(*args, **kwargs)
                strike()
                return result

            return waiting

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            strike()
            return result

        return plain

    _replace(where, wrap)


def _replace(where: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    module_name, _, path = where.partition(":")
    holder: Any = importlib.import_module(module_name)
    *parents, name = path.split(".")
    for parent in parents:
        holder = getattr(holder, parent)
    setattr(holder, name, wrap(getattr(holder, name)))


def _without_fence() -> None:
    """Bug: a finish no longer checks that the claim is still its own."""
    sql = importlib.import_module("headwater.db.sql")
    sql._QUERIES["lock_claims"] = (
        "SELECT id AS url_id, true AS is_watched FROM url_frontier WHERE id = ANY ($1) AND $2::uuid[] IS NOT NULL"
    )


def _late_commit() -> None:
    """Fault: the first fetched page is committed only when the test allows it."""
    pool = importlib.import_module("headwater.fetching.pool")
    commit = pool.FetchPool._commit

    async def late(self: Any, batch: Any) -> Any:
        if not any(result.document for result in batch):
            return await commit(self, batch)
        await asyncio.to_thread(HELD_BACK.touch)
        while not await asyncio.to_thread(MAY_COMMIT.exists):
            await asyncio.sleep(0.05)
        committed = await commit(self, batch)
        await asyncio.to_thread(COMMITTED.touch)
        return committed

    pool.FetchPool._commit = late


def _held_backup() -> None:
    """Fault: a backup copies files for a long time after its snapshot."""
    backup = importlib.import_module("headwater.storage.backup")
    copy_raw_files = backup._copy_raw_files

    async def late(*arguments: Any) -> Any:
        await asyncio.to_thread(HELD_BACK.touch)
        while not await asyncio.to_thread(MAY_COMMIT.exists):
            await asyncio.sleep(0.05)
        return await copy_raw_files(*arguments)

    backup._copy_raw_files = late


def _held_handoff() -> None:
    """Fault: the commit of new jobs takes long."""
    jobs = importlib.import_module("headwater.db.jobs")
    add_jobs = jobs.add_jobs

    async def late(*arguments: Any) -> Any:
        made = await add_jobs(*arguments)
        await asyncio.to_thread(HELD_BACK.touch)
        while not await asyncio.to_thread(MAY_COMMIT.exists):
            await asyncio.sleep(0.05)
        return made

    jobs.add_jobs = late


def _nothing_set_aside() -> None:
    """Bug: a file that is replaced during a backup is lost."""
    importlib.import_module("headwater.storage.folder")._set_aside = lambda *_: None


def _hasty_backup() -> None:
    """Bug: a backup does not wait for late rows."""
    copy = importlib.import_module("headwater.storage.corpus_copy").CorpusCopy
    copy.has_all = lambda *_: True


def _half_a_draft() -> None:
    """Fault: the program is killed while it writes the bytes of a draft."""
    corpus = importlib.import_module("headwater.storage.folder")

    def cut(path: Path, body: bytes) -> int:
        path.write_bytes(body[: len(body) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    corpus._write_draft = cut


def _brisk_rescuer() -> None:
    """Neither: expired leases are rescued more often, so that a test waits only for the lease."""
    role = importlib.import_module("headwater.app.maintenance").MaintenanceRole
    made = role.__init__

    def brisk(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options | {"interval_seconds": 0.2})

    role.__init__ = brisk


def _brisk_alarms() -> None:
    """Neither: alarms are checked several times a second."""
    alarms = importlib.import_module("headwater.notify.alarms")
    alarms.CHECK_EVERY /= 300
    made = alarms.AlarmRole.__init__

    def brisk(self: Any, keeper: Any) -> None:
        made(self, keeper, 0.2)

    alarms.AlarmRole.__init__ = brisk


def _deadly_page() -> None:
    """Fault: one page kills the process that fetches it."""
    client = importlib.import_module("headwater.http.client").HttpClient
    request = client.request

    async def deadly(self: Any, method: str, url: str, **options: Any) -> Any:
        response = await request(self, method, url, **options)
        if url == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        return response

    client.request = deadly


def _commit_before_file() -> None:
    """Bug: the row is committed before the file is written."""
    corpus = importlib.import_module("headwater.storage.folder")
    write = corpus.Corpus.write

    def late(self: Any, files: Any) -> Any:
        written = []
        for source, subpath, body, _ in files:
            threading.Timer(3.0, write, (self, source, subpath, body)).start()
            digest = corpus.hashlib.sha256(body).digest()
            written.append(corpus.RawFile(str(corpus.raw_path(source, subpath)), digest, len(body)))
        return written

    corpus.Corpus.write_batch = late


def _no_politeness() -> None:
    """Bug: hosts are released as if they had no delay."""
    lease = importlib.import_module("headwater.politeness.host_lease")
    release = lease.HostLease.release

    def at_once(self: Any, now: Any) -> Any:
        self.last_sent_at = None
        return release(self, now)

    lease.HostLease.release = at_once


def _hasty_clock() -> None:
    """Bug: a step of the database's clock is followed at once."""
    clock = importlib.import_module("headwater.db.clock").DatabaseClock
    clock._follow = lambda self, reading, _: self._set(reading)


def _hasty_doctor() -> None:
    """`doctor` waits a second for parts that never answer, and not three to six."""
    database, machine = (importlib.import_module(f"headwater.app.doctor{part}") for part in ("_database", ""))
    database._STEP_SECONDS = database._START_SECONDS = machine._HEALTH_SECONDS = 1.0


PLANTS: dict[str, Callable[[], None]] = {
    "no fence": _without_fence,
    "late commit": _late_commit,
    "held backup": _held_backup,
    "held hand-off": _held_handoff,
    "nothing set aside": _nothing_set_aside,
    "hasty backup": _hasty_backup,
    "brisk rescuer": _brisk_rescuer,
    "brisk alarms": _brisk_alarms,
    "half a draft": _half_a_draft,
    "deadly page": _deadly_page,
    "commit before file": _commit_before_file,
    "no politeness": _no_politeness,
    "hasty clock": _hasty_clock,
    "hasty doctor": _hasty_doctor,
}
