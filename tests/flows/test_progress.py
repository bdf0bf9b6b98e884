import io
import threading
import time

import pytest

from flows.record.progress import Progress, counter, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def shown(stream, steps, n_blocks, total_work=None):
    clock = Clock()
    progress = Progress(n_blocks, total_work or n_blocks, stream, clock)
    for seconds, found in steps:
        clock.now += seconds
        progress.advance(1, found=found)
    progress.close()
    return stream.getvalue()


def test_a_pipe_gets_a_line_now_and_then_and_the_last():
    lines = shown(io.StringIO(), [(2.0, False)] * 6, 6).splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        "3/6 blocks, 6 s, about 6 s left",
        "6/6 blocks, 12 s",
    ]


def test_a_terminal_gets_every_step_on_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(Terminal(), [(3.0, False)] * 2, 2)
    steps = text.split("\r\x1b[2K")[1:]
    assert steps[0].endswith("1/2 blocks, 3 s, about 3 s left")
    assert steps[1].endswith("2/2 blocks, 6 s\n")
    assert text.count("\n") == 1


def test_a_narrow_terminal_is_not_overflown(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    steps = shown(Terminal(), [(3.0, False)], 2).split("\r\x1b[2K")[1:]
    assert all(len(step.rstrip("\n")) < 30 for step in steps)


def test_one_block_has_no_time_left():
    assert shown(io.StringIO(), [(0.2, False)], 1).endswith("1/1 block, less than 1 s\n")


def test_what_was_all_stored_needs_no_bar():
    assert shown(io.StringIO(), [(0.0, True)] * 4, 4) == "4 blocks, all from the cache\n"
    assert shown(io.StringIO(), [(0.0, True)], 1) == "1 block, all from the cache\n"


def test_stored_blocks_do_not_make_the_rest_look_quick():
    lines = shown(io.StringIO(), [(0.0, True)] * 8 + [(6.0, False)], 10).splitlines()
    assert lines[-1].endswith("9/10 blocks (8 from the cache), 6 s, about 6 s left")


def test_before_anything_was_computed_the_time_left_is_not_known():
    text = shown(io.StringIO(), [(6.0, True)], 3)
    assert text.endswith("1/3 blocks (1 from the cache), 6 s\n")


def test_nothing_done_shows_nothing():
    assert shown(Terminal(), [], 3) == ""


@pytest.mark.parametrize(("seconds", "words"), [(99, "99 s"), (600, "10 min")])
def test_long_times_are_minutes(seconds, words):
    assert shown(io.StringIO(), [(seconds, False)], 1).endswith(f", {words}\n")


def test_time_passes_while_a_block_lasts(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for stream, expected in (
        (io.StringIO(), ["0/2 blocks, 31 s", "0/2 blocks, 62 s"]),
        (Terminal(), ["0/2 blocks, 29 s", "0/2 blocks, 31 s", "0/2 blocks, 62 s"]),
    ):
        clock = Clock()
        progress = Progress(2, 2, stream, clock)
        for clock.now in (29.0, 31.0, 62.0):
            progress.tick()
        lines = stream.getvalue().replace("\r\x1b[2K", "\n").split("\n")
        assert [line.partition(" ")[2] for line in lines if line] == expected


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
        shown.advance(1, found=False)
    assert "1/1 block" in capsys.readouterr().err
    assert not any(thread.name == "progress" for thread in threading.enumerate())
