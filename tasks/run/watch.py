"""A watch over what a run needs and another process gives: a server, a scheduler."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watched(
    what: str,
    lives: Callable[[], bool],
    when_lost: Callable[[str], object],
    after: float = 60.0,
    every: float = 5.0,
) -> Iterator[None]:
    """Call `when_lost`, once and in another thread, if `lives` has not been true for `after` seconds.

    The time between two probes counts for at most `2 * every`: if it is longer, this process was frozen and
    asked nobody.
    """
    over = threading.Event()

    def watch() -> None:
        silent, last = 0.0, time.monotonic()
        while not over.wait(every):
            is_alive, now = lives(), time.monotonic()
            silent, last = 0.0 if is_alive else silent + min(now - last, 2 * every), now
            if silent > after and not over.is_set():
                when_lost(f"{what} has not answered for {after:.0f} s")
                return

    threading.Thread(target=watch, name=f"watch of {what}", daemon=True).start()
    try:
        yield
    finally:
        over.set()
