"""Private sparse regression in two steps: screen once, then fit the selected columns (ours).

    S = the s coordinates that :func:`dpalgos.central.screened_sparse_glm.screened` selects at once, with
        x_i truncated to ± ½ x_max and y_i to ± ½ R
    M = mean of z_i z_i' + noise,   z_i = w_i (x_i,S , (c/R) y_i),  w_i = min(1, c / ‖x_i,S‖),  |y_i| ≤ R
    β̂_S = (R/c) M_xx⁻¹ M_xy,   β̂ = 0 elsewhere

    release    sensitivity (ℓ2)        share of ρ
    scores     ½ x_max R/n (ℓ∞)        ½
    moments    2√2 c²/n                ½

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` x_max (entries of X
are truncated to ±x_max here), ``response_bound`` R, ``sparsity`` s, ``clip_norm`` c.

Why it is private. The proof of the selection is that of :mod:`dpalgos.central.screened_sparse_glm`, for
Gaussian responses with residuals of at most L(0) = ½ R. Given S, a row z has ‖z_x‖ ≤ c and |z_y| ≤ c, so ‖z‖²
≤ 2c². M, in double precision, moves by at most 2√2 c²/n in Frobenius norm: one Gaussian release of svec(M).
The two share ρ evenly. All noise is then scaled down to what is just proved.

Why it is accurate. Truncation at half the bounds halves both factors of the selection's sensitivity. Weights
w that depend on x alone do not change the coefficients of a linear model. y is scaled to c: then the noise of
its column and of x's columns cost the same. Eigenvalues of M_xx are at least the noise's spectral norm.
Unresolved directions therefore shrink to zero. Columns count as centered.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Selection
from dpalgos.catalog import register
from dpalgos.cautions import UNRESOLVED
from dpalgos.central.noisy_iht import dense
from dpalgos.central.screened_sparse_glm import SCORES, screened
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean, outer_product
from dpalgos.models.families import get_family
from dpalgos.params import check_how_many, count, positive
from dpalgos.rows.products import truncate
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray, IntArray, Number

MOMENTS = "moments"
_SELECTION_LEVEL = 0.5  # of covariate_bound and of response_bound


@register(
    name="screened_sparse_regression",
    title="Screen, then fit",
    order=15,
    task="linear_regression",
    reference="ours; one private selection, then private second moments",
    summary="Selects columns once by their covariance with the response, then fits them by noisy moments.",
    no_interval="a support that was selected is not the one that a new sample would select",
    calibrations=("tight",),
    example={"covariate_bound": 1.0, "response_bound": 3.0, "sparsity": 2},
)
@dataclass(frozen=True, kw_only=True)
class ScreenedSparseRegression(PrivateEstimator):
    """Least squares on columns that are selected once by their covariance with the response."""

    covariate_bound: float = positive("x_max: entries of X are truncated to ± this bound")
    response_bound: float = positive("R: responses are truncated to ±R")
    sparsity: int = count("s, number of non-zero coefficients")
    clip_norm: float | None = positive(
        "c: selected rows are scaled down to this ℓ2 norm; None: 1.05 √(s/3) covariate_bound, just above the "
        "typical norm of uniform entries",
        default=None,
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {SCORES: ball_mean, MOMENTS: outer_product}

    def plan(self, n: float, d: int) -> Plan:
        selection = Selection(1.0, count=check_how_many("sparsity", self.sparsity, d), by_magnitude=True)
        shares: dict[str, tuple[float, Event]] = {SCORES: (0.5, selection), MOMENTS: (0.5, Gaussian(1.0))}
        return least_noise_plan(self.epsilon, self.delta, concentrated_plan(self.epsilon, self.delta, shares))

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        family = get_family("gaussian", response_bound=_SELECTION_LEVEL * self.response_bound)
        support = screened(rows, spend, family, _SELECTION_LEVEL * self.covariate_bound, [SCORES])
        moments = _selected_moments(rows.sample, rows.by_column(support), self)
        moments = moments if rows.is_batch else moments[0]
        released, std = spend.symmetric(MOMENTS, outer_product.of(moments, np.sqrt(2) * self.radius, rows.n))
        coef, floored = _solve(released, std)
        spend.note(UNRESOLVED, floored)
        return dense(support, self.response_bound / self.radius * coef, rows.d)

    @property
    def radius(self) -> float:
        """c, at most the largest norm of a selected row."""
        largest = float(np.sqrt(self.sparsity)) * self.covariate_bound
        return largest * 1.05 / np.sqrt(3) if self.clip_norm is None else min(self.clip_norm, largest)


def _selected_moments(sample: Sample, support: IntArray, params: ScreenedSparseRegression) -> FloatArray:
    (sparsity, n_replicates), clip_norm = support.shape, params.radius
    design = Design(sample, params.covariate_bound)
    y = clip_norm / params.response_bound * truncate(sample.response(), params.response_bound)
    moments = np.empty((n_replicates, sparsity + 1, sparsity + 1))
    for r in range(n_replicates):
        rows = slice(None) if sample.row_mask is None else sample.row_mask[:, r]
        Z = np.column_stack([design.columns(support[:, r]), y])[rows]
        Z *= clip_norm / np.maximum(np.linalg.norm(Z[:, :-1], axis=1, keepdims=True), clip_norm)
        moments[r] = Z.T @ Z / sample.n_rows[r]
    return moments


def _solve(moments: FloatArray, diagonal_std: Number) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (…, s) and how many eigenvalues were floored (…,)."""
    s = moments.shape[-1] - 1
    eigenvalues, vectors = np.linalg.eigh(moments[..., :s, :s])
    # The noise matrix has spectral norm about √(2s) of its diagonal standard deviation.
    floor = 1.2 * np.sqrt(s) * np.asarray(diagonal_std)[..., None]
    inverse = 1 / np.maximum(eigenvalues, floor)
    projected = np.einsum("...ji,...j->...i", vectors, moments[..., :s, s])
    coef = np.einsum("...ij,...j->...i", vectors, inverse * projected)
    return coef, (eigenvalues < floor).sum(axis=-1).astype(float)
