"""DP-SGD for generalized linear models, over batches that take turns (after Abadi et al. 2016).

    β ← β − η [ (1/n_b) Σ_{i in batch b} (ψ'(x_i'β) − y_i) x_i + w_t ],   b = 1 … B in turn, E epochs

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``family``, ``covariate_bound`` c_x (rows are
clipped to that ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped to ± that),
``n_batches`` B, ``n_epochs`` E, ``step_size`` η, n. Row i belongs to batch i mod B.

Why it is private: a row's gradient is no longer than L = R c_x with |residual| ≤ R, and a row moves its
batch's mean by 2L/n_b at most (:func:`batch_sensitivity`). β is post-processing of the steps before it. A row
has a part in one batch, hence in E of the E B releases: batches are disjoint groups of people, whose costs do
not add up. E releases with one noise multiplier z are exactly one Gaussian release with multiplier z/√E.

Calibration: ``tight`` only, z = √E z1(ε, δ).

Departure: the batches of the paper are Poisson samples, whose randomness amplifies privacy; here they are
fixed parts of the rows, and nothing is amplified. Gradients are bounded by clipping rows, not by their own
norm.

References
----------
Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar & Zhang (2016), Deep learning with differential privacy,
Algorithm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.catalog import Neighbors, register
from dpalgos.families import Family, check_labels, get_family
from dpalgos.mechanisms.clipping import clip_rows_l2
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.params import PrivateParams, choice, count, positive
from dpalgos.risk import Risk
from dpalgos.sample import Sample
from dpalgos.typing import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class DPSGDGLMParams(PrivateParams):
    """Keywords of :func:`dp_sgd_glm`."""

    family: str = choice("distribution of the responses given their mean", ("gaussian", "logistic"))
    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    response_bound: float | None = positive(
        "for family='gaussian': residuals are clipped to ± this bound", default=None, optional=True
    )
    n_batches: int = count("B, at most one per row", default=10)
    n_epochs: int = count("E, how often every batch has its turn", default=5)
    step_size: float | None = positive(
        "η; None: 1 / (curvature · covariate_bound²), safe for any rows", default=None, optional=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made()

    def made(self) -> Family:
        """Return the family with its public constants."""
        return get_family(self.family, response_bound=self.response_bound, private=True)


def batch_sensitivity(gradient_bound: float, n_rows: FloatArray) -> FloatArray:
    """Return 2L/n_b: opposite rows of the batch whose gradients are L long."""
    return np.asarray(2 * gradient_bound / n_rows)


def witnesses(params: DPSGDGLMParams, d: int, published: Sequence[FloatArray]) -> dict[str, Neighbors]:
    """Return opposite rows whose residuals are clipped wherever the iterate lies."""
    row = params.covariate_bound * np.eye(1, d)
    far = np.full(1, 1e9 * (params.response_bound or 1.0))
    return {"gradient": (row, far, -row, far)}


@register(
    name="dp_sgd_glm",
    title="DP-SGD, batches in turn",
    order=44,
    task="glm",
    reference="Abadi et al. (2016), Algorithm 1, without random batches",
    summary="Noisy gradient steps on batches that take turns; a row pays for the steps of its own batch.",
    parameters=DPSGDGLMParams,
    calibrations=("tight",),
    example={
        "family": "gaussian",
        "covariate_bound": 2.0,
        "response_bound": 2.0,
        "n_batches": 4,
        "n_epochs": 3,
        "step_size": 1.0,
    },
    witnesses=witnesses,
    check_data=check_labels,
    public="response_bound for Gaussian responses",
)
def dp_sgd_glm(sample: Sample, params: DPSGDGLMParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R)."""
    family = params.made()
    gradient_bound = family.residual_bound * params.covariate_bound
    step = params.step_size or 1 / (family.curvature_bound * params.covariate_bound**2)
    X = clip_rows_l2(sample.X, params.covariate_bound)
    batches = [sample.derived(row_mask=rows) for rows in _batches(sample, params.n_batches)]
    risks = [Risk(family, batch, X) for batch in batches]
    multiplier = noise_multiplier(params.epsilon, params.delta, params.n_epochs)
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for _ in range(params.n_epochs):
        for number, (batch, risk) in enumerate(zip(batches, risks, strict=True)):
            with transcript.among(number):
                released = transcript.gaussian(
                    risk.gradient(coef),
                    l2_sensitivity=batch_sensitivity(gradient_bound, batch.n_rows),
                    noise_multiplier=multiplier,
                    label="gradient",
                )
            coef = coef - step * released
    return coef


def _batches(sample: Sample, n_batches: int) -> list[BoolArray]:
    """Return the rows of every batch, (n, R): each replicate's own rows in turn."""
    n = len(sample.rows)
    used = np.ones((n, sample.n_replicates), bool) if sample.row_mask is None else sample.row_mask
    turn = (np.cumsum(used, axis=0) - 1) % min(n_batches, int(sample.n_rows.min()))
    return [used & (turn == number) for number in range(int(turn.max()) + 1)]
