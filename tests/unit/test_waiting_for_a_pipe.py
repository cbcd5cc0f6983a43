"""A command that waits for a pipe is ended by one signal (spec 8.2)."""

import ctypes
import operator
import os
import signal
import threading
from functools import partial

import pytest

from headwater.cli.common import wait


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_just_before_the_wait_ends_it(stop: signal.Signals) -> None:
    """Python looks for signals between its own steps; here there is none between the signal and the wait."""
    read, write = os.pipe()
    rescue = threading.Timer(10, os.write, (write, b"x"))
    steps = [partial(ctypes.CDLL(None).kill, os.getpid(), stop), partial(os.read, read, 1)]
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]
    rescue.start()
    try:
        with pytest.raises(SystemExit) as ending:
            wait(lambda: list(map(operator.call, steps)))
        assert not rescue.finished.is_set(), "it waited until there was something to read"
    finally:
        rescue.cancel()
        rescue.join()
        os.close(read)
        os.close(write)
    assert ending.value.code == 128 + stop
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]) == before
