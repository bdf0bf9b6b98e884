import io
import sys

import pytest

from flows.progress import finished


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Ended:
    """The future of a block that ends after some seconds."""

    def __init__(self, clock, seconds, name="Completed", error=None):
        self.clock, self.seconds, self.state, self.error = clock, seconds, self, error
        self.name = name

    def wait(self):
        self.clock.now += self.seconds

    def result(self):
        if self.error:
            raise self.error
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("prefect.futures.as_completed", lambda futures: futures)
    return clock


@pytest.mark.parametrize(
    ("seconds", "names", "lines"),
    [
        ([3.0] * 4, ["Completed"] * 4, ["2 of 4 blocks, 6 s", "4 blocks, 12 s"]),
        ([0.2], ["Completed"], ["1 block, 0 s"]),
        ([0.0, 6.0], ["Cached", "Completed"], ["2 blocks (1 from the cache), 6 s"]),
        ([0.0] * 4, ["Cached"] * 4, ["4 blocks, all from the cache"]),
    ],
)
def test_a_pipe_gets_a_line_now_and_then_and_the_last(seconds, names, lines, clock, capsys):
    futures = [Ended(clock, *each) for each in zip(seconds, names, strict=True)]
    assert finished(futures) == seconds
    assert capsys.readouterr().err.splitlines() == lines


def test_a_terminal_gets_a_bar(clock, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    finished([Ended(clock, 1.0)] * 3)
    assert "0/3" in sys.stderr.getvalue()
    assert sys.stderr.getvalue().endswith("3 blocks, 3 s\n")
