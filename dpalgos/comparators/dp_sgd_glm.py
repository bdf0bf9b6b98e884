"""DP-SGD for generalized linear models, over random batches or batches that take turns (Abadi et al. 2016).

    β ← β − η [ (1/n_b) Σ_{i in batch} (ψ'(x_i'β) − y_i) x_i + w_t ],   n_b = n/B,   E B steps

    release                           sensitivity (ℓ2)    cost
    gradient of a batch, E B times    2 R c_x/n_b         all; in turn, E of them for each group of rows

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``family``, ``covariate_bound`` c_x (rows are
clipped to that ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped to ± that),
``step_size`` η, n. There are E = 5 epochs of B = 10 batches, or fewer if there are fewer rows.

Why it is private. A row's gradient has norm at most L = R c_x with |residual| ≤ R. Replacing a row moves the
mean over its batch by at most 2L/n_b (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). β is post-processing
of the earlier steps.

    ``batches="poisson"``  Each step draws each row with probability q = 1/B. The drawn rows are secret, which
                           amplifies privacy. The accountant composes E B such releases of noise multiplier z
                           (:mod:`dpalgos.accounting.composition`). Their privacy losses are those of a pair
                           that dominates replacing one row. z is the smallest that proves (ε, δ).
    ``batches="in_turn"``  Row i belongs to batch i mod B, which is public. A row is in one batch, and in E of
                           the releases. Batches are disjoint groups, so their costs do not add up.
                           z = √E z1(ε, δ), exact; about √B times that of random batches. Only these
                           batches allow floating-point-safe noise.

Calibration: ``tight`` only. Departure: gradients are bounded by clipping rows, not by clipping gradients.

Reference: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar & Zhang (2016), Deep learning with differential
privacy, Algorithm 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import ClassVar

import numpy as np

from dpalgos.accounting.calibration import sampled_noise_multiplier
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import SampledGaussian
from dpalgos.catalog import Form, register
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.models.estimators import FamilyEstimator
from dpalgos.models.families import check_labels
from dpalgos.models.risk import mean_gradient
from dpalgos.params import choice, positive
from dpalgos.rows.products import clip_rows_l2
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import ClippedLoss
from dpalgos.typing import BoolArray, FloatArray

GRADIENT = "gradient"
_STEP_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)  # η λ_max that a forecast tries
_N_BATCHES, _N_EPOCHS = 10, 5  # 50 steps, and a row has its turn in 5: more cost more noise than they gain


@register(
    name="dp_sgd_glm",
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
    check_data=check_labels,
    in_memory=True,
    public="response_bound for Gaussian responses",
    forms={"batches in turn": Form(keywords={"batches": "in_turn"}, in_memory=False)},
)
@dataclass(frozen=True, kw_only=True)
class DPSGDGLM(FamilyEstimator):
    """The last iterate of noisy gradient steps on batches."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    batches: str = choice(
        "'poisson': drawn at random, secret; 'in_turn': fixed and public",
        ("poisson", "in_turn"),
        default="poisson",
    )
    step_size: float | None = positive(
        "η; None: 1 / (curvature · covariate_bound²), safe for any rows", default=None
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {GRADIENT: ball_mean}
    by_forecast = ("step_size",)
    radius = None

    @property
    def in_memory(self) -> bool:
        return self.batches == "poisson"

    def plan(self, n: float, d: int) -> Plan:
        n_batches = number_of_batches(n)
        if self.batches == "poisson":
            return {GRADIENT: self.random_slot(n_batches)}
        return {f"{GRADIENT} {number}": self.slot_in_turn(number) for number in range(n_batches)}

    def random_slot(self, n_batches: int) -> SampledGaussian:
        rate, times = 1 / n_batches, _N_EPOCHS * n_batches
        z = sampled_noise_multiplier(self.epsilon, self.delta, rate, times)
        return SampledGaussian(z, sampling_rate=rate, times=times)

    def slot_in_turn(self, number: int) -> Gaussian:
        """Return the slot of one batch. A row is in one batch: in one step of each epoch."""
        steps = gaussian_plan(self.epsilon, self.delta, {GRADIENT: Share(1.0, _N_EPOCHS)})[GRADIENT]
        return replace(steps, group=number)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        family = self.family_object()
        step = self.step_size or 1 / (family.curvature_bound * self.covariate_bound**2)
        steps = self.random_steps if self.batches == "poisson" else self.steps_in_turn
        released, coef = steps(rows, spend), rows.zeros(rows.d)
        for _ in range(_N_EPOCHS * number_of_batches(rows.n)):
            coef = coef - step * released(coef)
        return coef

    def random_steps(self, rows: Rows, spend: Spend) -> Callable[[FloatArray], FloatArray]:
        """Return β ↦ the noisy mean gradient of a fresh random batch."""
        family, sample = self.family_object(), rows.sample
        rate = 1 / number_of_batches(rows.n)
        X, y = clip_rows_l2(sample.X, self.covariate_bound), family.encode(sample.response())
        used, n_batch = _used(sample), rate * rows.n
        sensitivity = ball_mean(family.residual_bound * self.covariate_bound, n_batch)

        def released(coef: FloatArray) -> FloatArray:
            residual = family.residual(X @ rows.by_column(coef), y)
            noisy = spend.of_drawn_rows(
                GRADIENT,
                lambda drawn: np.asarray(X.T @ (residual * drawn) / n_batch),
                used,
                sensitivity,
            )
            return rows.by_replicate(noisy)

        return released

    def steps_in_turn(self, rows: Rows, spend: Spend) -> Callable[[FloatArray], FloatArray]:
        """Return β ↦ the noisy mean gradient of the batch whose turn it is."""
        family, used, n_batches = self.family_object(), _used(rows.sample), number_of_batches(rows.n)
        turn = (np.cumsum(used, axis=0) - 1) % n_batches
        batches = [
            Rows.of_sample(rows.sample.derived(row_mask=used & (turn == number)), is_batch=rows.is_batch)
            for number in range(n_batches)
        ]
        gradients = [mean_gradient(batch, family, self.covariate_bound) for batch in batches]
        order, largest = cycle(range(n_batches)), family.residual_bound * self.covariate_bound

        def released(coef: FloatArray) -> FloatArray:
            number = next(order)
            query = ball_mean.of(gradients[number](coef), largest, batches[number].n)
            return spend(f"{GRADIENT} {number}", query).value

        return released

    @property
    def candidates(self) -> tuple[tuple[int, float], ...]:
        """The 50 steps, of sizes from short ones to nearly unstable ones."""
        return tuple((_N_EPOCHS * _N_BATCHES, share) for share in _STEP_SHARES)

    def clipped_loss(self, X: FloatArray, y: FloatArray) -> ClippedLoss:
        family = self.family_object()
        return ClippedLoss(clip_rows_l2(X, self.covariate_bound), family, y, family.residual_bound)

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        is_random = self.batches == "poisson"
        slot = self.random_slot(_N_BATCHES) if is_random else self.slot_in_turn(0)
        return np.full(len(steps), slot.noise_multiplier * ball_mean(1.0, n_rows / _N_BATCHES))

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        return np.full_like(norm, self.family_object().residual_bound * self.covariate_bound)


def number_of_batches(n: float) -> int:
    """Return B: fewer batches if there are fewer rows."""
    return min(_N_BATCHES, int(n))


def _used(sample: Sample) -> BoolArray:
    everyone = np.ones((len(sample.rows), sample.n_replicates), bool)
    return everyone if sample.row_mask is None else sample.row_mask
