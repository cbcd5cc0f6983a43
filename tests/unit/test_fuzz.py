"""Spec 4.3: no input ends a reader with an error that the program does not expect, and none takes 2 s or 300 MB.

`make fuzz` runs for longer. It saves the inputs that fail in tests/fuzz_findings, and this module reads them again.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.fuzz import run
from tools.fuzz.run import Finding, fuzz, shorten
from tools.fuzz.targets import ROOT, TARGETS, Target

FOUND = sorted(path for path in (ROOT / "tests" / "fuzz_findings").glob("*/*") if path.is_file())
SECONDS = 1.0
WORDS = st.sampled_from([word for target in TARGETS.values() for word in target.words])


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_has_no_finding(name: str, tmp_path: Path) -> None:
    outcome = fuzz(name, seconds=SECONDS, inputs=20_000, seed=random.randrange(10**6), corpora=tmp_path)
    assert outcome.inputs > 0
    assert [(finding.what, finding.body) for finding in outcome.findings] == []


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_earlier_finding_is_read(path: Path) -> None:
    began = time.process_time()
    TARGETS[path.parent.name].call(path.read_bytes())
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_takes_any_sequence_of_words_and_bytes(name: str) -> None:
    @settings(max_examples=50)
    @given(st.lists(WORDS | st.binary(max_size=20) | st.text(max_size=20).map(str.encode), max_size=30))
    def check(parts: list[bytes]) -> None:
        TARGETS[name].call(b"".join(parts))

    check()


def _misbehave(body: bytes) -> object:
    if b"die" in body:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"grow" in body:
        bytearray(400 << 20)
    if b"slow" in body:
        began = time.process_time()
        while time.process_time() - began < 0.3:
            pass
    if b"raise" in body:
        raise KeyError(body)
    return len(body)


@pytest.mark.parametrize(
    ("word", "what"),
    [("die", "ended the process (-11)"), ("grow", "needed 400 MB"), ("slow", "took 0.3 s"), ("raise", "KeyError: ")],
)
def test_the_fuzzer_notices_each_sort_of_failure(
    word: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without this test, a fuzzer that finds nothing would prove nothing."""
    monkeypatch.setattr(run, "MAX_SECONDS", 0.2 if word == "slow" else 20)
    monkeypatch.setitem(TARGETS, "url", Target(_misbehave, (b"word",), samples=(word.encode(),)))
    outcome = fuzz("url", seconds=30, inputs=1, seed=1, corpora=tmp_path)
    assert what in {finding.what for finding in outcome.findings}


def test_a_finding_is_shortened_to_the_bytes_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "url", Target(_misbehave, (b"x",)))
    finding = Finding("url", "KeyError: ", b"a" * 1000 + b"raise" + b"b" * 1000)
    assert shorten(finding) == b"raise"
