"""Private sparse regression in two steps: screen once, then fit what was selected (ours).

    S = the s coordinates that :func:`dpalgos.comparators.screened_sparse_glm.screened` selects at once, with
        x_i truncated to ± ½ x_max and y_i to ± ½ R
    M = mean of z_i z_i' + noise,   z_i = w_i (x_i,S , (c/R) y_i),  w_i = min(1, c / ‖x_i,S‖),  |y_i| ≤ R
    β̂_S = (R/c) M_xx⁻¹ M_xy,   β̂ = 0 elsewhere

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` x_max (entries of X
are truncated to ±x_max here), ``response_bound`` R, ``sparsity`` s, ``clip_norm`` c.

    quantity  sensitivity        share  made in                     forms
    scores    2 c₁ L(0)/n        .5     screened                    not rank
    ranks     4/n, later 8/n     .5     _screened_by_rank           rank
    moments   2√2 c²/n           .5     screened_sparse_regression  all

Why it is private. The selection: :mod:`dpalgos.comparators.screened_sparse_glm`, for Gaussian responses with
residuals of at most L(0) = ½ R. Given S, a row z has ‖z_x‖ ≤ c and |z_y| ≤ c, hence ‖z‖² ≤ 2c², and M, in
double precision, moves by at most 2√2 c²/n in Frobenius norm: one Gaussian release of svec(M), an isometry.
The shares of ρ are ``_SELECTION_SHARE`` and the rest; then all noise is scaled down to what is just proved.

Why it is accurate. As there; truncation at half the bounds halves both factors of the selection's
sensitivity. Weights w that depend on x alone leave the coefficients of a linear model what
they are; scaling y to c gives the noise of y's column and of x's columns the same cost. The eigenvalues of
M_xx are floored at the noise's spectral norm, so that unresolved directions shrink to zero. Columns count as
centered.

``screening="rank"`` (DPKendall), for columns that are near copies of each other: one choice after another by

    |τ(x_j, y)| − the mean of |τ(x_j, x_l)| over the columns l chosen before,
    τ(a, b) = Σ_{i<k} sign(a_i − a_k) sign(b_i − b_k) / (n(n − 1)/2),  Kendall's; ties count as 0

which a row moves by 4/n first and by 8/n later (:func:`rank_sensitivity`), s events of bounded range again.
It finds what is cancelled or repeated where ε is about 2 or more; below, and for columns without correlation,
covariances find more. It takes d s rank correlations of n log n steps each.

Reference: Gillenwater, Joseph, Muñoz & Ribero (2023), Better private linear regression through better private
feature selection, for the ranks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import scipy

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import least_noise
from dpalgos.catalog import Form, Published, Witnesses, pair, register
from dpalgos.comparators.screened_sparse_glm import screened
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.mechanisms.top_k import SparseRelease, coordinates_left, gumbel_top_k
from dpalgos.models.families import get_family
from dpalgos.params import PrivateParams, choice, count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.steps.clipping import truncate
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import FloatArray, IntArray

_SELECTION_SHARE = 0.5
_SELECTION_LEVEL = 0.5  # of covariate_bound and of response_bound
_RESPONSE = -1  # stands for the response among the numbers of columns


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
    screening: str = choice(
        "'covariance', of truncated entries; 'rank' for columns that are near copies of each other",
        ("covariance", "rank"),
        default="covariance",
    )


def witnesses(params: ScreenedSparseRegressionParams, d: int, published: Published) -> Witnesses:
    """Return rows of opposite covariates, and orthogonal rows z on the selected coordinates."""
    ones, row, response = np.full(d, params.covariate_bound), np.zeros(d), params.response_bound
    chosen = published[0][:, 0].astype(int)
    if params.screening == "rank":  # each release is a place among the columns that are left
        left = list(range(d))
        chosen = np.array([left.pop(int(place[0, 0])) for place in published[: params.sparsity]])
    row[chosen] = _clip_norm(params) / np.sqrt(params.sparsity)
    # z = c (u, 1) and z' = c (u, −1) with a unit vector u are orthogonal.
    rising = np.arange(8.0)
    fallen = np.append(rising[:-1], -1.0)
    ranks = (np.repeat(rising[:, None], d, axis=1), rising, np.repeat(rising[:, None], d, axis=1), fallen)
    return {
        "scores": pair(ones, -ones, response),
        "ranks": ranks,
        "moments": pair(row, row, response, -response),
    }


@register(
    title="Screen, then fit",
    order=15,
    task="linear_regression",
    reference="ours; one private selection, then private second moments",
    summary="Selects columns once by their covariance with the response, then fits them by noisy moments.",
    no_interval="a support that was selected is not the one that a new sample would select",
    calibrations=("tight",),
    example={"covariate_bound": 1.0, "response_bound": 3.0, "sparsity": 2},
    witnesses=witnesses,
    forms={"rank": Form(keywords={"screening": "rank"}, in_memory=True)},
)
def screened_sparse_regression(
    sample: Sample, params: ScreenedSparseRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the sparse coefficients, (d, R)."""
    sparsity = check_how_many("sparsity", params.sparsity, sample.n_features)
    selection, release = planned_multipliers(params.epsilon, params.delta, sparsity)
    if params.screening == "rank":
        support = _screened_by_rank(sample, sparsity, selection, transcript)
    else:
        family = get_family("gaussian", response_bound=_SELECTION_LEVEL * params.response_bound)
        bound = _SELECTION_LEVEL * params.covariate_bound
        support = screened(transcript, sample, family, bound, (sparsity,), (selection,))
    clip_norm = _clip_norm(params)
    sensitivity = outer_product(np.sqrt(2) * clip_norm, sample.n_rows)
    released = transcript.gaussian(
        svec(_selected_moments(sample, support, clip_norm, params)),
        l2_sensitivity=sensitivity,
        noise_multiplier=release,
        label="moments",
    )
    coef, floored = _solve(unsvec(released, sparsity + 1), release * sensitivity)
    transcript.note("unresolved_directions", floored)
    values = params.response_bound / clip_norm * coef
    return SparseRelease(support=support, values=values, n_features=sample.n_features).dense()


def _screened_by_rank(
    sample: Sample, sparsity: int, noise_multiplier: float, transcript: Transcript
) -> IntArray:
    """Return coordinates chosen one after another by their noisy ranks, (s, R)."""
    masks = sample.row_mask

    @cache
    def ranks_of(chosen: int, replicate: int) -> FloatArray:
        """Return |τ| of every column with one of them, or with the response, (d,)."""
        rows = slice(None) if masks is None else masks[:, replicate]
        X = sample.X[rows]
        other = sample.response()[rows] if chosen == _RESPONSE else X[:, chosen]
        return np.array([abs(kendall_tau(column, other)) for column in X.T])

    def ranks(chosen: Iterable[int]) -> FloatArray:
        """Return |τ(x_j, x_l)| for a column l per replicate, (d, R)."""
        return np.stack(
            [ranks_of(int(one), 0 if masks is None else r) for r, one in enumerate(chosen)], axis=1
        )

    scores = ranks([_RESPONSE] * sample.n_replicates)
    support: IntArray = np.empty((0, sample.n_replicates), dtype=np.intp)
    alike = np.zeros_like(scores)
    for n_chosen in range(sparsity):
        candidates = coordinates_left(support, sample.n_features)
        place = gumbel_top_k(
            transcript,
            np.take_along_axis(scores - alike / max(n_chosen, 1), candidates, axis=0),
            sensitivity=rank_sensitivity(n_chosen, sample.n_rows),
            noise_multiplier=noise_multiplier,
            k=1,
            label="ranks",
        )
        chosen = np.take_along_axis(candidates, place, axis=0)
        support = np.concatenate([support, chosen])
        if n_chosen + 1 < sparsity:
            alike += ranks(chosen[0])
    return support


def rank_sensitivity(n_chosen: int, n_rows: FloatArray) -> FloatArray:
    """Return 4/n, by which a row moves |τ(x_j, y)|, and 8/n where the mean of other |τ| is subtracted.

    A row is in n − 1 pairs, each of which goes from −1 to 1 at most, of n(n − 1)/2; attained by the largest
    of rows in one order, whose second entry becomes the least. Twice that where a column's order with y and
    with those chosen before both change.
    """
    return np.asarray((2 if n_chosen else 1) * (4 / n_rows))


@lru_cache(maxsize=4096)
def planned_multipliers(epsilon: float, delta: float, sparsity: int) -> tuple[float, float]:
    """Return the least multipliers of the selection and of the moments that are together (ε, δ)-DP."""
    shares = {"selection": _SELECTION_SHARE, "moments": 1 - _SELECTION_SHARE}
    noise = least_noise(
        SplitBudget(epsilon=epsilon, delta=delta, shares=shares, gaussian=False),
        selections={"selection": sparsity},
        gaussians={"moments": 1},
    )
    return 2 / noise["selection"], noise["moments"]


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


def kendall_tau(first: FloatArray, second: FloatArray) -> float:
    """Return τ of two columns (n,); scipy divides by the pairs without ties, which is undone here."""
    pairs = len(first) * (len(first) - 1) / 2
    sizes = (np.unique(column, return_counts=True)[1].astype(float) for column in (first, second))
    untied = [pairs - float((counts * (counts - 1.0)).sum()) / 2 for counts in sizes]
    if min(untied) <= 0:
        return 0.0
    return float(scipy.stats.kendalltau(first, second).statistic * np.sqrt(np.prod(untied)) / pairs)
