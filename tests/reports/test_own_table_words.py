"""What the page of an own table says of signs and of columns that are left out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from reports.exhibits import own_table
from reports.headline import build_headline
from reports.results import SIGNS, summarize
from reports.series import View
from reports.writing import render_sentence


@pytest.mark.parametrize(("linear", "rare"), [(True, False), (False, True)])
def test_only_a_likelihood_lacks_a_maximum_for_rare_columns(linear, rare):
    said = render_sentence("own_missing", left_out=["a"], no_rows="", enough=1.0, rows=3, linear=linear)
    assert "constant in these rows" in said
    assert ("likelihood" in said) is rare


def simulated(results, page, seed):
    """Return a view and the content of its own answer: errors, right signs and intervals of any size."""
    rng = np.random.default_rng(seed)
    rows = results.copy()
    rows.loc[rows["privacy_model"] != "none", "value"] *= rng.lognormal(0, 1.5)
    counted = results[results["metric"] == page.metric].assign(
        metric=SIGNS, value=rng.choice([rng.uniform(0, 5), 5])
    )
    exact, spread = rng.normal(size=5), rng.lognormal(0, 2)
    middle = exact + 2 * spread * rng.normal(size=5)
    has_ends = rng.random(5) < rng.choice([0, 0.5, 1])
    ends = [
        (mid - spread, mid + spread) if has else (None, None)
        for mid, has in zip(middle, has_ends, strict=True)
    ]
    own = [[f"column {j}", middle[j], *ends[j], exact[j]] for j in range(5)]
    content = {"rows": own, "left_out": [], "estimator": "adassp", "form": "", "epsilon": 0.5, "n": 100}
    exhibits = {"own_table": content} if seed % 3 else {}
    changed = replace(page, n_coefficients=5, exhibits=exhibits)
    return View.build(summarize(pd.concat([rows, counted])), changed), content


@pytest.mark.parametrize("seed", range(60))
def test_the_signs_that_are_known_are_those_that_intervals_tell(results, page, seed):
    view, content = simulated(results, page, seed)
    sentence = build_headline(view).sentence
    if not view.page.exhibits:
        return
    section = own_table.draw(view, None, content)[0]
    known = [row[0] for row in section.table.rows if row[4] == "known"]
    right = [name for name, _, low, high, exact in content["rows"] if low and low * high > 0 < low * exact]
    assert known == right
    assert "sign" not in sentence
