"""Gradient steps of a linear regression on white rows, and how its budget is spent.

Each step is on a released mean of gradients clipped to norm C: 2C/n. A :class:`Schedule` says how a
preconditioned regression spends its budget on steps and on what goes before, by public numbers; how long
steps are follows from gradients (:mod:`dpalgos.mechanisms.preconditioned.step_lengths`). Where nμ < 15 √d,
counts of rows are mostly noise: then levels are public, C_A = √(d + 1) and C = √d max(.07, nμ/200), and the
start is shrunk by what noise explains. A second whitening is worth its share where nμ ≥ 4,000, unless public
rows bring coordinates. With public levels the shares of the steps grow by 1.5 at each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import N_COUNTS, RegressionLevels, WantedRows, few_rows_levels
from dpalgos.mechanisms.column_counts import UNITS
from dpalgos.mechanisms.preconditioned.step_lengths import StepLengths
from dpalgos.mechanisms.private_origin import DISTANCE, MEANS, origin_shares, released_columns
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.typing import FloatArray

_TWO_WHITENINGS = 4000.0  # the nμ from which a second whitening is worth its share
_FEW_ROWS = 15.0  # times √d: the nμ below which counts of rows say too little to find a level
_WANTED = WantedRows(rows=120)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a fit spends its budget: a share of μ² for each part, the steps, and how clip levels are found.

    The shares of an interval and of public rows are taken off first.
    """

    moment_share: float
    step_size: float
    growth: float = 1.0
    n_steps: int = 6
    n_left_out: int = 0  # of the first steps, which are no part of the combination
    level_share: float = 0.0
    whitened_share: float = 0.0
    wanted: WantedRows = _WANTED
    shrinks_start: bool = False
    origin_columns: Mapping[str, int] = field(default_factory=dict)  # that have centers and units
    origin_shares: Mapping[str, float] = field(default_factory=dict)
    clip: str | tuple[float, float] = "private"

    def step_shares(self) -> FloatArray:
        weights = self.growth ** np.arange(self.n_steps)
        rest = 1 - self.level_share - self.moment_share - self.whitened_share
        return np.asarray((rest - sum(self.origin_shares.values())) * weights / weights.sum())

    def shares(self) -> dict[str, float]:
        """Return the shares of μ² by part, without empty ones."""
        shares = {f"step {t}": float(share) for t, share in enumerate(self.step_shares())}
        shares |= {"moments": self.moment_share, "whitened moments": self.whitened_share}
        shares |= {"levels": self.level_share, **self.origin_shares}
        return {part: share for part, share in shares.items() if share}

    def count_multiplier(self, budget: SplitBudget) -> float:
        """Return the noise of each count of the searches for levels; 0 where there are none."""
        n_searches = 1 + self.wanted.n_searched_steps + (self.whitened_share > 0)
        return budget.gaussian_multiplier("levels", n_searches * N_COUNTS) if self.level_share else 0.0


_ONCE = Schedule(level_share=0.07, moment_share=0.2, step_size=0.8)
_TWICE = Schedule(level_share=0.085, moment_share=0.15, whitened_share=0.12, step_size=0.75, n_steps=10)
_PUBLIC_LEVELS = Schedule(moment_share=0.2, growth=1.5, n_steps=5, n_left_out=3, step_size=0.8)
_FEW = Schedule(moment_share=0.2, n_steps=5, n_left_out=2, step_size=0.8, shrinks_start=True)


def schedule_of(
    size: float,
    n_features: int,
    clip: str | tuple[float, float],
    n_whitenings: int | None,
    units: str | None,
    intercept: bool,
    *,
    public_rows: bool,
) -> Schedule:
    """Return how the budget is spent where ``size`` is nμ; keywords are those of the regression."""
    if clip != "private":
        return replace(_PUBLIC_LEVELS, clip=clip)
    if n_whitenings != 2 and units != "private" and size < _FEW_ROWS * np.sqrt(n_features):
        return replace(_FEW, clip=few_rows_levels(size, n_features))
    whitens_twice = n_whitenings == 2 or (
        n_whitenings is None and size >= _TWO_WHITENINGS and not public_rows
    )
    chosen = _TWICE if whitens_twice else _ONCE
    columns = released_columns(size, n_features, intercept=intercept, by_name=units == "private")
    if public_rows:
        columns = {part: int(p > 0 and part not in (MEANS, DISTANCE)) for part, p in columns.items()}
    if units == "declared":
        columns.pop(UNITS)
    shares = origin_shares(size, columns)
    return replace(chosen, origin_columns=columns, origin_shares=shares)


def gradient_steps(
    transcript: Transcript,
    budget: SplitBudget,
    rows: WhitenedScores,
    levels: RegressionLevels,
    theta: FloatArray,
    schedule: Schedule,
) -> tuple[ReleasedSteps, ReleasedSteps]:
    """Release the gradients of a schedule's steps of least squares, the first at θ (d, R).

    Also return full steps, as "gradients", with the standard deviation of their noise.
    """
    points, gradients, stds = [], [], []
    lengths = StepLengths(rows.sample.n_replicates)
    length: FloatArray = np.ones(rows.sample.n_replicates)
    for t in range(schedule.n_steps):
        at = rows.at(theta)
        level = levels.gradients(at, t)
        sensitivity = ball_mean_sensitivity(level, rows.sample.n_rows)
        multiplier = budget.gaussian_multiplier(f"step {t}")
        released = transcript.gaussian(
            at.clipped_mean(level),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned gradient",
        )
        points.append(theta)
        gradients.append(released)
        stds.append(transcript.noise_std(sensitivity, multiplier, len(released)))
        if t:
            move, fall = theta - points[-2], gradients[-2] - released
            lengths.moved(move, length, fall, np.array(stds[-2:]), levels.clipped_share)
        full = lengths.full(released, stds[-1])
        length = lengths.safe(schedule.step_size * full)
        theta = theta + length * released
    steps = ReleasedSteps(np.array(points), np.array(gradients), np.array(stds), level, theta)
    return steps, steps._replace(gradients=full * steps.gradients, noise_stds=full * steps.noise_stds)
