"""What the page of the local study shows in addition to errors: growth with d, and central ε."""

from types import SimpleNamespace

import pandas as pd

from reports.exhibits import column_growth

INFO = SimpleNamespace(title="Local noisy moments", order=70)
VIEW = SimpleNamespace(page=SimpleNamespace(estimator=lambda name: INFO, data_source="simulated"))


def row(d, mean, metric="sup_error", **more):
    return {
        "estimator": "ldp_nldp",
        "calibration": "tight",
        "panel": f"d {d}",
        "form": "dense",
        "epsilon": 2.0,
        "n": 1000,
        "s": 2,
        "d": d,
        "metric": metric,
        "mean": mean,
        "se": 0.01 * mean,
        **more,
    }


def test_growth_with_columns_is_a_slope_and_a_picture():
    summary = pd.DataFrame([row(d, 0.1 * d) for d in (16, 4, 8)] + [row(4, 1.0, calibration="none")])
    (shown,) = column_growth.draw(VIEW, summary, {"metric": "sup_error"})
    assert shown.table.columns == ("Estimator", "d = 4", "d = 8", "d = 16", "slope")
    assert shown.table.rows[0][0] == "Local noisy moments dense"
    assert shown.table.rows[0][-1].startswith("1.00 ±")
    assert "at n = 1,000 and ε = 2" in shown.text
    assert b"number of columns d" in shown.picture.svg


def test_two_numbers_of_columns_show_nothing():
    summary = pd.DataFrame([row(d, 0.1 * d) for d in (4, 8)])
    assert column_growth.draw(VIEW, summary, {"metric": "sup_error"}) == ()
