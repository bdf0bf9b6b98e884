"""Whether the means of two sets of repetitions differ by more than their errors explain."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import stats

# The p-values of so many standard errors where repetitions are many.
TWO_ERRORS, THREE_ERRORS = (2 * float(stats.norm.sf(z)) for z in (2, 3))


class Mean(NamedTuple):
    """A mean, its standard error (NaN: unknown) and the number of repetitions."""

    value: float
    error: float
    repetitions: int


def p_value(first: Mean, second: Mean) -> float:
    """Return the p-value of Welch's test that two means are one; NaN where an error is unknown.

    It counts that errors of few repetitions are themselves uncertain. Means without errors are compared as
    they are.
    """
    if math.isnan(first.error) or math.isnan(second.error):
        return math.nan
    if first.error == second.error == 0:
        return float(math.isclose(first.value, second.value, rel_tol=1e-12))
    spreads = [each.error * math.sqrt(each.repetitions) for each in (first, second)]
    found = stats.ttest_ind_from_stats(
        first.value,
        spreads[0],
        first.repetitions,
        second.value,
        spreads[1],
        second.repetitions,
        equal_var=False,
    )
    return float(found.pvalue)
