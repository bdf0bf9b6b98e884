"""DP-SGD for generalized linear models, over random batches or batches that take turns (Abadi et al. 2016).

    β ← β − η [ (1/n_b) Σ_{i in batch} (ψ'(x_i'β) − y_i) x_i + w_t ],   n_b = n/B,   E B steps

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``family``, ``covariate_bound`` c_x (rows are
clipped to that ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped to ± that),
``step_size`` η, n. There are E = 5 epochs of B = 10 batches, or fewer if there are fewer rows.

Why it is private. A row's gradient has norm at most L = R c_x with |residual| ≤ R. Replacing a row moves the
mean over its batch by at most 2L/n_b (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). β is post-processing
of the earlier steps.

    ``batches="poisson"``  Each step draws each row with probability q = 1/B. The drawn rows are secret, which
                           amplifies privacy. The accountant composes E B such releases of noise multiplier z
                           (:mod:`dpalgos.accounting.losses`). Their privacy losses are those of a pair that
                           dominates replacing one row. z is the smallest that proves (ε, δ).
    ``batches="in_turn"``  Row i belongs to batch i mod B, which is public. A row is in one batch, and in E of
                           the releases. Batches are disjoint groups, so their costs do not add up.
                           z = √E z1(ε, δ), exact; about √B times that of random batches. Only these
                           batches allow floating-point-safe noise.

Calibration: ``tight`` only. Departure: gradients are bounded by clipping rows, not by clipping gradients.

Reference: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar & Zhang (2016), Deep learning with differential
privacy, Algorithm 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from dpalgos.accounting.calibration import gaussians, sampled_noise_multiplier
from dpalgos.catalog import Form, Release, register
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.families import PrivateFamilyParams, check_labels
from dpalgos.models.risk import Risk
from dpalgos.params import choice, positive
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_rows_l2
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import ClippedRows
from dpalgos.typing import BoolArray, FloatArray

_STEP_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)  # η λ_max that a forecast tries
_N_BATCHES, _N_EPOCHS = 10, 5  # 50 steps, and a row has its turn in 5: more cost more noise than they gain


@dataclass(frozen=True, kw_only=True)
class DPSGDGLMParams(PrivateFamilyParams):
    """Keywords of :func:`dp_sgd_glm`."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    batches: str = choice(
        "'poisson': drawn at random, secret; 'in_turn': fixed and public",
        ("poisson", "in_turn"),
        default="poisson",
    )
    step_size: float | None = positive(
        "η; None: 1 / (curvature · covariate_bound²), safe for any rows", default=None
    )

    by_forecast = ("step_size",)
    radius = None

    @property
    def candidates(self) -> tuple[tuple[int, float], ...]:
        """The 50 steps, of sizes from short ones to nearly unstable ones."""
        return tuple((_N_EPOCHS * _N_BATCHES, share) for share in _STEP_SHARES)

    def clipped_rows(self, X: FloatArray, y: FloatArray) -> ClippedRows:
        family = self.family_object()
        return ClippedRows(clip_rows_l2(X, self.covariate_bound), family, y, family.residual_bound)

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        rate = 1 / _N_BATCHES
        if self.batches == "poisson":
            z = sampled_noise_multiplier(self.epsilon, self.delta, rate, _N_EPOCHS * _N_BATCHES)
        else:
            z = self.split_budget({GRADIENT.label: 1.0}).gaussian_multiplier(GRADIENT.label, _N_EPOCHS)
        return np.full(len(steps), z * ball_mean(1.0, rate * n_rows))

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        return np.full_like(norm, self.family_object().residual_bound * self.covariate_bound)


GRADIENT = Release("gradient", ball_mean)


@register(
    title="DP-SGD",
    order=44,
    task="glm",
    reference="Abadi et al. (2016), Algorithm 1",
    summary="Noisy gradient steps on random batches, whose secrecy counts, or on batches that take turns.",
    calibrations=("tight",),
    example={
        "family": "gaussian",
        "covariate_bound": 2.0,
        "response_bound": 2.0,
        "step_size": 1.0,
    },
    no_interval="the curvature at the estimate is not released; use preconditioned_glm",
    releases=(GRADIENT,),
    check_data=check_labels,
    in_memory=True,
    public="response_bound for Gaussian responses",
    forms={"batches in turn": Form(keywords={"batches": "in_turn"}, in_memory=False)},
)
def dp_sgd_glm(sample: Sample, params: DPSGDGLMParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R)."""
    family, n_batches = params.family_object(), min(_N_BATCHES, int(sample.n_rows.min()))
    step = params.step_size or 1 / (family.curvature_bound * params.covariate_bound**2)
    steps = _random_steps if params.batches == "poisson" else _steps_in_turn
    released = steps(sample, params, n_batches, transcript)
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for _ in range(_N_EPOCHS * n_batches):
        coef = coef - step * released(coef)
    return coef


def _random_steps(
    sample: Sample, params: DPSGDGLMParams, n_batches: int, transcript: Transcript
) -> Callable[[FloatArray], FloatArray]:
    """Return β ↦ the noisy mean gradient of a fresh random batch."""
    family, rate = params.family_object(), 1 / n_batches
    X, y = clip_rows_l2(sample.X, params.covariate_bound), family.encode(sample.response())
    used, n_batch = _used(sample), rate * sample.n_rows
    multiplier = sampled_noise_multiplier(params.epsilon, params.delta, rate, _N_EPOCHS * n_batches)

    def released(coef: FloatArray) -> FloatArray:
        residual = family.residual(X @ coef, y)
        return transcript.gaussian_of_drawn_rows(
            lambda drawn: np.asarray(X.T @ (residual * drawn) / n_batch),
            used,
            sampling_rate=rate,
            l2_sensitivity=ball_mean(family.residual_bound * params.covariate_bound, n_batch),
            noise_multiplier=multiplier,
            label=GRADIENT.label,
        )

    return released


def _steps_in_turn(
    sample: Sample, params: DPSGDGLMParams, n_batches: int, transcript: Transcript
) -> Callable[[FloatArray], FloatArray]:
    """Return β ↦ the noisy mean gradient of the batch whose turn it is."""
    family, used = params.family_object(), _used(sample)
    turn = (np.cumsum(used, axis=0) - 1) % n_batches
    batches = [sample.derived(row_mask=used & (turn == number)) for number in range(n_batches)]
    risks = [Risk(family, batch, row_bound=params.covariate_bound) for batch in batches]
    # A row is in one batch, hence in one step of each epoch.
    multiplier = params.split_budget({GRADIENT.label: 1.0}).gaussian_multiplier(GRADIENT.label, _N_EPOCHS)
    spend = Spend(transcript, {GRADIENT.label: gaussians(multiplier, _N_EPOCHS * n_batches)})
    order = cycle(range(n_batches))

    def released(coef: FloatArray) -> FloatArray:
        number = next(order)
        gradient_bound = family.residual_bound * params.covariate_bound
        with transcript.among(number):
            gradient = risks[number].gradient(coef)
            return spend(GRADIENT, ball_mean.of(gradient, gradient_bound, batches[number].n_rows)).value

    return released


def _used(sample: Sample) -> BoolArray:
    everyone = np.ones((len(sample.rows), sample.n_replicates), bool)
    return everyone if sample.row_mask is None else sample.row_mask
