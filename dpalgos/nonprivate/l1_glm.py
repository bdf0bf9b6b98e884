"""The ℓ1-penalized generalized linear model, by scikit-learn: the most common comparator.

    β̂ = argmin_β (1/n) Σ_i loss(x_i'β, y_i) + λ ‖β‖₁

Only columns in use and those of the steepest gradients are fitted, by Newton steps, each a lasso of weighted
rows. Then one pass computes the gradients of all columns for all replicates, and more columns are let in. The
end is reached if every gradient balances the penalty to a thousandth of λ: |∂_j| ≤ 1.001 λ where β_j = 0, and
within 0.001 λ of ∓λ elsewhere. No intercept is added.

Reference: Tibshirani (1996), Regression shrinkage and selection via the lasso. Friedman, Hastie & Tibshirani
(2010), Regularization paths for generalized linear models via coordinate descent.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.core.estimator import PublicEstimator
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.models.families import Family, check_labels, get_family
from dpalgos.models.risk import wide_gradient
from dpalgos.params import choice, count, positive
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray

TOLERANCE = 1e-3  # of λ, to which gradients balance it
_FIRST_COLUMNS = 50
_MOST_ROUNDS, _MOST_STEPS, _MOST_HALVINGS = 100, 50, 30
_LEAST_WEIGHT = 1e-6  # of a row in a Newton step, where its curvature vanishes
_PRECISION = 1e-10  # of a lasso, well below what a Newton step leaves


@register(
    name="l1_glm",
    title="ℓ1 penalty (scikit-learn)",
    order=22,
    task="glm",
    relation=None,
    reference="Tibshirani (1996); scikit-learn's lasso",
    summary="The lasso, or logistic regression with an ℓ1 penalty, without privacy.",
    example={"family": "gaussian", "l1_penalty": 1e-6},
    in_memory=True,
)
@dataclass(frozen=True, kw_only=True)
class L1GLM(PublicEstimator):
    """The lasso, or logistic regression with an ℓ1 penalty."""

    family: str = choice("distribution of the responses given their mean", ("gaussian", "logistic"))
    l1_penalty: float = positive("λ, in units of a row's loss")
    n_iterations: int = count("the most passes of a lasso over its columns", default=10_000)

    batch = True

    def family_object(self) -> Family:
        return get_family(self.family)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        return rows.by_replicate(self._coefficients(rows.sample))

    def _coefficients(self, sample: Sample) -> FloatArray:
        """Return the coefficients of each replicate, (d, R)."""
        check_labels(sample, self)
        family, penalty, y = self.family_object(), self.l1_penalty, sample.response()
        gradient_at = wide_gradient(sample, Design(sample), family)
        coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
        for _ in range(_MOST_ROUNDS):
            gradient = gradient_at(coef)
            unbalanced = np.flatnonzero(_imbalance(gradient, coef, penalty).max(axis=0) > TOLERANCE * penalty)
            if not len(unbalanced):
                return coef
            for r in unbalanced:
                n_columns = max(_FIRST_COLUMNS, 2 * np.count_nonzero(coef[:, r]))
                first = np.where(coef[:, r] != 0, np.inf, np.abs(gradient[:, r]))
                columns = np.sort(np.argsort(-first, kind="stable")[:n_columns])
                used = slice(None) if sample.row_mask is None else np.flatnonzero(sample.row_mask[:, r])
                own = np.array(sample.rows.array()[:, columns][used], dtype=float, order="F")
                coef[columns, r] = _fitted(own, y[used], coef[columns, r], family, self)
        raise InputError(
            f"n_iterations must let the solver balance the penalty, got {self.n_iterations}; raise it, or "
            "l1_penalty"
        )


def _imbalance(gradient: FloatArray, coef: FloatArray, penalty: float) -> FloatArray:
    """Return by how much gradients miss ∓λ, or exceed it where a coefficient is zero."""
    return np.where(coef == 0, np.abs(gradient) - penalty, np.abs(gradient + penalty * np.sign(coef)))


def _fitted(X: FloatArray, y: FloatArray, start: FloatArray, family: Family, params: L1GLM) -> FloatArray:
    """Return the coefficients of some columns, by Newton steps from ``start``."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    model = Lasso(
        alpha=params.l1_penalty,
        fit_intercept=False,
        precompute=True,
        warm_start=True,
        max_iter=params.n_iterations,
        tol=_PRECISION,
    )
    coef, labels = start, family.encode(y)

    def objective(coef: FloatArray, predictor: FloatArray) -> float:
        return float(family.loss(predictor, labels).mean() + params.l1_penalty * np.abs(coef).sum())

    predictor = (X @ coef)[:, None]
    current = objective(coef, predictor)
    for _ in range(_MOST_STEPS):
        residual = family.residual(predictor, labels)
        gradient = X.T @ residual[:, 0] / len(X)
        if _imbalance(gradient, coef, params.l1_penalty).max() <= TOLERANCE / 2 * params.l1_penalty:
            break
        weight = np.sqrt(np.maximum(family.second_derivative(predictor), _LEAST_WEIGHT))
        model.coef_ = coef.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the balance is what counts
            model.fit(weight * X, (weight * predictor - residual / weight)[:, 0])
        step = model.coef_ - coef
        along = (X @ step)[:, None]
        for _ in range(_MOST_HALVINGS):
            after = objective(coef + step, predictor + along)
            if after <= current:
                break
            step, along = step / 2, along / 2
        coef, predictor, current = coef + step, predictor + along, after
    return coef
