"""Private generalized linear models by noisy gradient descent (paper B, Algorithm 1).

    β ← β − η (1/n) Σ_i (ψ'(x_i'β) − y_i) x_i + η w_t,   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``family`` (and its number of classes),
``covariate_bound`` c_x (rows are clipped to that ℓ2 norm here, never assumed), ``response_bound`` for
families whose residual ψ'(u) − y is unbounded (it is clipped to ± that here), ``n_iterations`` T,
``step_size`` η, ``coef_bound``. The last iterate is the answer. Labels outside the family are refused, which
depends on the data and is outside the guarantee, as every refusal of data is.

    quantity                       sensitivity           share     made in             forms
    gradient                       gradient_sensitivity  the rest  dp_glm              all
    those of intervals.from_start  its own               .5        note_interval_from  interval

Why it is private: each step releases the gradient with Gaussian noise; β is post-processing of the steps
before it, hence public when the next gradient is taken. Then the gradient's ℓ2 sensitivity is
:func:`gradient_sensitivity`, whatever β is: no projection is needed. T releases with one noise multiplier z
are exactly one Gaussian release with multiplier z/√T, also when the sensitivities are chosen adaptively.

Calibrations
    ``tight``: z = √T z1(ε, δ), and the exact sensitivity at the current iterate: for logistic regression
    c_x/n at β = 0, rising to its supremum 2 c_x/n as ‖β‖ grows.
    ``paper``: the printed noise, η B √(2d log(2T/δ)) T / (nε) with B = 4 (R + c1) σ_x, that is splitting ε
    and δ evenly over the steps; c_x = σ_x √d, and R = c1 = 1 for labels within [0, 1]. Where ψ' has no bound
    c1 (Gaussian, Poisson) the clip of the residual stands for R + c1. Its certificate uses the supremum of
    the sensitivity over all β, so that it holds before the run.

An interval (:mod:`dpalgos.intervals.from_start`; tight only, no classes) takes half of μ², and is around
whitened steps from the answer.

Departures: the printed B is 4 times the worst sensitivity (8 times the first one); T of the paper's
experiments is not stated, hence an argument; the projection (``coef_bound``) is ours and off by default.

Reference: Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 1, Lemma 1.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Form, Published, Witnesses, pair, register
from dpalgos.intervals.from_start import IntervalFromStart
from dpalgos.models.families import Family, PrivateFamilyParams, check_labels, family_names, get_family
from dpalgos.models.risk import Risk
from dpalgos.params import choice, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import project_l2_ball
from dpalgos.typing import FloatArray

_ANGLES = 100_001


@dataclass(frozen=True, kw_only=True)
class DPGLMParams(IntervalFromStart, PrivateFamilyParams):
    """Keywords of :func:`dp_glm`."""

    family: str = choice("distribution of the responses given their mean", family_names())
    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)
    n_iterations: int = count("T, number of gradient steps", default=10)
    step_size: float | None = positive(
        "η; None: 1 / (curvature · covariate_bound²), safe for any rows; where they spread evenly over all "
        "directions, d times that",
        default=None,
    )
    coef_bound: float | None = positive(
        "iterates are projected onto the ℓ2 ball of this radius; None: they are not",
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_family(self.made())

    def budget(self, sample: Sample) -> SplitBudget:
        return self.split_budget({"steps": 1.0}, self.reserved(sample))

    def made(self) -> Family:
        return get_family(
            self.family, response_bound=self.response_bound, n_classes=self.n_classes, private=True
        )


def witnesses(params: DPGLMParams, d: int, published: Published) -> Witnesses:
    """Return neighbors whose last gradients differ by the sensitivity, given the published ones.

    Mirror images about the axis of β, with the same label: 0, or with a clipped residual a huge one. With
    classes, opposite rows across the coefficients, which attain it at β = 0 and come near elsewhere.
    """
    family = params.made()
    coef: FloatArray = np.zeros((d, *family.classes, 1))
    for gradient in published[: params.n_iterations - 1]:
        coef = _stepped(coef, gradient.reshape(coef.shape), params)
    directions = coef.reshape(d, -1).T
    basis = np.linalg.svd(directions)[2]
    along, across = basis[0] * np.sign(basis[0] @ directions[0] or 1.0), basis[-1]
    t = np.zeros(1)
    if not family.classes:
        b, angles = float(np.linalg.norm(coef)) * params.covariate_bound, np.linspace(0, 1, _ANGLES)
        t = angles[np.argmax(family.largest_residual(b * angles) * np.sqrt(1 - angles**2))]
    one, other = (params.covariate_bound * (t * along + s * np.sqrt(1 - t**2) * across) for s in (1, -1))
    label = 0.0 if params.response_bound is None else np.ceil(10 * params.response_bound) + 10
    found = {"gradient": pair(one, other, label)}
    return found | params.start_witnesses(d)


@register(
    title="Noisy gradient descent",
    order=18,
    task="glm",
    reference="Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 1",
    summary="Gradient descent on the likelihood with Gaussian noise on every gradient.",
    example={
        "family": "gaussian",
        "covariate_bound": 2.0,
        "response_bound": 2.0,
        "n_iterations": 10,
        "step_size": 2.0,
    },
    witnesses=witnesses,
    check_data=check_labels,
    forms={"interval": Form(keywords={"interval": 0.95})},
    public="response_bound where the family's residual is unbounded; n_classes where it has classes",
)
def dp_glm(sample: Sample, params: DPGLMParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R), or (d, K, R) with classes."""
    family = params.made()
    risk = Risk(family, sample, row_bound=params.covariate_bound)
    coef: FloatArray = np.zeros(risk.shape)

    if params.calibration == "tight":
        budget = params.budget(sample)
        multiplier = budget.gaussian_multiplier("steps", params.n_iterations)
    else:
        multiplier = printed_multiplier(family, params.epsilon, params.delta, params.n_iterations)
    for _ in range(params.n_iterations):
        predictor_bound = params.covariate_bound * family.predictor_norm(coef, 2)
        if params.calibration == "paper":
            predictor_bound = np.full_like(predictor_bound, np.inf)
        sensitivity = gradient_sensitivity(family, predictor_bound, params.covariate_bound, sample.n_rows)
        released = transcript.gaussian(
            risk.gradient(coef).reshape(-1, sample.n_replicates),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="gradient",
        )
        coef = _stepped(coef, released.reshape(coef.shape), params)
    if params.interval is not None:
        params.note_interval_from(transcript, budget, sample, coef)
    return family.identified(coef)


def gradient_sensitivity(
    family: Family, predictor_bound: FloatArray, covariate_bound: float, n_rows: FloatArray
) -> FloatArray:
    """Return the ℓ2 sensitivity of the mean gradient under replacing one row: 2 c_x radius / n.

    The change is (g − g')/n, g = (ψ'(x'β) − y) x with ‖x‖ ≤ c_x: at most the diameter of the set of all
    such g, which is twice the family's ``gradient_radius`` at ``predictor_bound`` = c_x ‖β‖₂ times c_x. With
    classes g is the matrix x (p − e_y)', in the Frobenius norm, below 2 √2 c_x / n.
    """
    return np.asarray(2 * covariate_bound * family.gradient_radius(predictor_bound) / n_rows)


def printed_multiplier(family: Family, epsilon: float, delta: float, n_iterations: int) -> float:
    """Return the noise that Algorithm 1 prints, over the supremum of the sensitivity.

    4 (R + c1) c_x √(2 log(2T/δ)) T / (nε) on the gradient, where R + c1 bounds |y| + ψ', over
    2 c_x sup|residual| / n.
    """
    bounded = np.isfinite(family.derivative_bound)
    response_and_mean = 1.0 + family.derivative_bound if bounded else family.residual_bound
    log_term = float(np.sqrt(2 * np.log(2 * n_iterations / delta)))
    return 2 * response_and_mean / family.residual_bound * log_term * n_iterations / epsilon


def _stepped(coef: FloatArray, gradient: FloatArray, params: DPGLMParams) -> FloatArray:
    family = params.made()
    step = params.step_size
    if step is None:
        # Where curvature has no bound of its own (Poisson), it is the mean, about a response at most.
        curvature = min(family.curvature_bound, max(family.residual_bound, 1.0))
        step = 1 / (curvature * params.covariate_bound**2)
    moved = coef - step * gradient
    if params.coef_bound is None:
        return moved
    return project_l2_ball(moved.reshape(-1, coef.shape[-1]), params.coef_bound).reshape(coef.shape)
