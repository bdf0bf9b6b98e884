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
    """Call `when_lost`, once and in another thread, if `lives` has not been true for `after` seconds."""
    over = threading.Event()

    def watch() -> None:
        last = time.monotonic()
        while not over.wait(every):
            if lives():
                last = time.monotonic()
            elif time.monotonic() - last > after and not over.is_set():
                when_lost(f"{what} has not answered for {after:.0f} s")
                return

    threading.Thread(target=watch, name=f"watch of {what}", daemon=True).start()
    try:
        yield
    finally:
        over.set()
