"""The frame of every bench: it starts a server, measures, prints the figures and removes its files."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from bench.adapter import open_server
from bench.report import Figure, as_json, conditions, show
from bench.server import connect
from bench.steps import Steps, showing_steps

Measure = Callable[[str, Path, Steps, argparse.Namespace], Awaitable[list[Figure]]]


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every bench."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, help="how often each is measured, by turns; the best one counts")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="measure only Headwater")
    parser.add_argument("--quick", action="store_true", help="measure less, in less than a minute")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run_bench(title: str, measure: Measure, options: argparse.Namespace, *, needs_server: bool = True) -> None:
    """Run a bench to its end, or until a signal. Without a server, `measure` gets an empty DSN."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        asyncio.run(_run(title, measure, options, needs_server=needs_server))
    except asyncio.CancelledError:
        sys.exit("ended by a signal")


async def _run(title: str, measure: Measure, options: argparse.Namespace, *, needs_server: bool) -> None:
    started, load = time.monotonic(), os.getloadavg()[0]
    _stop_cleanly_when_terminated()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            dsn, postgres = "", "none"
            if needs_server:
                dsn = stack.enter_context(open_server(folder)).dsn
                async with connect(dsn) as connection:
                    postgres = await connection.fetchval("SHOW server_version")
            figures = await measure(dsn, folder, stack.enter_context(showing_steps()), options)
    under = conditions(load, postgres, time.monotonic() - started)
    if options.json:
        print(as_json(figures, under))
    else:
        show(title, figures, under)


def _stop_cleanly_when_terminated() -> None:
    """Handle SIGTERM like Ctrl-C: stop the server and remove its folder."""
    task = asyncio.current_task()
    assert task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
