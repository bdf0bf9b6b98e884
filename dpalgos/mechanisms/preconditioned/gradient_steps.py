"""Gradient steps of a linear regression on white rows, and how its budget is spent.

Each step is on a released mean of gradients clipped to norm C: 2C/n. A :class:`Schedule` says how a
preconditioned regression spends its budget on steps and on what goes before, by public numbers; how long
steps are follows from gradients (:mod:`dpalgos.mechanisms.preconditioned.step_lengths`). Where nμ < 15 √d,
counts of rows are mostly noise: then levels are public, C_A = √(d + 1) and C = √d max(.07, nμ/200), and the
start is shrunk by what noise explains.

Each of the first four steps may whiten the rows again in its place: √2 C²/n, of rows clipped to norm C. It
does so where released moments leave a direction unknown that new ones in white coordinates would show
(:meth:`dpalgos.mechanisms.private_whitening.Whitening.hides`), as where columns are in units far too large or
too small. The decision follows from what was released before, and both releases have the same noise for a
sensitivity of 1, so that whichever is made costs the same. A replicate whose rows are whitened takes no
step: it counts as one of next to infinite noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import N_COUNTS, RegressionLevels, WantedRows, few_rows_levels
from dpalgos.mechanisms.preconditioned.step_lengths import StepLengths
from dpalgos.mechanisms.private_origin import DISTANCE, MEANS, origin_shares, released_columns
from dpalgos.mechanisms.private_whitening import Whitening, clipped_second_moments, moments_sensitivity
from dpalgos.models.whitened_scores import ScoresAt, WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.steps.moments import svec
from dpalgos.typing import BoolArray, FloatArray

GRADIENT = "preconditioned gradient"  # or moments of whitened rows in its place
_FEW_ROWS = 15.0  # times √d: the nμ below which counts of rows say too little to find a level
_WANTED = WantedRows(rows=120, gradients=20, n_searched_steps=5)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a fit spends its budget: a share of μ² for each part, the steps, and how clip levels are found.

    The shares of an interval and of public rows are taken off first.
    """

    moment_share: float
    step_size: float
    n_steps: int
    n_left_out: int = 0  # of the first steps, which are no part of the combination
    n_whitenings: int = 0  # the most that may stand in the place of a step
    level_share: float = 0.0
    wanted: WantedRows = _WANTED
    shrinks_start: bool = False
    for_interval: bool = False
    origin_columns: Mapping[str, int] = field(default_factory=dict)  # that have centers and units
    origin_shares: Mapping[str, float] = field(default_factory=dict)
    public_levels: tuple[float, float] | None = None

    def step_share(self) -> float:
        """Return the share of each step."""
        rest = 1 - self.level_share - self.moment_share - sum(self.origin_shares.values())
        return rest / self.n_steps

    def shares(self) -> dict[str, float]:
        """Return the shares of μ² by part, without empty ones."""
        shares = {f"step {t}": self.step_share() for t in range(self.n_steps)}
        shares |= {"moments": self.moment_share, "levels": self.level_share, **self.origin_shares}
        return {part: share for part, share in shares.items() if share}

    def count_multiplier(self, budget: SplitBudget) -> float:
        """Return the noise of each count of the searches for levels; 0 where there are none."""
        n_searches = 1 + self.wanted.n_searched_steps
        return budget.gaussian_multiplier("levels", n_searches * N_COUNTS) if self.level_share else 0.0


_MANY = Schedule(level_share=0.105, moment_share=0.14, step_size=0.8, n_steps=10, n_whitenings=4)
_FEW = Schedule(moment_share=0.2, n_steps=5, n_left_out=2, step_size=0.8, shrinks_start=True)


def schedule_of(size: float, n_features: int, intercept: bool, *, public_rows: bool) -> Schedule:
    """Return how the budget is spent where ``size`` is nμ."""
    if size < _FEW_ROWS * np.sqrt(n_features):
        return replace(_FEW, public_levels=few_rows_levels(size, n_features))
    columns = released_columns(size, n_features, intercept=intercept)
    if public_rows:
        columns = {part: int(p > 0 and part not in (MEANS, DISTANCE)) for part, p in columns.items()}
    return replace(_MANY, origin_columns=columns, origin_shares=origin_shares(size, columns))


class GradientSteps(NamedTuple):
    """Steps as released, and full steps in the place of gradients; rows and their last whitening.

    ``is_whitened`` (R,) says whether rows were whitened again.
    """

    steps: ReleasedSteps
    full: ReleasedSteps
    rows: WhitenedScores
    white: Whitening
    is_whitened: BoolArray


def step_sensitivity(level: FloatArray, n_rows: FloatArray, whitens: BoolArray) -> FloatArray:
    """Return 2C/n of a mean of gradients clipped to norm C (R,), √2 C²/n of one of moments where it
    ``whitens``.

    Attained by opposite gradients, and by orthogonal rows; a mean of gradients has zeros where that of
    moments has more entries, which no row moves.
    """
    return np.where(whitens, moments_sensitivity(level, n_rows), ball_mean_sensitivity(level, n_rows))


def gradient_steps(
    transcript: Transcript,
    budget: SplitBudget,
    rows: WhitenedScores,
    white: Whitening,
    levels: RegressionLevels,
    theta: FloatArray,
    schedule: Schedule,
) -> GradientSteps:
    """Release the gradients of a schedule's steps of least squares, the first at θ (d, R)."""
    points, gradients, stds = [], [], []
    n_replicates, d = rows.sample.n_replicates, len(theta)
    lengths, length = StepLengths(n_replicates), np.ones(n_replicates)
    before: FloatArray = np.zeros(n_replicates)
    is_whitened: BoolArray = np.zeros(n_replicates, dtype=bool)
    for t in range(schedule.n_steps):
        multiplier = budget.gaussian_multiplier(f"step {t}")
        may_whiten = t < schedule.n_whitenings
        whitens = white.hides(multiplier, rows.sample.n_rows, for_interval=schedule.for_interval) & may_whiten
        at = rows.at(theta)
        level = levels.steps(at, t, whitens)
        sensitivity = step_sensitivity(level, rows.sample.n_rows, whitens)
        value = mean_of_step(rows, at, level, whitens) if may_whiten else at.clipped_mean(level)
        released = transcript.gaussian(
            value,
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label=GRADIENT,
        )
        std = transcript.noise_std(sensitivity, multiplier, len(released))
        gradient = np.where(whitens, 0.0, released[:d])
        if whitens.any():
            white, theta = white.again(whitens, released, std, theta)
            rows = rows.on(white.matrix)
            is_whitened = is_whitened | whitens
        points.append(theta)
        gradients.append(gradient)
        stds.append(np.where(whitens, np.inf, std))
        if t:
            both = np.array([before, std])
            move = np.where(length > 0, theta - points[-2], 0.0)
            lengths.moved(move, length, gradients[-2] - gradient, both, levels.clipped_share)
        before, full = std, lengths.full(gradient, std)
        length = np.where(whitens, 0.0, lengths.safe(schedule.step_size * full))
        theta = theta + length * gradient
    steps = ReleasedSteps(np.array(points), np.array(gradients), np.array(stds), level, theta)
    full_steps = steps._replace(gradients=full * steps.gradients, noise_stds=full * steps.noise_stds)
    return GradientSteps(steps, full_steps, rows, white, is_whitened)


def mean_of_step(rows: WhitenedScores, at: ScoresAt, level: FloatArray, whitens: BoolArray) -> FloatArray:
    """Return a mean of clipped scores, and zeros; or of moments of clipped rows where it ``whitens``."""
    d = rows.sample.n_features
    size = d * int(np.prod(rows.family.classes))
    mean = np.zeros((max(d * (d + 1) // 2, size), rows.sample.n_replicates))
    if not whitens.all():
        mean[:size] = at.clipped_mean(level).reshape(size, -1)
    if whitens.any():
        total = clipped_second_moments(rows.sample, lambda group: group.X, level, rows.whitening)
        moments = svec(total / rows.sample.n_rows[:, None, None])
        mean = np.where(whitens, 0.0, mean)
        mean[: len(moments)] += np.where(whitens, moments, 0.0)
    return mean
