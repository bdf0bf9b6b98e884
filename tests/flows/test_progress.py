import io
import threading
import time
from contextvars import copy_context

import pytest

from flows.record.progress import Progress, counter, progress, say, show_turn
from tasks.run.resources import listening, shares_of
from tasks.turns import TURN


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def shown(stream, steps, n_blocks):
    clock = Clock()
    progress = Progress(n_blocks, n_blocks, stream, clock)
    for seconds, from_cache in steps:
        clock.now += seconds
        progress.advance(1, from_cache=from_cache)
    progress.close()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("steps", "n_blocks", "lines"),
    [
        ([(2.0, False)] * 6, 6, ["3/6 blocks, 6 s, about 6 s left", "6/6 blocks, 12 s"]),
        ([(0.2, False)], 1, ["1/1 block, less than 1 s"]),
        ([(600, False)], 1, ["1/1 block, 10 min"]),
        ([(0.0, True)] * 8 + [(6.0, False)], 10, ["9/10 blocks (8 from the cache), 6 s, about 6 s left"]),
        ([(6.0, True)], 3, ["1/3 blocks (1 from the cache), 6 s"]),  # how long the others take is not known
        ([(0.0, True)] * 4, 4, ["blocks, all from the cache"]),
    ],
)
def test_a_pipe_gets_a_line_now_and_then_and_the_last(steps, n_blocks, lines):
    written = shown(io.StringIO(), steps, n_blocks).splitlines()
    assert [line.partition(" ")[2] for line in written] == lines


@pytest.mark.parametrize("columns", [80, 30])
def test_a_terminal_gets_every_step_on_one_line_of_its_width(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = shown(Terminal(), [(3.0, False)] * 2, 2)
    first, last = text.split("\r\x1b[2K")[1:]
    assert "1/2" in first
    assert "2/2" in last
    assert text.count("\n") == 1
    assert max(len(first), len(last.rstrip("\n"))) < columns
    assert shown(Terminal(), [], 3) == ""


def test_time_passes_while_a_block_lasts():
    for stream, expected in ((io.StringIO(), ["31 s", "62 s"]), (Terminal(), ["29 s", "31 s", "62 s"])):
        clock = Clock()
        progress = Progress(2, 2, stream, clock)
        for clock.now in (29.0, 31.0, 62.0):
            progress.tick()
        lines = stream.getvalue().replace("\r\x1b[2K", "\n").split("\n")
        assert [line.partition("blocks, ")[2] for line in lines if line] == expected


def test_a_first_block_that_lasts_says_how_far_it_is_and_how_long_it_will_take():
    stream, clock = io.StringIO(), Clock()
    shown = Progress(4, 40, stream, clock)
    clock.now = 60.0
    with listening(lambda name, share: shown.within(name, 10 * share)):
        for name, share in (("a", 0.25), ("b", 0.25), ("a", 0.5)):
            shares_of(name, every=0)(share)
    shown.tick()
    shown.advance(10, from_cache=False, name="a")
    text = [line.partition("░ ")[2] for line in stream.getvalue().splitlines()]
    assert text == ["0/4 blocks, 60 s, about 4 min left"]
    assert stream.getvalue().startswith("███░")
    assert shown.line(120.0).endswith("1/4 blocks, 2 min, about 4 min left")


def test_the_bar_does_not_go_back_where_a_block_ends_with_less_work_than_it_said():
    shown = Progress(3, 30, io.StringIO(), Clock())
    shown.within("a", 24.0)
    assert shown.line(1.0).startswith("█" * 16 + "░")
    shown.advance(5, from_cache=False, name="a")
    assert shown.line(2.0).startswith("█" * 16 + "░")


def test_a_count_is_shown_now_and_then():
    stream, clock = io.StringIO(), Clock()
    show = counter("reading a.csv", "rows", stream, clock)
    for clock.now, count in ((1.0, 10), (6.0, 2000), (7.0, 3000), (12.0, 4000)):
        show(count)
    assert stream.getvalue() == "reading a.csv: 2,000 rows\nreading a.csv: 4,000 rows\n"


def test_a_run_ticks_by_itself_and_stops(capsys, monkeypatch):
    monkeypatch.setattr("flows.record.progress._SECONDS_BETWEEN_TICKS", 0.01)
    monkeypatch.setattr("flows.record.progress._SECONDS_BETWEEN_SIGNS", 0.0)
    with progress(1, 1) as shown:
        while "0/1 block" not in capsys.readouterr().err:
            time.sleep(0.01)
        shown.advance(1, from_cache=False)
    assert "1/1 block" in capsys.readouterr().err
    assert not any(thread.name == "progress" for thread in threading.enumerate())


def test_a_study_says_what_it_has_to_say_in_its_turn(capsys):
    def second():
        TURN.set(1)
        say("a note of the second")
        with progress(1, 1) as shown:
            shown.advance(1, from_cache=False)

    copy_context().run(second)
    say("the first")
    assert capsys.readouterr().err == "the first\n"
    show_turn(1)
    kept = capsys.readouterr().err.splitlines()
    show_turn(0)
    assert kept == ["a note of the second", f"{'█' * 20} 1/1 block, less than 1 s"]
