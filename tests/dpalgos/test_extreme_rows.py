"""A row of any size moves no release of centers, units and offsets by more than was charged.

Given the same releases nothing else differs: neither what is asked next, nor its noise, nor the answer.
"""

import warnings

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import PureEvent
from dpalgos.rows.blocks import LARGEST_VALUE, StreamedRows
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import moves, recorded

LINEAR, COUNTS = "preconditioned_regression", "preconditioned_glm"
OFFSET = {"family": "poisson", "offset_bounds": (-2.0, 1.0)}
EDGES = [0.0, -0.0, 5e-324, 2.0**-24, 1.0, 2.0**40, 1e30, LARGEST_VALUE]
SIZES = [*EDGES, *np.nextafter(EDGES[3:], 0), *(1.0625 * 2.0 ** np.arange(-24, 40, 7))]
FORMS = {
    "a unit": (LINEAR, {"epsilon": 8.0}),
    "centers of few rows": (LINEAR, {"epsilon": 6.0, "intercept": True}),
    "centers and a unit where rows are many": (LINEAR, {"intercept": True, "epsilon": 20.0}),
    "offset of counts": (COUNTS, {**OFFSET, "intercept": True}),
    "columns of counts": (COUNTS, {"family": "poisson", "intercept": True, "epsilon": 20.0}),
    "columns of events where rows are many": (
        COUNTS,
        {"family": "logistic", "intercept": True, "epsilon": 20.0},
    ),
    "offset of few counts": (COUNTS, {**OFFSET, "intercept": True, "epsilon": 0.05}),
    "offset without a constant": (COUNTS, OFFSET),
    "classes": (COUNTS, {"family": "multinomial", "n_classes": 3, "intercept": True}),
}


def charges(made):
    fields = (("noise_multiplier", "l2_sensitivity"), ("epsilon", "sensitivity"))
    found = []
    for event in made.events:
        noise, sensitivity = fields[isinstance(event, PureEvent)]
        found.append((event.label, getattr(event, noise), np.asarray(getattr(event, sensitivity)).tolist()))
    return found


def assert_covered(name, keywords, one, other):
    keywords = {"epsilon": 2.0, **keywords}
    first, answer = recorded(name, one, keywords)
    second, same = recorded(name, other, keywords, first.published)
    assert charges(second) == charges(first)
    assert max(moves(first, second).values()) <= 1 + 1e-9
    np.testing.assert_array_equal(answer, same)


def rows(rng, n, family, *, constant):
    X = np.column_stack([rng.standard_normal((n, 3)) * [1, 1e-3, 1e5] + [0, 3, 0], np.ones(n)])
    X[0, -1] = constant
    y = {
        "logistic": rng.integers(2, size=n),
        "poisson": rng.poisson(0.5, n),
        "multinomial": rng.integers(3, size=n),
    }.get(family, X[:, 0])
    return X, np.array(y, dtype=float)


def replaced(X, y, rng, family):
    """Return the rows with another first row, of signed sizes: about half of the time of a single one."""
    X, y = X.copy(), y.copy()
    X[0, :-1] = rng.choice(SIZES, 3 if rng.random() < 0.5 else 1) * rng.choice([-1, 1], 3)
    allowed = {"logistic": [0.0, 1.0], "poisson": [0.0, 1.0, 1e15], "multinomial": [0.0, 1.0, 2.0]}
    y[0] = rng.choice(allowed.get(family, [*SIZES, -LARGEST_VALUE]))
    return X, y


@pytest.mark.parametrize("constant", [1.0, 0.0, -1e12, LARGEST_VALUE])
@pytest.mark.parametrize("form", FORMS)
def test_no_row_moves_a_release_by_more_than_was_charged(form, constant):
    name, keywords = FORMS[form]
    family = keywords.get("family")
    rng = np.random.default_rng(0)
    mask = rng.random((400, 2)) < 0.8
    mask[0] = True
    X, y = rows(rng, 400, family, constant=constant)
    for _ in range(10):
        one, other = (Sample(*replaced(X, y, rng, family), row_mask=mask, n_replicates=2) for _ in range(2))
        assert_covered(name, keywords, one, other)


@pytest.mark.parametrize("form", ["centers of few rows", "columns of counts", "offset of counts"])
def test_streamed_rows_move_releases_as_held_ones_do(form):
    name, keywords = FORMS[form]
    rng = np.random.default_rng(1)
    X, y = rows(rng, 400, keywords.get("family"), constant=1.0)
    for _ in range(5):
        one, other = replaced(X, y, rng, keywords.get("family")), replaced(X, y, rng, keywords.get("family"))
        assert_covered(name, keywords, Sample(*one), streamed(*other))


@pytest.mark.parametrize(
    "form",
    ["centers and a unit where rows are many", "columns of events where rows are many", "offset of counts"],
)
@pytest.mark.parametrize("others", [1e-6, 1.0, 1e6])
def test_what_is_asked_depends_on_public_numbers_alone(form, others):
    name, keywords = FORMS[form]
    X, y = rows(np.random.default_rng(2), 400, keywords.get("family"), constant=1.0)
    first, _ = recorded(name, Sample(X, y), keywords)
    made, _ = recorded(name, Sample(X * [others, others, others, 1], 0 * y), keywords, first.published)
    assert charges(made) == charges(first)


@pytest.mark.parametrize("value", [np.nan, np.inf, -7.7777e77])
def test_a_refusal_tells_no_offset(value):
    X, y = rows(np.random.default_rng(3), 50, "poisson", constant=1.0)
    X[0, 0] = value
    with pytest.raises(dpalgos.InputError) as refused:
        recorded(COUNTS, Sample(X, y), FORMS["offset of counts"][1])
    assert "7.7" not in str(refused.value)


def streamed(X, y):
    def blocks():
        for start in range(0, len(X), 77):
            yield X[start : start + 77], y[start : start + 77]

    return Sample(blocks)


def test_no_warning_tells_that_a_row_is_large():
    def warned(largest):
        X = np.ones((300, 3), dtype=np.float32)
        X[0, 0] = largest
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorded(LINEAR, Sample(StreamedRows(lambda: iter([(X, np.zeros(300))]), 300)), {})
        return caught

    assert warned(1.0) == warned(1e37) == []
