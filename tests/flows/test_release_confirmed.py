"""Before a release is charged: what is refused from public declarations alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from flows.cli.release import _confirm_intervals
from tasks.advice.releases import ReleaseForecast
from tasks.errors import SpecError
from tasks.problems.file_units import FileUnits


@pytest.fixture
def plan():
    study = SimpleNamespace(guesses=SimpleNamespace(std={}, means={"y": 1.0}))
    columns = SimpleNamespace(x=["a", "b"], y="y")
    request = SimpleNamespace(
        study=study,
        estimator=SimpleNamespace(name="adassp"),
        epsilon=1.0,
        delta=1e-6,
        config=SimpleNamespace(columns=columns),
    )
    rows = SimpleNamespace(n_rows=100, units=FileUnits.unchanged(("a", "b")))
    return SimpleNamespace(
        keywords={"interval": 0.95}, request=request, rows=rows, drawing=SimpleNamespace(params=None)
    )


@pytest.mark.parametrize(
    ("half_widths", "n_intervals", "chance", "is_refused"),
    [
        ((np.nan, np.nan), 0.0, 0.0, True),
        ((np.nan, np.nan), 1.0, 0.0, True),
        ((0.1, np.nan), 1.0, 0.2, False),
        ((0.1, 0.1), 2.0, 0.3, True),
    ],
)
def test_a_release_is_refused_where_it_is_likely_that_no_coefficient_has_an_interval(
    monkeypatch, capsys, plan, half_widths, n_intervals, chance, is_refused
):
    foreseen = ReleaseForecast(
        names=("a", "b"),
        half_widths=np.array(half_widths),
        ends=np.full((2, 2), 0.1),
        intervals=(n_intervals, 0.0, 2.0),
        signs=(1.0, 0.0, 2.0),
    )
    monkeypatch.setattr("tasks.advice.releases.forecast_release", lambda *_: foreseen)
    monkeypatch.setattr("tasks.advice.releases.chance_of_none", lambda *_: chance)
    if not is_refused:
        return _confirm_intervals(True, False, plan)
    with pytest.raises(SpecError, match="nothing was charged"):
        _confirm_intervals(True, False, plan)
    said = capsys.readouterr().err
    assert said.count("no interval") == int(np.isnan(half_widths).sum())
    assert f"{max(chance, float(np.isnan(half_widths).all())):.0%}" in said
    return _confirm_intervals(True, True, plan)


def test_only_what_helps_is_suggested_where_little_is_learned(monkeypatch, capsys, plan):
    def forecast(signs, intervals):
        return ReleaseForecast(
            names=("a", "b"),
            half_widths=np.full(2, np.nan),
            ends=np.full((2, 2), np.nan),
            intervals=intervals,
            signs=signs,
        )

    none, some = forecast((0.0, 0.0, 1.0), (0.0, 0.0, 0.0)), forecast((2.0, 1.0, 2.0), (2.0, 1.0, 2.0))
    monkeypatch.setattr("tasks.advice.releases.forecast_release", lambda *_: none)
    for options, told in (
        (
            {"epsilon = 4": none, "4 times the rows": some},
            "tell with more:\n  4 times the rows: about 2 of 2",
        ),
        ({"epsilon = 4": none}, "nor with four times the rows or epsilon"),
    ):
        monkeypatch.setattr("tasks.advice.releases.what_would_help", lambda *_, own=options: own)
        _confirm_intervals(True, True, plan)
        said = capsys.readouterr().err
        assert "on made-up tables: none of 2" in said
        assert told in said
        assert "epsilon = 4" not in said
