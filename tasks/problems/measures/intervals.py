"""How often intervals cover the truth, how wide they are, and how many coordinates have none.

The truth is what rows were simulated with, or the estimate of a whole table, from which rows are drawn with
replacement.
"""

from typing import Any

import numpy as np

import dpalgos
from tasks.problems.problem import Draw, HeadlineRun, Measure, Measured, Traits

ERROR = "l2_error"
COVERAGE = "coverage"
FLAGGED = "flagged"
PIVOT = "squared_error_over_half_width"
NAIVE_COVERAGE = "coverage_without_noise"
SIGNS = "signs_known"
_THERE, _NAIVE_THERE = "has_interval", "has_interval_without_noise"


def measure_coverage(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    """Return the error, and means over coordinates of what the names say.

    Coordinates without an interval are not covered, and their squares are 0. A sign is known if the interval
    lies on the side of zero that the target is on.
    """
    assert draw.target is not None
    target = draw.target[:, None]
    off = np.abs(draw.columns(answer.estimate) - target)
    lower = upper = np.full_like(off, np.nan)
    if answer.interval is not None:
        lower, upper = (draw.columns(end) for end in answer.interval)
    half = (upper - lower) / 2
    there = np.isfinite(half)
    half_widths = answer.intervals.without_noise if answer.intervals is not None else None
    naive = np.broadcast_to(np.nan if half_widths is None else half_widths, off.shape)
    middle_off = np.where(there, np.abs((lower + upper) / 2 - target), 0.0)
    shares = {
        _THERE: there,
        COVERAGE: (lower <= target) & (target <= upper),
        PIVOT: (middle_off / np.where(there, half, 1.0)) ** 2,
        NAIVE_COVERAGE: off <= naive,
        _NAIVE_THERE: np.isfinite(naive),
        SIGNS: ((lower > 0) & (target > 0)) | ((upper < 0) & (target < 0)),
    }
    means = {name: share.mean(axis=0) for name, share in shares.items()}
    return {ERROR: np.linalg.norm(off, axis=0), **means}


def _metrics(traits: Traits, measured: Measured) -> Measured:
    """Return the error; coverage and width of the coordinates that have intervals, NaN where none has."""
    there = measured[_THERE]
    some = np.where(there > 0, there, np.nan)
    return {
        ERROR: measured[ERROR],
        COVERAGE: measured[COVERAGE] / some,
        FLAGGED: 1 - there,
        PIVOT: measured[PIVOT] / some,
        NAIVE_COVERAGE: np.where(measured[_NAIVE_THERE] > 0, measured[NAIVE_COVERAGE], np.nan),
        SIGNS: measured[SIGNS],
    }


def _exhibits(traits: Traits, run: HeadlineRun) -> dict[str, Any]:
    names = {
        "coverage": COVERAGE,
        "flagged": FLAGGED,
        "pivot": PIVOT,
        "naive": NAIVE_COVERAGE,
    }
    return {"covered_shares": {**names, "n": run.replicates.n}}


# The coverage of a result's intervals, for any source whose target is in the coefficients' units.
INTERVALS = Measure(
    measure=measure_coverage,
    metric=lambda traits: ERROR,
    metrics=_metrics,
    exhibits=_exhibits,
    of_intervals=True,
)
