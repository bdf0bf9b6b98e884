"""The progress of a run: blocks that are done, and the time left."""

from unittest.mock import Mock

from flows import progress
from flows.lock import exclusive_run


def test_the_clock_starts_with_the_run_and_the_time_left_counts_from_the_submission(
    tmp_path, capsys, monkeypatch
):
    names = ("Cached", "Completed", "Completed")
    futures = [Mock(state=Mock(), result=lambda k=k: k) for k in range(len(names))]
    for future, name in zip(futures, names, strict=True):
        future.state.name = name
        future.state.is_completed.return_value = True
    monkeypatch.setattr("prefect.futures.as_completed", lambda futures: iter(futures))
    now = iter([10.0, *[130.0] * 9])
    monkeypatch.setattr(progress, "time", Mock(monotonic=lambda: next(now)))
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with exclusive_run(tmp_path):  # in which an own table is read, before blocks are submitted
        assert progress.finished(futures, [5.0, 1.0, 2.0], 100.0) == [0, 1, 2]
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3 blocks, 120 s",
        "2 of 3 blocks, 120 s, about 60 s left",
        "3 blocks (1 from the cache), 120 s",
    ]
