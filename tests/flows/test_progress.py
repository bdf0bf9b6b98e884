"""The progress of a run: blocks that are done, and the time left."""

from unittest.mock import Mock

from flows import progress


def test_the_time_left_comes_from_the_work_of_computed_blocks_since_they_were_submitted(capsys, monkeypatch):
    names = ("Cached", "Completed", "Completed")
    futures = [Mock(state=Mock(), result=lambda k=k: k) for k in range(len(names))]
    for future, name in zip(futures, names, strict=True):
        future.state.name = name
        future.state.is_completed.return_value = True
    monkeypatch.setattr("prefect.futures.as_completed", lambda futures: iter(futures))
    monkeypatch.setattr(progress, "time", Mock(monotonic=lambda: 130.0))
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    assert progress.finished(futures, [5.0, 1.0, 2.0], 100.0) == [0, 1, 2]
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3 blocks, 30 s",
        "2 of 3 blocks, 30 s, about 60 s left",
        "3 blocks (1 from the cache), 30 s",
    ]
