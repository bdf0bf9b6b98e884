"""Progress of a run on standard error: a live bar on a terminal, a line now and then elsewhere."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from tasks.turns import TURN

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_SIGNS = 30.0  # of life, while no block is finished
_SECONDS_BETWEEN_TICKS = 1.0


class Progress:
    """Counts finished blocks and estimates the time left, from the work of those that were computed."""

    def __init__(
        self, n_blocks: int, total_work: int, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._n_blocks, self._work_left = n_blocks, total_work
        self._n_done, self._n_found, self._work_computed = 0, 0, 0
        self._begun: dict[str, float] = {}  # work that is done of blocks under way, by name
        self._filled = 0  # twentieths of the bar, which never go back where a block ends with less work
        self._stream, self._clock = stream, clock
        self._started = self._last_line = clock()
        self._live, self._shown = stream.isatty(), False
        self._lock, self._turn = threading.Lock(), TURN.get()

    def within(self, name: str, work: float) -> None:
        """Note how much of the work of a block that is under way is done."""
        with self._lock:
            self._begun[name] = work

    def advance(self, work: int, *, from_cache: bool, name: str = "") -> None:
        """Count one more finished block, computed or from the cache."""
        with self._lock:
            self._begun.pop(name, None)
            self._n_done += 1
            self._n_found += from_cache
            self._work_left -= work
            self._work_computed += 0 if from_cache else work
            last = self._n_done == self._n_blocks
            self._show(0.0 if last else _SECONDS_BETWEEN_LINES)

    def tick(self) -> None:
        """Show that time passes while blocks that last long are computed."""
        with self._lock:
            if self._n_done < self._n_blocks:
                self._show(_SECONDS_BETWEEN_SIGNS)

    def close(self) -> None:
        if self._live and self._shown:
            print(file=self._stream, flush=True)

    def _show(self, at_least: float) -> None:
        """Write the line: always on a terminal, elsewhere if the last one is so many seconds old."""
        now = self._clock()
        if self._turn > _turns.shown:
            if self._n_done == self._n_blocks:
                say(self.line(now))
            return
        with suppress(OSError):
            if self._live:
                columns = max(20, shutil.get_terminal_size().columns)
                self._stream.write(f"\r\x1b[2K{self.line(now)[: columns - 1]}")
                self._stream.flush()
                self._shown = True
            elif now - self._last_line >= at_least:
                self._last_line = now
                print(self.line(now), file=self._stream, flush=True)

    def line(self, now: float) -> str:
        if self._n_found == self._n_blocks:
            return f"{blocks(self._n_blocks)}, all from the cache"
        begun = sum(self._begun.values())
        computed, left = self._work_computed + begun, self._work_left - begun
        of_work = computed / (computed + left) if computed and left > 0 else 0.0
        self._filled = max(self._filled, int(20 * max(self._n_done / self._n_blocks, of_work)))
        parts = [f"{'█' * self._filled}{'░' * (20 - self._filled)} {self._n_done}/{blocks(self._n_blocks)}"]
        if self._n_found:
            parts[0] += f" ({self._n_found} from the cache)"
        elapsed = now - self._started
        parts.append(_duration(elapsed))
        if left and computed:
            parts.append(f"about {_duration(max(1.0, elapsed * left / computed))} left")
        return ", ".join(parts)


@contextmanager
def progress(n_blocks: int, total_work: int) -> Iterator[Progress]:
    """Show progress while blocks run, and that time passes."""
    shown, over = Progress(n_blocks, total_work, sys.stderr), threading.Event()

    def keep_showing() -> None:
        while not over.wait(_SECONDS_BETWEEN_TICKS):
            shown.tick()

    ticking = threading.Thread(target=keep_showing, daemon=True, name="progress")
    ticking.start()
    try:
        yield shown
    finally:
        over.set()
        ticking.join()
        shown.close()


def counter(
    what: str, unit: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Callable[[int], None]:
    """Return a function that takes a progress count and writes a line about it now and then."""
    last_line = clock()

    def show(count: int) -> None:
        nonlocal last_line
        if (now := clock()) - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = now
            print(f"{what}: {count:,} {unit}", file=stream or sys.stderr, flush=True)

    return show


class _Turns:
    """The study of a command whose messages are shown, and what later ones have to say."""

    def __init__(self) -> None:
        self.shown = 0
        self.kept: dict[int, list[str]] = {}
        self.lock = threading.RLock()


_turns = _Turns()


def say(sentence: str) -> None:
    """Write one line to standard error when it is the study's turn; a closed stream does not stop the run."""
    with _turns.lock, suppress(OSError):
        if (turn := TURN.get()) > _turns.shown:
            _turns.kept.setdefault(turn, []).append(sentence)
        else:
            print(sentence, file=sys.stderr, flush=True)


def show_turn(turn: int) -> None:
    """Show the messages of a study from now on, those first that it kept until its turn."""
    with _turns.lock:
        _turns.shown = turn
        for sentence in _turns.kept.pop(turn, []):
            say(sentence)


def blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
