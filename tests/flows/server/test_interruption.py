import signal
import subprocess
import sys
import threading

import pytest
from small_project import processes_of, until

from flows.server.interruption import prompt_end
from tasks.turns import STOPPED

BUSY = """
import contextlib, signal, sys, time
from flows.server.interruption import prompt_end
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would this process
with prompt_end(float(sys.argv[1])):
    while True:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):  # what waits for a long block
            print("busy", flush=True)
            time.sleep(60)
"""


def busy(grace):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(grace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "busy\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_does_not_end_after_a_signal_is_ended(number):
    process = busy(0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "longer than 0 s" in said
    assert "run the same command again" in said


def test_a_second_signal_does_not_wait():
    process = busy(3600)
    process.send_signal(signal.SIGINT)
    until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)
    assert process.returncode == 1
    assert "interrupted twice" in process.communicate()[1]


def test_what_ends_by_itself_is_left_alone():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with prompt_end(0.0):
        pass
    with pytest.raises(KeyboardInterrupt), prompt_end(3600):
        signal.raise_signal(signal.SIGINT)
    assert not STOPPED.is_set()
    with pytest.raises(SystemExit) as left, prompt_end(3600):
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    until(lambda: not [each for each in threading.enumerate() if isinstance(each, threading.Timer)], 10)


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with prompt_end(3600):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


PARENT = """
import os, subprocess, sys, time
os.environ["DPCOST_SERVED_BY"] = str(os.getpid())
subprocess.Popen([sys.executable, "-c", "import flows, time; time.sleep(60)"])
time.sleep(60)
"""


def test_a_process_ends_with_the_one_that_started_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path))
    parent = subprocess.Popen([sys.executable, "-c", PARENT])
    until(lambda: len(processes_of(tmp_path)) == 2)
    parent.kill()
    parent.wait()
    until(lambda: processes_of(tmp_path) == [], 10)
