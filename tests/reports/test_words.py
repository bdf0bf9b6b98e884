"""Numbers, sentences, and the table behind them."""

from dataclasses import replace

import numpy as np

from dpalgos.accounting.events import Relation
from reports.cost import rank
from reports.headline import build_headline
from reports.results import summarize
from reports.series import View
from reports.table import error_table


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


def test_the_best_private_estimate_keeps_the_strongest_promise(results, page):
    ranked = rank(View.build(summarize(results), page).series(None) or (), 20000)
    assert ranked.weaker is None
    weak = build_headline(View.build(summarize(results), page)).tiles[0].caption
    best = next(info for info in page.estimators if info.title in weak)
    others = tuple(
        replace(info, relation=info.relation and Relation.LOCAL) if info != best else info
        for info in page.estimators
    )
    view = View.build(summarize(results), replace(page, estimators=others))
    head = build_headline(view)
    assert best.title not in head.tiles[0].caption
    assert f"With a weaker promise ({best.title}" in head.details
    bold = [row[0].text for row in error_table(view, view.headline).cells for c in row if c.kind == "best"]
    assert bold
    assert best.label not in bold


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page):
    """Bold and the sentence on sizes name those that tie, and nothing not clearly better than zero."""
    near = with_adassp_near_the_best(results, 0.001)
    view = View.build(summarize(near), page)
    bold = [row[0].text for row in error_table(view, view.headline).cells if row[-3].kind == "best"]
    assert {"AdaSSP", "Preconditioned regression"} <= set(bold)
    assert "share" in build_headline(view).choice
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    view = View.build(summarize(unsure), page)
    cells = [cell.kind for row in error_table(view, view.headline).cells for cell in row]
    assert "best" not in cells
    assert "none is clearly better" in build_headline(view).choice
