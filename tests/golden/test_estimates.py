"""Estimates at fixed seeds are the stored ones; their modules store what changed."""

from tests.golden import estimates, large_budgets


def test_each_form_of_an_estimator_has_its_stored_answer():
    """By the time of a change, the documentation knows which figures to measure again."""
    known = {key: value for key, (value, _) in estimates.stored().items()}
    found = {tuple(key): value for *key, value in estimates.estimates()}
    assert list(found) == list(known)
    assert [key for key in found if not estimates.is_same(found[key], known[key])] == []


def test_rows_and_people_have_their_stored_answers_at_a_large_budget():
    """Steps that a small budget leaves out, and those of people alone, are seen here."""
    known, found = large_budgets.stored(), dict(large_budgets.estimates())
    assert list(found) == list(known)
    assert [key for key in found if not large_budgets.is_same(found[key], known[key])] == []


def test_a_form_keeps_the_time_of_its_last_change(tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "FILE", tmp_path / "estimates.csv")
    monkeypatch.setattr(
        estimates, "estimates", lambda: iter([("a", "", "tight", (1.0, 0.0)), ("b", "", "", (2.0, 1.0))])
    )
    estimates.renew("first")
    monkeypatch.setattr(
        estimates, "estimates", lambda: iter([("a", "", "tight", (1.0, 0.0)), ("b", "", "", (2.0, 1.1))])
    )
    estimates.renew("second")
    assert [at for _, at in estimates.stored().values()] == ["first", "second"]
