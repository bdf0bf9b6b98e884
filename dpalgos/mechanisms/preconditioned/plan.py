"""How a preconditioned regression spends its budget, from public numbers alone: n, d, ε, δ and the model.

Size is nμ, of which a mean of n numbers within ± 1 would have noise 2/(nμ). What depends on it:

    size                    what
    below 15 √d             with an intercept no slopes but the constant alone, of ε and with Laplace noise;
    (25 √d of counts)       linear models have slopes in any case, at public levels, which shrink
    below 140               the response of a linear model stays in its declared unit
    100 √d and more         columns are centered at medians
    30 √d and more          there is an interval (:mod:`dpalgos.intervals.regression`)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpalgos.mechanisms.preconditioned.constant import (
    CONSTANT,
    constant_shares,
    lone_constant_shares,
    rate_share,
)
from dpalgos.mechanisms.preconditioned.origin import column_shares, origin_shares, released_columns
from dpalgos.models.families import Family

_MOMENT_SHARE, _START_SHARE = 0.1, 0.02  # of what the origin leaves
_ROW_SHARE, _SCORE_SHARE = 0.0875 / 6, 0.35 / 6  # the same; searches of levels, with counts about alike
_N_STEPS, _N_WHITENINGS, _N_SEARCHES = 12, 4, 7  # the first may whiten rows again; the first search levels
_FEW_STEPS, _FEW_MOMENTS, _LEFT_OUT = 5, 0.2, 2
_TOO_FEW = 14.0  # the nμ below which an answer is mostly noise, and shrinks by the square of what is lacking


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """The shares of μ² by part (of ε, where the answer is the constant alone), and the steps."""

    shares: Mapping[str, float]
    n_steps: int = 0
    n_left_out: int = 0  # of the first steps, which are no part of the combination
    n_whitenings: int = 0  # the most that may stand in the place of steps
    n_searches: int = 0  # of levels, at the first steps
    public_levels: tuple[float, float] | None = None  # of rows and of scores, in the place of searches
    is_constant: bool = False
    for_interval: bool = False
    knows_unit: bool = True  # of residuals, which is public or released
    longest: float | None = None  # that white coefficients may be
    origin_columns: Mapping[str, int] = field(default_factory=dict)  # that have centers and units


def plan_of(
    size: float,
    n_features: int,
    family: Family,
    *,
    intercept: bool,
    has_offset: bool = False,
    for_interval: bool = False,
) -> FitPlan:
    """Return how the budget is spent where ``size`` is nμ."""
    root = float(np.sqrt(n_features))
    few = size < family.few_rows * root
    if few and intercept and not family.is_linear:
        shares = lone_constant_shares(of_counts=family.has_counts, has_offset=has_offset)
        return FitPlan(shares=shares, is_constant=True)
    if few and family.is_linear:
        # Noise moves a mean of d columns by about √d C/nμ, so that C falls with nμ, down to a part of √d.
        levels = float(np.sqrt(n_features + 1)), root * max(0.07, size / 200)
        step = {f"step {t}": (1 - _FEW_MOMENTS) / _FEW_STEPS for t in range(_FEW_STEPS)}
        shares = {"moments": _FEW_MOMENTS, **step}
        return FitPlan(
            shares=shares,
            n_steps=_FEW_STEPS,
            n_left_out=_LEFT_OUT,
            public_levels=levels,
            longest=(size / _TOO_FEW) ** 2 if size < _TOO_FEW else None,
        )
    columns: dict[str, int] = {}
    shares = {}
    if family.is_linear:
        columns = released_columns(size, n_features, intercept=intercept)
        shares = origin_shares(size, columns)
    elif intercept:
        shares = (
            constant_shares(size, has_offset=has_offset)
            if family.has_counts
            else {CONSTANT: rate_share(size)}
        )
        left = 1 - sum(shares.values())
        shares |= {part: left * share for part, share in column_shares(size, n_features - 1).items()}
    elif family.has_counts:
        shares = {"start": _START_SHARE}
    left = 1 - sum(shares.values())
    shares |= {"moments": left * _MOMENT_SHARE, "rows": left * _ROW_SHARE, "scores": left * _SCORE_SHARE}
    each = (1 - sum(shares.values())) / _N_STEPS
    return FitPlan(
        shares={**shares, **{f"step {t}": each for t in range(_N_STEPS)}},
        n_steps=_N_STEPS,
        n_whitenings=_N_WHITENINGS,
        n_searches=_N_SEARCHES,
        for_interval=for_interval,
        origin_columns=columns,
    )
