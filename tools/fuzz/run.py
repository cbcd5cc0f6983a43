"""The loop of the fuzzer. It runs in a child process, because C code may crash, hang or take all memory.

The child writes each input to shared memory before it reads it, so that the parent can save the input that ended it.
"""

import faulthandler
import mmap
import os
import pickle
import random
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tools.fuzz.mutate import Mutator
from tools.fuzz.targets import TARGETS, Target

MAX_SECONDS, MAX_MB = 2.0, 300.0
_END_SECONDS = 20.0  # a child that needs more for one input is ended
_TRACED_EVERY = 40
_MEMORY_BYTES = 4 << 30
_SHARED_BYTES = 4 << 20
_HEAD = struct.Struct("=QQ")  # the number of inputs so far, and the length of the current one
_OURS = str(Path(sys.modules["headwater"].__path__[0]))


@dataclass
class Finding:
    """An input that a reader cannot handle, and how it fails."""

    target: str
    what: str
    body: bytes


@dataclass
class Outcome:
    """The figures of a run of one target."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0  # in seconds of CPU time
    largest_mb: float = 0.0  # memory that one input needed more than before
    kept: int = 0  # inputs that ran a new line or ended in a new way
    ends: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Lines:
    """The lines of our code that any input has run."""

    seen: set[tuple[CodeType, int]] = field(default_factory=set)

    def trace(self, call: Callable[[], str]) -> tuple[str, bool]:
        """Call, and return also whether a new line has run. This takes several times as long."""
        before = len(self.seen)
        sys.settrace(self._enter)
        try:
            end = call()
        finally:
            sys.settrace(None)
        return end, len(self.seen) > before

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        code, seen = frame.f_code, self.seen

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            seen.add((code, frame.f_lineno))
            return line

        return line


def fuzz(name: str, *, seconds: float, inputs: int, seed: int, corpora: Path) -> Outcome:
    """Fuzz one target for so many seconds or inputs. A child that dies is replaced."""
    outcome = Outcome(name)
    began = time.monotonic()
    for child in range(100):
        left = seconds - (time.monotonic() - began)
        if left <= 0 or outcome.inputs >= inputs:
            break
        _run_child(outcome, left, inputs - outcome.inputs, seed + child, corpora)
    outcome.seconds = time.monotonic() - began
    return outcome


def _run_child(outcome: Outcome, seconds: float, inputs: int, seed: int, corpora: Path) -> None:
    shared = mmap.mmap(-1, _HEAD.size + _SHARED_BYTES)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            faulthandler.disable()
            found = _Loop(outcome.target, shared, random.Random(seed), corpora).run(seconds, inputs)
            with open(writing, "wb") as pipe:
                pickle.dump(found, pipe)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as pipe:
        result = pipe.read()
    _, status = os.waitpid(child, 0)
    if result:
        part: Outcome = pickle.loads(result)
    else:
        code = os.waitstatus_to_exitcode(status)
        count, length = _HEAD.unpack(shared[: _HEAD.size])
        what = f"took over {_END_SECONDS:g} s" if code == -signal.SIGPROF else f"ended the process ({code})"
        part = Outcome(outcome.target, inputs=count)
        part.findings.append(Finding(outcome.target, what, shared[_HEAD.size : _HEAD.size + length]))
    outcome.inputs += part.inputs
    outcome.kept += part.kept
    outcome.slowest = max(outcome.slowest, part.slowest)
    outcome.largest_mb = max(outcome.largest_mb, part.largest_mb)
    outcome.ends.update(part.ends)
    outcome.findings += part.findings


class _Loop:
    def __init__(self, name: str, shared: mmap.mmap, chance: random.Random, corpora: Path) -> None:
        self.target: Target = TARGETS[name]
        self.outcome = Outcome(name)
        self._shared = shared
        self._chance = chance
        self._mutator = Mutator(chance, self.target.words, self.target.max_bytes)
        self._pool = self.target.seeds(corpora)
        self._lines = Lines()
        self._failures: set[str] = set()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def run(self, seconds: float, inputs: int) -> Outcome:
        give_up = time.monotonic() + seconds
        for body in list(self._pool):
            self._read(body, trace=True)
            if time.monotonic() >= give_up:
                return self.outcome
        while self.outcome.inputs < inputs and time.monotonic() < give_up:
            body = self._mutator.mutate(self._choose(), self._choose())
            self._read(body, trace=self.outcome.inputs % _TRACED_EVERY == 0)
        return self.outcome

    def _choose(self) -> bytes:
        """Choose a known input; the newest ones more often."""
        if self._chance.random() < 0.2:
            return self._pool[-1 - int(len(self._pool) * self._chance.random() ** 3)]
        return self._chance.choice(self._pool)

    def _read(self, body: bytes, *, trace: bool) -> None:
        outcome = self.outcome
        outcome.inputs += 1
        self._shared[: _HEAD.size] = _HEAD.pack(outcome.inputs, len(body))
        self._shared[_HEAD.size : _HEAD.size + len(body)] = body
        memory = _peak_mb()
        signal.setitimer(signal.ITIMER_PROF, _END_SECONDS)
        began = time.process_time()
        is_new_line = False
        try:
            if trace:
                end, is_new_line = self._lines.trace(lambda: self.target.call(body))
            else:
                end = self.target.call(body)
        except Exception as error:  # noqa: BLE001 (each error is a finding)
            end = f"{type(error).__name__}: {_place_of(error)}"
            self._report(end, body)
        took = time.process_time() - began
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = _peak_mb() - memory
        if is_new_line or end not in outcome.ends:
            outcome.kept += 1
            self._pool.append(body)
        outcome.ends[end] += 1
        if took > MAX_SECONDS and trace:  # tracing takes most of the time, so it is measured again
            self._read(body, trace=False)
            return
        outcome.slowest = max(outcome.slowest, took)
        outcome.largest_mb = max(outcome.largest_mb, grown)
        if took > MAX_SECONDS:
            self._report(f"took {took:.1f} s", body)
        if grown > MAX_MB:
            self._report(f"needed {grown:.0f} MB", body)
        if grown > 1:
            _forget_peak()

    def _report(self, what: str, body: bytes) -> None:
        if (kind := what.partition(" ")[0] if what.startswith(("took", "needed")) else what) not in self._failures:
            self._failures.add(kind)
            self.outcome.findings.append(Finding(self.outcome.target, what, body))


def _place_of(error: BaseException) -> str:
    """Return the innermost line of our code that an error passed."""
    place, step = "", error.__traceback__
    while step:
        if step.tb_frame.f_code.co_filename.startswith(_OURS):
            place = f"{Path(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno}"
        step = step.tb_next
    return place


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _forget_peak() -> None:
    """Make the kernel count the peak from the memory of now on."""
    Path("/proc/self/clear_refs").write_text("5")


def shorten(finding: Finding, seconds: float = 20.0) -> bytes:
    """Return a shorter input that fails in the same way. Only errors that Python raises can be shortened."""
    if finding.what.startswith(("took", "needed", "ended")):
        return finding.body
    body, give_up = finding.body, time.monotonic() + seconds
    step = len(body) // 2
    while step and time.monotonic() < give_up:
        at = 0
        while at < len(body) and time.monotonic() < give_up:
            shorter = body[:at] + body[at + step :]
            if _failure(finding.target, shorter) == finding.what:
                body = shorter
            else:
                at += step
        step //= 2
    return body


def _failure(name: str, body: bytes) -> str:
    try:
        TARGETS[name].call(body)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {_place_of(error)}"
    return ""
