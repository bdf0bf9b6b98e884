"""The ℓ1-penalized generalized linear model, by scikit-learn: the comparator that most people would take.

    β̂ = argmin_β (1/n) Σ_i loss(x_i'β, y_i) + λ ‖β‖₁

Gaussian responses by coordinate descent (`sklearn.linear_model.Lasso`), logistic ones by liblinear
(`sklearn.linear_model.LogisticRegression`), to scikit-learn's own precision. No intercept is added; a
constant column is penalized like any other. Replicates are fitted one after another.

References
----------
Tibshirani (1996), Regression shrinkage and selection via the lasso. Fan et al. (2008), LIBLINEAR.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.errors import InputError
from dpalgos.families import Family, check_labels, get_family
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.params import Params, choice, count, positive
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class L1GLMParams(Params):
    """Keywords of :func:`l1_glm`."""

    family: str = choice("distribution of the responses given their mean", ("gaussian", "logistic"))
    l1_penalty: float = positive("λ, in units of a row's loss")
    n_iterations: int = count("the most passes of the solver", default=1000)

    def made(self) -> Family:
        """Return the family."""
        return get_family(self.family)


@register(
    name="l1_glm",
    title="ℓ1 penalty (scikit-learn)",
    order=22,
    task="glm",
    relation=None,
    reference="Tibshirani (1996); scikit-learn's solvers",
    summary="The lasso, or logistic regression with an ℓ1 penalty, without privacy.",
    parameters=L1GLMParams,
    example={"family": "gaussian", "l1_penalty": 1e-6},
)
def l1_glm(sample: Sample, params: L1GLMParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    if sample.row_mask is None and sample.n_replicates > 1:  # the replicates do not differ
        return np.repeat(l1_glm(sample.once(), params, transcript), sample.n_replicates, axis=1)
    check_labels(sample, params)
    rows, y = sample.rows.array(), sample.response()
    coef: FloatArray = np.empty((sample.n_features, sample.n_replicates))
    for r in range(sample.n_replicates):
        used = slice(None) if sample.row_mask is None else sample.row_mask[:, r]
        coef[:, r] = _fitted(rows[used].astype(float), y[used], params)
    return coef


def _fitted(X: FloatArray, y: FloatArray, params: L1GLMParams) -> FloatArray:
    # Most of a second to import, and most runs do without.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso, LogisticRegression

    model: Lasso | LogisticRegression
    if params.family == "gaussian":
        model = Lasso(alpha=params.l1_penalty, fit_intercept=False, max_iter=params.n_iterations)
    elif y.min() == y.max():
        raise InputError(
            "y must hold both labels for family='logistic' with liblinear, got one; add rows, or take iht_glm"
        )
    else:
        model = LogisticRegression(
            l1_ratio=1,
            solver="liblinear",
            C=1 / (params.l1_penalty * len(X)),
            fit_intercept=False,
            max_iter=params.n_iterations,
            random_state=0,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough to compare with
        model.fit(X, y)
    return np.asarray(model.coef_, dtype=float).reshape(-1)
