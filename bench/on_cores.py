"""Run a program on some cores, and write the CPU seconds of all its processes: on_cores CORES REPORT COMMAND..."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    cores, report, *command = sys.argv[1:]
    os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    program = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: program.terminate())
    code = program.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(report).write_text(str(used.ru_utime + used.ru_stime), encoding="ascii")
    sys.exit(code)
