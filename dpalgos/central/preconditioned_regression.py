"""Private linear regression by whitening first and then a few clipped, preconditioned steps (ours).

    W = M^(−1/2),  M = the released second moments of clipped rows        (whitening)
    θ ← θ + η ( mean_i clip(u_i (y_i − u_i'θ), C) + noise ),  u_i = W x_i   (T steps)
    β̂ = W θ̄,  θ̄ the share-weighted mean of the last iterates, shrunk by James–Stein

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Needs no bound on rows, responses or
coefficients: every released quantity is clipped to a level that is public or itself released. What
should be public are *units* in which columns and response are of order one; they affect accuracy only.

Why it is private. Everything is Gaussian, so that with μ = μ(ε, δ) a release with share f of μ² and
ℓ2 sensitivity Δ gets noise Δ / (μ √f), and shares that sum to 1 compose to exactly (ε, δ):

    quantity                                    sensitivity    share
    how many norms exceed a candidate level     1              f_q in all (``clip="private"`` only)
    Z'Z/n, rows of Z = [X, y] clipped to C_A    √2 C_A²/n      f_A
    U'U/n, whitened rows clipped to C_B         √2 C_B²/n      f_B (with a second whitening only)
    mean of clip(u_i r_i, C), step t            2C/n           f_t, growing geometrically

(the second and third: orthogonal rows of norm C_A or C_B, :mod:`dpalgos.mechanisms.private_whitening`; the
fourth: opposite rows of norm C). W, θ, the levels and the shrinkage use released quantities only. The steps
start from the ridge regression of the released Z'Z, with a ridge of three times the floor below which its
eigenvalues are noise: X'y is a part of it, and paid for.

A second whitening, inside the first's coordinates, resolves directions that the first's noise hides, and
takes its share from the steps: ``n_whitenings=None`` takes it where nμ ≥ 4,000. Between 2,600 and 3,600
tables differ in whether it helps: weak directions gain from it, and lose what they owe to shrinkage.

The clip levels
    ``"private"`` (default): about k norms lie above the level, k = 100 (√d/μ) x^(−1/4) for the rows (a tenth
    of them, if more, before a second whitening) and 20 (√d/μ) x^(−1/4) for whitened rows and for gradients,
    x = nμ/489; each found by a binary search of four noisy counts over sixteen public levels; the gradients'
    level is found at the first step and again at the second.
    ``"rule"``: C_A = 3 x^0.4, C = 3.2 x^0.85, constants found on the California housing data, hence no
    independent evidence there.
    a pair ``(C_A, C)`` of public levels.

With an interval (``interval=.95``) the last step is a whole one, η = 1, from the iterate before it, the first
from zero, and nothing is shrunk: :mod:`dpalgos.regression_intervals` then knows the error. Steps are three
and grow faster, a tenth of the rows' clipping is wanted and the gradients' level is doubled (what
clipping does cannot be known), and a share of μ² pays for the second moments of the clipped gradients of the
last step, of norm at most C (√2 C²/n, orthogonal gradients), and for how many rows were clipped anywhere
(1). The answer is less accurate than without, for Gaussian rows: at ε = .5 by a factor of 2.2 for n = 2,000,
d = 5, of 1.9 for n = 20,000, d = 5 and of 3.7 for n = 20,000, d = 20, there by 1.4 at ε = 3.

What to expect: directions of X whose second moment lies below the noise floor are not resolved at this
ε and stay near the ridge regression; ``diagnostics["unresolved_directions"]`` counts them. Constants were
chosen on four tables (n = 16,000 to 40,000, d = 6 to 17), two of them with nearly collinear columns. On the
housing data errors lean on stopping early, which cancels part of the clipping bias: without any noise the
answer on rows clipped as at ε = .5 is .24 from least squares.

References
----------
Kamath, Li, Singhal & Ullman (2019), Privately learning high-dimensional distributions (recursive private
preconditioning).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Neighbors, register
from dpalgos.errors import InputError
from dpalgos.intervals import (
    INTERVAL_SHARE,
    SCORE_MOMENTS,
    SHARE_CLIPPED,
    IntervalParams,
    interval_shares,
    release_score_moments,
)
from dpalgos.mechanisms.checks import check_clip
from dpalgos.mechanisms.clipping import counts_above
from dpalgos.mechanisms.level_search import counts_needed, search_level
from dpalgos.mechanisms.private_whitening import Whitening, private_whitening
from dpalgos.mechanisms.shrinkage import james_stein
from dpalgos.mechanisms.symmetric import unsvec
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.mechanisms.whitened_rows import WhitenedRows
from dpalgos.params import checked, choice
from dpalgos.regression_intervals import note_step_interval, unresolved_coordinates
from dpalgos.sample import Group, Grouped, Sample
from dpalgos.typing import BoolArray, FloatArray

_ROW_LEVELS = np.geomspace(0.5, 8, 16)  # times √(d + 1)
_WHITENED_LEVELS = np.geomspace(0.5, 16, 16)  # times √d
_GRADIENT_LEVELS = np.geomspace(0.15, 24, 16)  # times √d
_N_COUNTS = counts_needed(16)
_SEARCHED_STEPS = 2  # the gradients' level is found at the first step and again at the second
_START_RIDGE = 3.0  # floors of the whitening
_TWO_WHITENINGS = 4000.0  # the nμ from which a second whitening is worth its share


@dataclass(frozen=True, kw_only=True)
class _Schedule:
    """How the budget is spent: shares of μ², steps, and averaging."""

    moment_share: float
    growth: float
    n_averaged: int
    step_size: float
    n_steps: int = 5
    level_share: float = 0.1
    whitened_share: float = 0.0
    # How many rows should be clipped for the moments: a factor on √d/μ, and at least this part of them.
    rows_wanted: float = 100.0
    part_wanted: float = 0.0
    # With an interval only: its share, and the factor on the gradients' level.
    interval_share: float = 0.0
    widened: float = 1.0

    def step_shares(self) -> FloatArray:
        weights = self.growth ** np.arange(self.n_steps)
        rest = 1 - self.level_share - self.moment_share - self.whitened_share - self.interval_share
        return np.asarray(rest * weights / weights.sum())

    def budget(self, params: "PreconditionedRegressionParams") -> Budget:
        shares = interval_shares(params.interval)
        shares |= {f"step {t}": float(share) for t, share in enumerate(self.step_shares())}
        shares |= {
            "moments": self.moment_share,
            "whitened moments": self.whitened_share,
            "levels": self.level_share,
        }
        spent = {part: share for part, share in shares.items() if share}
        return Budget(epsilon=params.epsilon, delta=params.delta, shares=spent)


_ONCE = _Schedule(level_share=0.07, moment_share=0.2, growth=1.3, n_averaged=5, step_size=0.8)
_TWICE = _Schedule(
    moment_share=0.12, whitened_share=0.13, growth=1.15, n_averaged=5, step_size=0.65, part_wanted=0.1
)
_PUBLIC_LEVELS = _Schedule(level_share=0.0, moment_share=0.2, growth=1.5, n_averaged=2, step_size=0.8)
# Few rows are clipped, and the last step is a whole one on good moments, so that its error is known.
_WITH_INTERVAL = _Schedule(
    rows_wanted=10,
    moment_share=0.25,
    n_steps=3,
    step_size=1.0,
    growth=2.5,
    n_averaged=1,
    interval_share=INTERVAL_SHARE,
    widened=2.0,
)
# The nμ at which the levels' factors are meant: 488.7 of n = 2,000 rows at ε = 0.5, δ = 10/n^1.1, a cell of
# the California housing study. Factors and exponents are empirical, found on those data.
_REFERENCE_SIZE = 489


@dataclass(frozen=True, kw_only=True)
class PreconditionedRegressionParams(IntervalParams):
    """Keywords of :func:`preconditioned_regression`."""

    clip: str | tuple[float, float] = checked(
        "'private', 'rule', or a pair of public levels (rows, gradients)",
        partial(check_clip, of="gradients"),
        default="private",
    )
    n_whitenings: int | None = choice(
        "1, 2 (with clip='private' and no interval), or None: 2 where nμ(ε, δ) is at least 4,000",
        (None, 1, 2),
        default=None,
    )
    shrinkage: str | None = choice(
        "'james_stein' (with the known noise level) or None; none with an interval",
        ("james_stein", None),
        default="james_stein",
    )
    unshrunk_with_interval: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_whitenings == 2 and (self.clip != "private" or self.interval is not None):
            raise InputError(
                "n_whitenings must be 1 or None with public levels or an interval, got 2; leave it out"
            )

    def schedule(self, size: float) -> _Schedule:
        """Return how the budget is spent where ``size`` is nμ."""
        private = self.clip == "private"
        if self.interval is not None:  # without a search for levels the moments get its share
            return _WITH_INTERVAL if private else replace(_WITH_INTERVAL, level_share=0.0, moment_share=0.35)
        if not private:
            return _PUBLIC_LEVELS
        n_whitenings = self.n_whitenings or (2 if size >= _TWO_WHITENINGS else 1)
        return _TWICE if n_whitenings == 2 else _ONCE


def witnesses(
    params: PreconditionedRegressionParams, d: int, published: Sequence[FloatArray]
) -> dict[str, Neighbors]:
    """Return, for each release, neighbours that differ by its sensitivity; far above any clip level.

    Eigenvectors of the first moments stay orthogonal when they are whitened.
    """
    first, last, zero = np.zeros((1, d)), np.zeros((1, d)), np.zeros(1)
    first[0, 0] = last[0, -1] = 1e6
    large = np.full(1, 1e6)
    if len(published) > _N_COUNTS and params.n_whitenings == 2:
        vectors = np.linalg.eigh(unsvec(published[_N_COUNTS][:, :1], d + 1)[0, :d, :d])[1]
        one, other = 1e6 * vectors[:, :1].T, 1e6 * vectors[:, -1:].T
    else:
        one, other = first, last
    return {
        "rows above a level": (first, large, 0 * first, zero),
        "second moments": (first, zero, last, zero),
        "whitened rows above a level": (first, large, 0 * first, zero),
        "second moments of whitened rows": (one, zero, other, zero),
        "gradients above a level": (first, 1e9 * large, 0 * first, zero),
        "preconditioned gradient": (first, 1e9 * large, first, -1e9 * large),
        SCORE_MOMENTS: (first, 1e9 * large, last, 1e9 * large),
        SHARE_CLIPPED: (first, 1e9 * large, 0 * first, zero),
    }


@register(
    name="preconditioned_regression",
    title="Preconditioned regression",
    order=3,
    task="linear_regression",
    reference="ours; private whitening, then clipped preconditioned gradient steps",
    summary="Whitens the rows privately, then takes a few clipped gradient steps; needs no bounds.",
    parameters=PreconditionedRegressionParams,
    calibrations=("tight",),
    witnesses=witnesses,
    forms={
        "public levels": Form(keywords={"clip": (2.0, 3.0)}),
        "whitened twice": Form(keywords={"n_whitenings": 2}),
        "interval": Form(keywords={"interval": 0.95}),
    },
    public="units in which columns and response are of order one",
)
def preconditioned_regression(
    sample: Sample, params: PreconditionedRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, R)."""
    sample.check_response()
    mu = gaussian_mu(params.epsilon, params.delta)
    schedule = params.schedule(mu * float(sample.n_rows.min()))
    budget = schedule.budget(params)
    levels = _Levels(sample, params.clip, mu, budget, schedule, transcript)

    multiplier = budget.gaussian_multiplier("moments")
    row_level = levels.rows()
    white = first = private_whitening(
        transcript, sample, _with_response, row_level, noise_multiplier=multiplier
    )
    rows = WhitenedRows(sample, first.matrix)
    if schedule.whitened_share:
        white = private_whitening(
            transcript,
            sample,
            lambda group: group.X,
            levels.whitened_rows(rows),
            noise_multiplier=budget.gaussian_multiplier("whitened moments"),
            inside=first.matrix,
        )
        rows = WhitenedRows(sample, white.matrix)
    whitening = white.matrix
    transcript.note("unresolved_directions", white.unresolved)

    theta: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    if params.interval is None:
        theta = np.linalg.solve(whitening, _start(first))[..., 0].T
    step, iterates, noise_stds = schedule.step_size, [], []
    for t in range(schedule.n_steps):
        before = theta
        level = levels.gradients(rows, theta, t)
        sensitivity = 2 * level / sample.n_rows
        multiplier = budget.gaussian_multiplier(f"step {t}")
        released = transcript.gaussian(
            rows.clipped_gradient(theta, level),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned gradient",
        )
        theta = theta + step * released
        iterates.append(theta)
        noise_stds.append(multiplier * sensitivity)

    if params.interval is not None:
        parts = budget.gaussian_multiplier
        clipped = rows.gradient_norms(before).then(
            lambda group, norms: _clipped(group, norms, level[group.replicates], row_level[group.replicates])
        )
        scores = release_score_moments(
            transcript,
            rows.clipped_second_moments(before, level),
            counts_above(clipped, np.zeros_like(level)) / sample.n_rows,
            bound=level,
            n_rows=sample.n_rows,
            multiplier=parts,
        )
        note_step_interval(
            transcript,
            params.interval,
            inverse=whitening @ whitening,
            lever=whitening,
            step=np.einsum("rij,jr->ir", whitening, theta - before),
            gram_std=white.noise_std,
            score_std=transcript.noise_std(sensitivity, multiplier, sample.n_features),
            scores=scores,
            n_rows=sample.n_rows,
            unresolved=_unresolved_coordinates(white),
        )
        return np.asarray(np.einsum("rij,jr->ir", whitening, theta))
    weights = schedule.step_shares()[-schedule.n_averaged :]
    weights = weights / weights.sum()
    averaged = sum(
        weight * iterate for weight, iterate in zip(weights, iterates[-len(weights) :], strict=True)
    )
    if params.shrinkage == "james_stein":
        averaged = james_stein(averaged, _noise_variance(noise_stds, weights, step))
    return np.asarray(np.einsum("rij,jr->ir", whitening, averaged))


def _clipped(group: Group, norms: FloatArray, level: FloatArray, row_level: FloatArray) -> FloatArray:
    """Return 1 for rows that were clipped, or whose gradient was, else 0, in the shape of ``norms``."""
    far = np.linalg.norm(_with_response(group), axis=1)[:, None] > row_level
    return np.asarray(((norms > level) | far) * group.weights)


def _start(white: Whitening) -> FloatArray:
    """Return the ridge regression of the released moments with a ridge of a few floors, (R, d, 1)."""
    d = white.matrix.shape[1]
    eigenvalues, vectors = np.linalg.eigh(white.moments[:, :d, :d])
    ridge = np.maximum(eigenvalues, 0) + np.maximum(_START_RIDGE * white.floor, np.finfo(float).tiny)[:, None]
    along = np.swapaxes(vectors, 1, 2) @ white.moments[:, :d, d:]
    return np.asarray(vectors @ (along / ridge[..., None]))


def _unresolved_coordinates(white: Whitening) -> BoolArray:
    d = white.matrix.shape[1]
    return unresolved_coordinates(*np.linalg.eigh(white.moments[:, :d, :d]), white.noise_std)


def _with_response(group: Group) -> FloatArray:
    return np.column_stack([group.X, group.y])


class _Levels:
    """Clip levels: public, by rule, or by private binary search."""

    def __init__(
        self,
        sample: Sample,
        clip: str | tuple[float, float],
        mu: float,
        budget: Budget,
        schedule: _Schedule,
        transcript: Transcript,
    ) -> None:
        self._schedule = schedule
        self._sample, self._clip, self._mu, self._transcript = sample, clip, mu, transcript
        self._budget = budget
        self._scale = sample.n_rows * mu / _REFERENCE_SIZE
        self._gradient_level: FloatArray = np.empty(0)

    def rows(self) -> FloatArray:
        """Return the level C_A for the rows [x, y], (R,)."""
        sample, schedule = self._sample, self._schedule
        if isinstance(self._clip, tuple):
            return np.full(sample.n_replicates, self._clip[0])
        if self._clip == "rule":
            return 3 * self._scale**0.4
        norms = sample.grouped(
            lambda group: np.linalg.norm(_with_response(group), axis=1)[:, None] * group.weights
        )
        wanted = np.maximum(self._wanted(schedule.rows_wanted), schedule.part_wanted * sample.n_rows)
        candidates = _ROW_LEVELS * np.sqrt(sample.n_features + 1)
        return self._searched(candidates, wanted, norms, "rows above a level")

    def whitened_rows(self, rows: WhitenedRows) -> FloatArray:
        """Return the level C_B for whitened rows, (R,)."""
        candidates = _WHITENED_LEVELS * np.sqrt(self._sample.n_features)
        label = "whitened rows above a level"
        return self._searched(candidates, self._wanted(20), rows.norms(), label)

    def gradients(self, rows: WhitenedRows, theta: FloatArray, step: int) -> FloatArray:
        """Return the level C for step ``step``, (R,)."""
        if isinstance(self._clip, tuple):
            return np.full(self._sample.n_replicates, self._clip[1])
        if self._clip == "rule":
            return 3.2 * self._scale**0.85
        if step < _SEARCHED_STEPS:
            found = self._searched(
                _GRADIENT_LEVELS * np.sqrt(self._sample.n_features),
                self._wanted(20),
                rows.gradient_norms(theta),
                "gradients above a level",
            )
            self._gradient_level = found * self._schedule.widened
        return self._gradient_level

    def _wanted(self, base: float) -> FloatArray:
        wanted = base * np.sqrt(self._sample.n_features) / self._mu * self._scale**-0.25
        return np.asarray(np.minimum(wanted, 0.9 * self._sample.n_rows))

    def _searched(
        self,
        candidates: FloatArray,
        wanted: FloatArray,
        norms: Grouped[FloatArray],
        label: str,
    ) -> FloatArray:
        n_searches = 1 + _SEARCHED_STEPS + (self._schedule.whitened_share > 0)
        multiplier = self._budget.gaussian_multiplier("levels", n_searches * _N_COUNTS)
        return search_level(
            self._transcript,
            candidates,
            wanted,
            lambda level: counts_above(norms, level),
            noise_multiplier=multiplier,
            label=label,
        )


def _noise_variance(noise_stds: Sequence[FloatArray], weights: FloatArray, step: float) -> FloatArray:
    """Return the variance per coordinate that the noise of the steps leaves in the averaged iterate."""
    n_steps, n_averaged = len(noise_stds), len(weights)
    variance = np.zeros_like(noise_stds[0])
    for s, std in enumerate(noise_stds):
        influence = sum(
            weights[i] * (1 - step) ** (t - s)
            for i, t in enumerate(range(n_steps - n_averaged, n_steps))
            if t >= s
        )
        variance += (step * std * influence) ** 2
    return variance
