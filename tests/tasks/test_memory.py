"""Blocks wait for memory, and what is larger than all of it runs alone."""

import threading
import time
from pathlib import Path

import pytest

from tasks.run.resources import Room
from tasks.turns import STOPPED, TURN

STUDIES = Path(__file__).parents[2] / "flows" / "studies"


@pytest.mark.parametrize(("sizes", "most"), [([40] * 6, 2), ([500, 10, 500, 10], 1), ([0] * 5, 5)])
def test_no_more_is_held_than_there_is(sizes, most):
    room, inside, together, lock = Room(100), [], [], threading.Lock()
    met = threading.Barrier(most)

    def block(size):
        with room.hold(size):
            with lock:
                inside.append(size)
                together.append(list(inside))
            met.wait(timeout=10)  # as many as may be inside at once are
            with lock:
                inside.remove(size)

    threads = [threading.Thread(target=block, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(held) == 1 or sum(held) <= 100 for held in together)
    assert len(together) == len(sizes)


def test_a_failure_gives_the_memory_back():
    room = Room(10)
    with pytest.raises(ZeroDivisionError), room.hold(10):
        raise ZeroDivisionError
    with room.hold(10):
        pass


def test_the_lowest_turn_goes_first():
    room, order, waiting = Room(10), [], []

    def block(turn):
        TURN.set(turn)
        with room.hold(10):
            order.append(turn)

    with room.hold(10):
        for turn in (2, 0, 1):
            waiting.append(threading.Thread(target=block, args=(turn,)))
            waiting[-1].start()
        while len(room._waiting) < 3:
            time.sleep(0.01)
    for thread in waiting:
        thread.join()
    assert order == [0, 1, 2]


def test_nobody_is_let_in_after_the_end():
    STOPPED.set()
    try:
        with pytest.raises(KeyboardInterrupt), Room(10).hold(1):
            pass
    finally:
        STOPPED.clear()
