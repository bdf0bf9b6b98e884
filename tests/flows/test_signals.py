"""Ctrl-C on a terminal and SIGTERM, once or twice, at random times: no process is left."""

import contextlib
import os
import pty
import random
import signal
import threading
import time

import psutil
import pytest

pytestmark = [pytest.mark.server, pytest.mark.slow]

N_RUNS = 12
LENGTHS = {"short blocks": ("--profile", "smoke"), "long blocks": ("--profile", "paper", "--reps", "4000")}


def processes_of(project):
    """Return every process that was started with the project's home, and its command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DPCOST_HOME") == str(project.home):
                found.append((process.pid, process.cmdline()))
    return found


class OnTerminal:
    """A run with a terminal of its own."""

    def __init__(self, project, seed, *options):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            project.become("run", project.study, "--seed", seed, *options)
        self.seen = b""
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        with contextlib.suppress(OSError):  # what Linux raises at the end
            while piece := os.read(self.terminal, 4096):
                self.seen += piece

    def ctrl_c(self):
        with contextlib.suppress(OSError):
            os.write(self.terminal, b"\x03")

    def sigterm(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self):
        os.waitpid(self.pid, 0)
        self.reader.join(timeout=10)
        os.close(self.terminal)


def test_interruptions_at_random_times_leave_no_process(project):
    chance = random.Random(20261121)
    project.run()
    left = []
    for number in range(N_RUNS):
        length = chance.choice(list(LENGTHS))
        run = OnTerminal(project, number, "--out", str(project.out), *LENGTHS[length])
        how = chance.choice(("ctrl_c", "sigterm"))
        time.sleep(chance.uniform(0.05, 10))
        getattr(run, how)()
        twice = chance.random() < 0.5
        if twice:
            time.sleep(chance.choice((0.0, 0.01, 0.3, 2.0)))
            getattr(run, how)()
        run.wait()
        deadline = time.monotonic() + 5  # a server ends with its owner, and takes a moment
        while processes_of(project) and time.monotonic() < deadline:
            time.sleep(0.1)
        if found := processes_of(project):
            left.append((number, length, how, twice, found))
        assert b"Traceback" not in run.seen or b"/flows/" not in run.seen, run.seen.decode()
    assert left == []
