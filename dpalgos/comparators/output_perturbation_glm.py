"""Output perturbation for generalized linear models: noise on the regularized minimum.

    θ̂ = argmin_θ (1/n) Σ_i loss(x_i'θ, y_i) + (Λ/2) ‖θ‖²;   released: θ̂ + N(0, σ² I)

    release    sensitivity (ℓ2)    share of μ²
    minimum    2 (L/n + γ)/Λ       1

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` c_x (rows are clipped to that
ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped to ± that: Huber's loss),
``ridge`` Λ, n.

Why it is private. A row's gradient r x with |r| ≤ R has norm at most L = R c_x. At the minimum of one dataset
the gradient of a neighbor's risk therefore has norm at most 2L/n. This risk is Λ-strongly convex, so its own
minimum is at most 2L/(nΛ) away. The solver is deterministic. It stops if the norm of the gradient is at most
γ = L max(10⁻⁴/n, 10⁻¹⁴), which is within γ/Λ of the minimum. Otherwise it refuses. Two released minima
therefore differ by at most :func:`minimum_sensitivity`. Whether the solver refuses depends on the rows,
because Newton's steps can cycle between the corners of Huber's loss. The refusal is outside the guarantee,
so ``dpcost release`` does not offer this estimator.

Calibration: ``tight`` only, Gaussian noise of z1(ε, δ) times the sensitivity. The paper's noise, of density
∝ exp(−nΛε ‖b‖ / 2L), satisfies pure ε-DP and is larger in most dimensions.

Ridge: a small Λ needs much noise, and a large one biases the estimate. In studies with ``"by forecast"``,
:func:`best_ridge` takes the Λ with the smallest forecast error on synthetic tables from public guesses.

Reference: Chaudhuri, Monteleoni & Sarwate (2011), Differentially private empirical risk minimization,
Algorithm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import register
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, lemma
from dpalgos.models.estimators import FamilyEstimator
from dpalgos.models.families import Family, check_labels
from dpalgos.models.ridge import reached_minimum
from dpalgos.params import count, positive
from dpalgos.rows.products import clip_rows_l2
from dpalgos.tuning.descent import ClippedLoss, Course, SyntheticTable
from dpalgos.typing import FloatArray, Number

_RIDGES = np.array([0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5])  # that a forecast tries
_CLOSE, _FINEST = 1e-4, 1e-14  # gradient where the solver may end, in units of a row's over n, and of a row's


MINIMUM = "minimum"


@lemma("2 (L/n + γ)/Λ")
def minimum_sensitivity(gradient_bound: float, ridge: float, n_rows: Number) -> FloatArray:
    """Return 2 (L/n + γ) / Λ: opposite rows whose gradients stay L long, and the solver's two errors."""
    return np.asarray(2 * (gradient_bound / n_rows + solver_tolerance(gradient_bound, n_rows)) / ridge)


def solver_tolerance(gradient_bound: float, n_rows: Number) -> FloatArray:
    return np.asarray(gradient_bound * np.maximum(_CLOSE / n_rows, _FINEST))


@register(
    name="output_perturbation_glm",
    title="Output perturbation",
    order=43,
    task="glm",
    reference="Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 1, with Gaussian noise",
    summary="Adds noise to the minimum of the regularized risk.",
    no_release="whether its solver reaches the minimum depends on the rows, and a refusal would tell; take "
    "preconditioned_glm or dp_glm",
    no_interval="the curvature at the minimum is not released; use preconditioned_glm",
    calibrations=("tight",),
    example={"family": "gaussian", "covariate_bound": 2.0, "response_bound": 2.0, "ridge": 0.01},
    check_data=check_labels,
    public="response_bound for Gaussian responses",
)
@dataclass(frozen=True, kw_only=True)
class OutputPerturbationGLM(FamilyEstimator):
    """The minimum of the regularized risk with Gaussian noise."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    ridge: float = positive("Λ: weight of ‖θ‖²/2 next to the mean loss")
    n_iterations: int = count(
        "the most Newton steps; nothing is released if they do not suffice", default=100
    )

    batch = True
    by_forecast = ("ridge",)
    lemmas: ClassVar[Lemmas] = {MINIMUM: minimum_sensitivity}

    def plan(self, n: float, d: int) -> Plan:
        return gaussian_plan(self.epsilon, self.delta, {MINIMUM: Share(1.0)})

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        family, sample = self.family_object(), rows.sample
        gradient_bound = family.residual_bound * self.covariate_bound
        minimum = reached_minimum(
            family,
            rows,
            {
                "row_bound": self.covariate_bound,
                "ridge": np.full(sample.n_replicates, self.ridge),
                "tilt": np.zeros((sample.n_features, sample.n_replicates)),
            },
            solver_tolerance(gradient_bound, sample.n_rows),
            n_iterations=self.n_iterations,
        )
        query = minimum_sensitivity.of(rows.by_replicate(minimum), gradient_bound, self.ridge, rows.n)
        return spend(MINIMUM, query).value

    def forecast_settings(self, tables: Sequence[SyntheticTable], n_rows: int) -> dict[str, float]:
        return {"ridge": best_ridge(self, tables, n_rows)}


def best_ridge(estimator: OutputPerturbationGLM, tables: Sequence[SyntheticTable], n_rows: int) -> float:
    """Return the Λ with the smallest forecast error, a geometric mean over tables.

    A ridge takes the fixed point b along an eigenvalue λ of the curvature to b λ/(λ + Λ).
    """
    family, errors = estimator.family_object(), []
    z = 1 / gaussian_mu(estimator.epsilon, estimator.delta)
    gradient_bound = family.residual_bound * estimator.covariate_bound
    for table in tables:
        course = _course(table, family, estimator.covariate_bound)
        mean = course.fixed_point * course.curvature / (course.curvature + _RIDGES[:, None])
        noise = z * 2 * gradient_bound / (n_rows * _RIDGES)
        bias = mean @ course.to_target.T - course.target
        errors.append(np.log((bias**2).sum(axis=1) + noise**2 * (course.to_target**2).sum()))
    return float(_RIDGES[np.mean(errors, axis=0).argmin()])


@lru_cache(maxsize=32)
def _course(table: SyntheticTable, family: Family, covariate_bound: float) -> Course:
    """Return the course of a descent on clipped rows, which is the same at every budget."""
    rows = clip_rows_l2(table.X, covariate_bound)
    return Course.of(table, ClippedLoss(rows, family, table.y, family.residual_bound))
