import io

import pytest

from flows.progress import Progress


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
