"""Progress of a run on standard error: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Counts finished blocks and estimates the time left from the work done so far."""

    def __init__(self, n_blocks: int, total_work: int) -> None:
        self._n_blocks, self._total_work = n_blocks, total_work
        self._done_blocks, self._done_work = 0, 0
        self._started = time.monotonic()
        self._last_line = self._started
        self._live = sys.stderr.isatty()

    def advance(self, work: int) -> None:
        """Count one more finished block."""
        self._done_blocks += 1
        self._done_work += work
        now = time.monotonic()
        last = self._done_blocks == self._n_blocks
        if self._live:
            sys.stderr.write(f"\r\x1b[2K{self._line(now)}")
            sys.stderr.flush()
        elif last or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            print(self._line(now), file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the live line."""
        if self._live and self._done_blocks:
            sys.stderr.write("\n")

    def _line(self, now: float) -> str:
        elapsed = now - self._started
        left = elapsed * (self._total_work - self._done_work) / max(self._done_work, 1)
        share = self._done_work / max(self._total_work, 1)
        bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
        done = f"{self._done_blocks}/{self._n_blocks} blocks"
        return f"{bar} {done}, {_duration(elapsed)}, about {_duration(left)} left"


@contextmanager
def progress(n_blocks: int, total_work: int) -> Iterator[Progress]:
    """Show progress while blocks run."""
    shown = Progress(n_blocks, total_work)
    try:
        yield shown
    finally:
        shown.close()


def say(sentence: str) -> None:
    """Tell the user one thing on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
