"""What people see of changes, webhooks and deliveries."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from headwater.cli.show import console, plain, visible
from headwater.core.change import Change
from headwater.core.reasons import Reason
from headwater.core.webhook import Answered

_COLOURS = {"new": "green", "changed": "yellow", "corrected": "yellow", "failed": "red"}


def changes(found: Sequence[Change]) -> None:
    """Show changes, each with its address."""
    for change in found:
        about = (
            change.document.title or "(no title)" if change.document else f"job {change.job.id}" if change.job else ""
        )
        colour = _COLOURS[change.what]
        console.print(f"{change.at:%Y-%m-%d %H:%M}  [{colour}]{change.what:<9}[/]  {plain(about)}")
        if change.job:
            console.print(f"{'':<29}{change.job.reason.sentence}")
        console.print(f"{'':<29}[dim]{plain(change.url)}[/]")


def following(cursor: str) -> None:
    """Say how to read on."""
    console.print(f"[dim]What comes after: headwater new --since {cursor}[/]")


def webhooks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show webhooks, each with how it is doing."""
    if not rows:
        console.print("There are no webhooks; `headwater webhook add NAME URL` adds one.")
    for row in rows:
        webhook(row)


def webhook(row: Mapping[str, Any]) -> None:
    """Show one."""
    console.print(f"[bold]{plain(row['name'])}[/]  {plain(row['url'])}")
    state = "enabled" if row["enabled"] else "[yellow]disabled[/]: what changes is held back"
    console.print(f"  {', '.join(row['events'])}; {state}")
    since = f", the oldest since {row['waiting_since']:%Y-%m-%d %H:%M:%S} UTC" if row["waiting_since"] else ""
    last = f"{row['delivered_at']:%Y-%m-%d %H:%M:%S} UTC" if row["delivered_at"] else "never"
    console.print(f"  {row['waiting']:,} waiting{since}; {row['parked']:,} parked; last delivered {last}")
    if row["failures"] and row["failing_reason"]:
        told = row["error"] or Reason.of(row["failing_reason"]).sentence
        until = f" Tried again at {row['not_before']:%H:%M:%S} UTC." if row["not_before"] else ""
        times = "once" if row["failures"] == 1 else f"{row['failures']} times in a row"
        _wrapped(f"Failed {times}: {told}{until}")


def secret(text: str) -> None:
    """Show a secret, this once."""
    console.print("\nIts deliveries are signed with this secret. Keep it: it is not shown again.")
    console.print(f"  {text}")


def tested(name: str, answered: Answered) -> None:
    """Show what a webhook answered."""
    if answered.reason is Reason.DELIVERED:
        console.print(f"{plain(name)} answered {answered.http_status} in {answered.elapsed_ms} ms.")
    else:
        told = answered.detail or answered.reason.sentence
        console.print(f"{plain(name)} did not take it ({answered.reason}): {plain(told)}")


def deliveries(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show deliveries, each with its attempts."""
    if not rows:
        console.print("There are no such deliveries.")
    for row in rows:
        reason = f" ({row['reason']})" if row["reason"] and row["reason"] != row["status"] else ""
        due = f", due {row['due_at']:%Y-%m-%d %H:%M:%S} UTC" if row["status"] == "pending" else ""
        console.print(f"[bold]{row['id']}[/]  {row['event']}  {row['status']}{reason}{due}")
        console.print(f"  [dim]{plain(row['url'])}[/]")
        for attempt in row["log"]:
            status = attempt["http_status"] or "no answer"
            took = f", {attempt['elapsed_ms']} ms" if attempt["elapsed_ms"] is not None else ""
            _wrapped(
                f"{attempt['ended_at']:%Y-%m-%d %H:%M:%S}  attempt {attempt['attempt']}: {status}, "
                f"{attempt['reason']}{took}"
            )


def _wrapped(text: str) -> None:
    console.print(escape(textwrap.fill(visible(text), 100, initial_indent="  ", subsequent_indent="    ")))
