"""Forms with private weights: whatever the weight of a row, a query moves by at most its sensitivity."""

import zlib

import numpy as np
import pytest

from dpalgos.api import build_params
from dpalgos.params import describe_keywords
from dpalgos.rows.sample import Sample
from tests.contract.forms import IDS, PRIVATE, keywords, response, whose
from tests.contract.moves import largest_moves
from tests.contract.test_admitted_rows import far_row, recorded, table_for

MAX_WEIGHT = 2.0
WEIGHTS = [-1.0, 0.0, 1e-9, 0.5, MAX_WEIGHT, 3.0, 1e50]


def takes_weights(estimator):
    return "max_weight" in {item["name"] for item in describe_keywords(estimator.parameters)}


WEIGHTED = [(estimator, calibration) for estimator, calibration in PRIVATE if takes_weights(estimator)]


@pytest.mark.parametrize(("estimator", "calibration"), WEIGHTED, **IDS)
def test_a_row_of_any_weight_moves_no_query_by_more_than_its_sensitivity(estimator, calibration):
    rng = np.random.default_rng(zlib.crc32(f"{estimator.label}-{calibration}".encode()))
    params = build_params(estimator, keywords(estimator, calibration, max_weight=MAX_WEIGHT))
    largest: dict[str, float] = {}
    for n in (40, 40, 160):
        X, y, own = table_for(estimator, n, rng)
        weights = rng.choice(WEIGHTS, n)
        first = None
        for weight in (0.0, *rng.choice(WEIGHTS, 2), 1e50):
            X[own], y[own] = far_row(rng, X.shape[1])
            weights[own] = weight
            held = (X.copy(), response(estimator, y.copy()))
            sample = Sample(*held, user_ids=whose(estimator, n), row_weights=weights.copy())
            made = recorded(estimator, params, sample, first)[0]
            first = first or made
            for label, moved in largest_moves(first, made).items():
                largest[label] = max(largest.get(label, 0.0), moved)
    assert max(largest.values()) <= 1 + 1e-9, largest
    assert largest["mean weight"] >= 0.8  # from a weight of 0 to one that is clipped: √(1 + 0.3²) of 1.3


def test_both_preconditioned_regressions_take_weights():
    names = {estimator.name for estimator, _ in WEIGHTED}
    assert names >= {"preconditioned_glm", "preconditioned_regression"}
