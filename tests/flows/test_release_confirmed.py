"""Before a release is charged: what is refused from public declarations alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from flows.cli.release import _confirm_intervals
from tasks.advice.releases import ReleaseForecast
from tasks.errors import SpecError
from tasks.own_table.file_units import FileUnits


@pytest.fixture
def plan():
    study = SimpleNamespace(guesses=SimpleNamespace(std={}, means={"y": 1.0}))
    columns = SimpleNamespace(x=["a", "b"], y="y")
    asked = {"estimator": SimpleNamespace(name="adassp"), "epsilon": 1.0, "delta": 1e-6, "family": ""}
    asked |= {"keywords": {"interval": 0.95}, "level": 0.95}
    request = SimpleNamespace(study=study, columns=columns, **asked)
    rows = SimpleNamespace(n_rows=100, columns=("a", "b"), units=FileUnits.unchanged(("a", "b")))
    return SimpleNamespace(request=request, rows=rows, params=None)


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
    numbers = {"intervals": (n_intervals, 0.0, 2.0), "signs": (1.0, 0.0, 2.0), "none": chance}
    widths = {"half_widths": np.array(half_widths), "ends": np.full((2, 2), 0.1)}
    foreseen = ReleaseForecast(names=("a", "b"), **widths, **numbers)
    monkeypatch.setattr("tasks.advice.releases.forecast_release", lambda *_: foreseen)
    if not is_refused:
        return _confirm_intervals(True, False, plan)
    with pytest.raises(SpecError, match="nothing was charged"):
        _confirm_intervals(True, False, plan)
    said = capsys.readouterr().err
    assert said.count("no interval") == int(np.isnan(half_widths).sum())
    assert f"{max(chance, float(np.isnan(half_widths).all())):.0%}" in said
    return _confirm_intervals(True, True, plan)
