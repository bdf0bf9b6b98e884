import signal
import socket
import subprocess
import sys

import pytest

from data.store.processes import ProcessIdentity
from flows.server.dead_runs import _count_signals, prompt_end

BUSY = """
import contextlib, os, signal, sys, time
from functools import partial
from pathlib import Path
from flows.server.dead_runs import leave, prompt_end
from flows.server.processes import ChildProcess, started_processes

home, grace = Path(sys.argv[1]), float(sys.argv[2])
(home / "prefect").mkdir(parents=True)
child = ChildProcess(home, "server", ["sleep", "60"], environment=os.environ, folder=home)
child.start(ready=lambda: len(started_processes(home)) == 2)
with prompt_end(partial(leave, home), grace):
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever waits for a long block
        signal.signal(number, lambda *_: print("heard", flush=True))
    print(max(each.process.pid for each in started_processes(home)), flush=True)
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(60)
"""


def busy(home, grace):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(home), str(grace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, ProcessIdentity.of(int(process.stdout.readline()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_end_after_a_signal_is_ended_with_what_it_started(tmp_path, number):
    process, child = busy(tmp_path, 0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted, and not waiting longer than 0 s" in said
    assert "run the same command again" in said
    assert not child.is_alive()


def test_a_second_signal_does_not_wait(tmp_path):
    process, child = busy(tmp_path, 3600)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "heard\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted twice" in said
    assert not child.is_alive()


def test_two_signals_that_arrive_at_once_are_two():
    reading, writing = socket.socketpair()
    said = []
    writing.send(bytes([signal.SIGINT, signal.SIGINT]))
    _count_signals(reading, said.append, 3600)
    assert said == ["interrupted twice, so not waiting for the blocks in flight"]


def test_what_ends_by_itself_is_left_alone():
    left = []
    with prompt_end(left.append, 0.0):
        pass
    with pytest.raises(KeyboardInterrupt), prompt_end(left.append, 3600):
        signal.raise_signal(signal.SIGINT)
    assert left == []
    assert signal.set_wakeup_fd(-1) == -1
