import numpy as np
import pytest

import dpalgos
from dpalgos.models.families import family_names, get_family

CONSTANTS = {
    "gaussian": {"response_bound": 2.0},
    "logistic": {},
    "poisson": {"response_bound": 4.0},
    "multinomial": {"n_classes": 3},
}
RESPONSES = {
    "gaussian": np.array([-3.0, 0.0, 1.5]),
    "logistic": np.array([0.0, 1.0, 1.0]),
    "poisson": np.array([0.0, 2.0, 30.0]),
    "multinomial": np.array([0.0, 1.0, 2.0]),
}
every = pytest.mark.parametrize("name", family_names())


def made(name):
    return get_family(name, **CONSTANTS[name])


def predictors(family, n=3, n_replicates=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, *family.classes, n_replicates))


@every
def test_derivatives_of_the_loss(name):
    family, step = made(name), 1e-6
    unclipped = get_family(name, **{k: v for k, v in CONSTANTS[name].items() if k == "n_classes"})
    u, y = predictors(family), family.encode(RESPONSES[name])
    for k in range(family.classes[0] if family.classes else 1):
        moved = np.zeros_like(u)
        moved[(slice(None), k) if family.classes else ...] = step
        slope = (unclipped.loss(u + moved, y) - unclipped.loss(u - moved, y)) / (2 * step)
        bend = (unclipped.residual(u + moved, y) - unclipped.residual(u - moved, y)) / (2 * step)
        residual, second = unclipped.residual(u, y), unclipped.second_derivative(u)
        if family.classes:
            residual, second = residual[:, k], second[:, :, k]
        np.testing.assert_allclose(slope, residual, atol=1e-7)
        np.testing.assert_allclose(bend, second, atol=1e-6)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_and_of_the_given_precision(name, dtype):
    family = made(name)
    y = family.encode(RESPONSES[name].astype(dtype))
    for size in (1.0, 80.0, 1e4, 1e15):
        u = (size * predictors(family)).astype(dtype)
        with np.errstate(over="raise", invalid="raise"):
            values = [family.mean(u), family.second_derivative(u), family.residual(u, y)]
            values += [family.loss(u, y), family.deviance(u, y), family.log_partition(u)]
        for value in values:
            assert value.dtype == dtype
            assert np.isfinite(value).all()


@every
def test_residuals_keep_their_bound(name):
    family = made(name)
    y = family.encode(RESPONSES[name])
    for size in (0.1, 1.0, 10.0, 1e6):
        u = size * predictors(family)
        residual = family.residual(u, y)
        norm = np.linalg.norm(residual, axis=1) if family.classes else np.abs(residual)
        assert norm.max() <= family.residual_bound
        spread = np.ptp(u, axis=1).max() if family.classes else np.abs(u).max()
        assert norm.max() <= family.largest_residual(spread) * (1 + 1e-12)
        assert family.largest_residual(spread) <= family.residual_bound


@every
def test_the_radius_covers_all_pairs_of_gradients(name):
    """Global search over pairs of rows and responses; the logistic one must also be reached."""
    family, rng = made(name), np.random.default_rng(1)
    labels = {"gaussian": [-1e3, 1e3], "logistic": [0.0, 1.0], "poisson": [0.0, 1.0, 1e3]}
    y = family.encode(np.array(labels.get(name, [0.0, 1.0, 2.0])))
    for b in (0.0, 0.5, 2.0, 20.0, 500.0):
        coef = rng.standard_normal((2, *family.classes, 1))
        coef *= b / max(float(family.predictor_norm(coef, 2)[0]), 1e-300)
        angle = np.linspace(-np.pi, np.pi, 721)
        rows = np.column_stack([np.cos(angle), np.sin(angle)])
        u = np.einsum("nd,d...->n...", rows, coef)
        gradients = np.concatenate(
            [np.einsum("nd,n...->nd...", rows, family.residual(u, y[[k]])) for k in range(len(y))]
        ).reshape(len(y) * len(rows), -1)
        squares = (gradients**2).sum(axis=1)
        apart = squares[:, None] + squares[None] - 2 * gradients @ gradients.T
        radius = np.sqrt(apart.max()) / 2
        bound = float(family.gradient_radius(float(family.predictor_norm(coef, 2)[0])))
        assert radius <= bound * (1 + 1e-9)
        if name != "multinomial" or b == 0:
            assert radius >= 0.999 * bound


@every
def test_identified_coefficients_mean_the_same(name):
    family = made(name)
    coef = np.random.default_rng(0).standard_normal((4, *family.classes, 2))
    X = np.random.default_rng(1).standard_normal((5, 4))
    before, after = (np.einsum("nd,d...->n...", X, c) for c in (coef, family.identified(coef)))
    np.testing.assert_allclose(family.mean(before), family.mean(after), atol=1e-12)
    if family.classes:
        np.testing.assert_allclose(family.identified(coef).sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "bad", "allowed"),
    [
        ("logistic", -1.0, "0 or 1"),
        ("logistic", 0.5, "0 or 1"),
        ("poisson", -1.0, "whole numbers of at least 0"),
        ("poisson", 1.5, "whole numbers of at least 0"),
        ("multinomial", 3.0, "classes 0, 1, … up to n_classes - 1"),
        ("multinomial", -7.25, "classes"),
    ],
)
def test_labels_outside_the_family_are_refused_and_not_shown(name, bad, allowed):
    y = RESPONSES[name].copy()
    y[1] = bad
    with pytest.raises(dpalgos.InputError, match=f"y must hold {allowed}") as caught:
        made(name).encode(y)
    assert str(bad) not in str(caught.value)
