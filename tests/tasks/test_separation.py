"""Studies in which a category or a class has no maximum of the likelihood."""

import numpy as np
import pytest

import dpalgos
from tasks.problems.reference_answer import reference_answer


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal(n), (rng.random(n) < 0.3) * 1.0, np.ones(n)])
    return rng, X


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_column_that_separates_is_left_out_and_named(family):
    rng, X = rows()
    y = (rng.random(len(X)) < 0.4) * 1.0
    never = np.where(y == 0, rng.random(len(X)) < 0.1, 0.0)  # at 1, all responses are 0
    found = reference_answer(np.insert(X, 1, never, axis=1), y, family, None)
    assert found.columns.tolist() == [True, False, True, True]
    alone = dpalgos.estimate("glm", X, y, family=family, rng=rng).estimate
    np.testing.assert_allclose(found.coef, np.insert(alone, 1, 0.0), atol=1e-9)


def test_a_whole_answer_is_that_of_glm():
    rng, X = rows()
    y = rng.integers(0, 3, len(X)) * 1.0
    found = reference_answer(X, y, "multinomial", 3)
    assert found.is_whole
    expected = dpalgos.estimate("glm", X, y, family="multinomial", n_classes=3, rng=rng).estimate
    np.testing.assert_array_equal(found.coef, expected)
