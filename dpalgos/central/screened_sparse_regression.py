"""Private sparse regression in two steps: screen once, then fit the selected columns (ours).

    S = the s coordinates that :func:`dpalgos.central.screened_sparse_glm.screened` selects at once, with
        x_i truncated to ± ½ x_max and y_i to ± ½ R
    M = mean of z_i z_i' + noise,   z_i = w_i (x_i,S , (c/R) y_i),  w_i = min(1, c / ‖x_i,S‖),  |y_i| ≤ R
    β̂_S = (R/c) M_xx⁻¹ M_xy,   β̂ = 0 elsewhere

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

import numpy as np

from dpalgos.accounting.calibration import least_noise, split_plan
from dpalgos.catalog import Release, register
from dpalgos.cautions import UNRESOLVED
from dpalgos.central.screened_sparse_glm import SCORES, screened
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.mechanisms.top_k import SparseRelease
from dpalgos.models.families import get_family
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray, IntArray

_SELECTION_LEVEL = 0.5  # of covariate_bound and of response_bound


@dataclass(frozen=True, kw_only=True)
class ScreenedSparseRegressionParams(PrivateParams):
    """Keywords of :func:`screened_sparse_regression`."""

    covariate_bound: float = positive("x_max: entries of X are truncated to ± this bound")
    response_bound: float = positive("R: responses are truncated to ±R")
    sparsity: int = count("s, number of non-zero coefficients")
    clip_norm: float | None = positive(
        "c: selected rows are scaled down to this ℓ2 norm; None: 1.05 √(s/3) covariate_bound, just above the "
        "typical norm of uniform entries",
        default=None,
    )


MOMENTS = Release("moments", outer_product)


@register(
    title="Screen, then fit",
    order=15,
    task="linear_regression",
    reference="ours; one private selection, then private second moments",
    summary="Selects columns once by their covariance with the response, then fits them by noisy moments.",
    no_interval="a support that was selected is not the one that a new sample would select",
    calibrations=("tight",),
    example={"covariate_bound": 1.0, "response_bound": 3.0, "sparsity": 2},
    releases=(SCORES, MOMENTS),
)
def screened_sparse_regression(
    sample: Sample, params: ScreenedSparseRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the sparse coefficients, (d, R)."""
    sparsity = check_how_many("sparsity", params.sparsity, sample.n_features)
    budget = params.split_budget({SCORES.label: 0.5, MOMENTS.label: 0.5}, gaussian=False)
    plan = split_plan(budget, selected={SCORES.label: sparsity}, released={MOMENTS.label: 1})
    noise = least_noise(plan)
    selection = 2 / noise.epsilon_of(SCORES.label)
    family = get_family("gaussian", response_bound=_SELECTION_LEVEL * params.response_bound)
    bound = _SELECTION_LEVEL * params.covariate_bound
    support = screened(transcript, sample, family, bound, (sparsity,), (selection,))
    clip_norm = _clip_norm(params)
    spend = Spend(transcript, noise.released)
    moments = _selected_moments(sample, support, clip_norm, params)
    released, std = spend.symmetric(MOMENTS, outer_product.of(moments, np.sqrt(2) * clip_norm, sample.n_rows))
    coef, floored = _solve(released, std)
    transcript.note(UNRESOLVED, floored)
    values = params.response_bound / clip_norm * coef
    return SparseRelease(support=support, values=values, n_features=sample.n_features).dense()


def _clip_norm(params: ScreenedSparseRegressionParams) -> float:
    largest = float(np.sqrt(params.sparsity)) * params.covariate_bound
    return largest * 1.05 / np.sqrt(3) if params.clip_norm is None else min(params.clip_norm, largest)


def _selected_moments(
    sample: Sample, support: IntArray, clip_norm: float, params: ScreenedSparseRegressionParams
) -> FloatArray:
    sparsity, n_replicates = support.shape
    design = Design(sample, params.covariate_bound)
    y = clip_norm / params.response_bound * truncate(sample.response(), params.response_bound)
    moments = np.empty((n_replicates, sparsity + 1, sparsity + 1))
    for r in range(n_replicates):
        rows = slice(None) if sample.row_mask is None else sample.row_mask[:, r]
        Z = np.column_stack([design.columns(support[:, r]), y])[rows]
        Z *= clip_norm / np.maximum(np.linalg.norm(Z[:, :-1], axis=1, keepdims=True), clip_norm)
        moments[r] = Z.T @ Z / sample.n_rows[r]
    return moments


def _solve(moments: FloatArray, diagonal_std: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (s, R) and how many eigenvalues were floored (R,)."""
    s = moments.shape[-1] - 1
    eigenvalues, vectors = np.linalg.eigh(moments[:, :s, :s])
    # The noise matrix has spectral norm about √(2s) of its diagonal standard deviation.
    floor = (1.2 * np.sqrt(s) * diagonal_std)[:, None]
    inverse = 1 / np.maximum(eigenvalues, floor)
    projected = np.einsum("rji,rj->ri", vectors, moments[:, :s, s])
    coef = np.einsum("rij,rj->ir", vectors, inverse * projected)
    return coef, (eigenvalues < floor).sum(axis=1).astype(float)
