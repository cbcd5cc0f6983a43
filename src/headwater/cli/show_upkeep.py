"""What people see of the upkeep."""

from typing import TYPE_CHECKING

from rich.filesize import decimal

from headwater.cli.show import console, plain

if TYPE_CHECKING:
    from headwater.service.upkeep_desk import Sweep


def sweeps(done: "list[Sweep]", strangers: list[str], *, dry_run: bool) -> None:
    """Show what was swept, or would be, source by source where there was something."""
    for sweep in done:
        if sweep.error:
            console.print(plain(sweep.error))
        elif sweep.swept.drafts and len(done) > 1:
            console.print(f"{plain(sweep.source)}: {_drafts(sweep.swept.drafts, sweep.swept.size)}")
    for name in strangers:
        console.print(f"The folder {plain(name)} belongs to no source; it was left alone.")
    total = _drafts(sum(sweep.swept.drafts for sweep in done), sum(sweep.swept.size for sweep in done))
    console.print(f"{total} {'would be removed' if dry_run else 'removed'}.")


def _drafts(count: int, size: int) -> str:
    return f"{count:,} draft{'' if count == 1 else 's'} ({decimal(size)})"
