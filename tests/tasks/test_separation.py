"""Studies in which a category or a class has no maximum of the likelihood."""

import numpy as np
import pytest
import statsmodels.api as sm

import dpalgos
from tasks.problems.problem import Draw
from tasks.problems.reference_answer import partial_draw, reference_answer


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


def test_a_class_that_never_occurs_or_is_rarest_is_left_out():
    rng, X = rows()
    y = rng.integers(0, 3, len(X)) * 1.0
    y[np.argmax(X[:, 0])] = 4.0  # once, beyond all others
    found = reference_answer(X, y, "multinomial", 5)
    assert found.columns.all()
    assert found.classes.tolist() == [True, True, True, False, False]
    assert not found.coef[:, 3:].any()


def test_a_level_of_anes96_that_no_democrat_has_costs_its_column_alone():
    table = sm.datasets.anes96.load_pandas().data
    y = np.minimum(table["PID"].to_numpy(), 2)
    level = ((table["educ"] == 1) & (y == 2)).to_numpy(float)
    X = np.column_stack([(table["age"] - 45) / 15, (table["income"] - 12) / 6, level, np.ones(len(table))])
    with pytest.raises(dpalgos.InputError, match="separated"):
        dpalgos.estimate("glm", X, y, family="multinomial", n_classes=3, rng=np.random.default_rng(0))
    found = reference_answer(X, y, "multinomial", 3)
    assert found.columns.tolist() == [True, True, False, True]
    unit = np.eye(3, 4)
    draw = partial_draw(
        Draw(sample=dpalgos.Sample(X, y), first=0, target=unit @ found.coef, to_target=unit),
        found,
    )
    assert draw.distances(found.coef)[0] == pytest.approx(0)
    off = found.coef.copy()
    off[2] = 50.0  # is not compared
    assert draw.distances(off)[0] == pytest.approx(0)
    off[0, 1] += 1
    assert draw.distances(off)[0] > 0.5


def test_a_response_of_one_value_has_no_answer():
    _, X = rows()
    with pytest.raises(dpalgos.InputError, match="without its covariates"):
        reference_answer(X, np.zeros(len(X)), "logistic", None)
