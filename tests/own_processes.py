"""Servers that tests start: they end with the test, and with pytest, however it ends."""

import contextlib
import ctypes
import signal
import subprocess

import psutil

_SEND_AT_THE_PARENTS_END = 1  # PR_SET_PDEATHSIG of Linux


def end_with_parent():
    """Let a process that begins get Ctrl-C as its parent ends, killed or not, and not ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        ctypes.CDLL(None).prctl(_SEND_AT_THE_PARENTS_END, signal.SIGINT)


@contextlib.contextmanager
def own_process(command, *, patience=60, **options):
    """Start a process; end it with Ctrl-C, and kill it and its children if that is not enough."""
    process = subprocess.Popen(list(map(str, command)), preexec_fn=end_with_parent, **options)
    try:
        yield process
    finally:
        end(process, patience)


def end(process, patience=60):
    if process.poll() is not None:
        return
    begun = psutil.Process(process.pid).children(recursive=True)
    try:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=patience)
    except (subprocess.TimeoutExpired, ValueError):  # what it says may be read elsewhere
        pass
    finally:
        for each in (process, *begun) if process.poll() is None else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
