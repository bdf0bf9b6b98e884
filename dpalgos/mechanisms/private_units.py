"""Units of the response and of columns, released: an estimator then works with y/s and x_j/s_j.

    s = 2^(k − 1),  2^k the lowest power of two that about a quarter of the magnitudes exceed

by a search of six counts for each of p columns at once, of which replacing a row moves every count by 1. Of
normal values of standard deviation 1 the quarter lies at 1.15, so that s is 1, and nothing changes where the
declared unit was right; s = 1/2 counts as right, too. Columns get a unit, up to 256, only if they are more
than four times too large: where most values are small the others may be large but rare (an indicator), and a
smaller unit would have them clipped.
"""

import numpy as np

from dpalgos.mechanisms.clip_levels import counts_above_places, counts_needed, search_by_counts, with_response
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.typing import FloatArray, IntArray

UNITS = "values above a level"
_POWERS = np.arange(-24, 40)
UNIT_COUNTS = counts_needed(len(_POWERS))
_ABOVE = 0.25  # of the rows
_TOO_LARGE, _LARGEST = 4.0, 256.0  # the unit from which a column gets it; larger ones would cost digits
_SURE = 16.0  # the rows over the noise of a count: errors are then four standard deviations away
_SHARES = (0.01, 0.08)


def counts_sensitivity(n_columns: int) -> float:
    """Return √p: replacing a row moves the count of each of p columns by one at most."""
    return float(np.sqrt(n_columns))


def units_share(size: float) -> float:
    """Return the share of μ² at which counts of responses are sure where ``size`` is nμ; 0: too much."""
    share = UNIT_COUNTS * (_SURE / size) ** 2
    return 0.0 if share > _SHARES[1] else float(max(share, _SHARES[0]))


def private_units(
    transcript: Transcript,
    sample: Sample,
    centers: FloatArray | None,
    *,
    with_columns: bool,
    noise_multiplier: float,
) -> FloatArray:
    """Release units of the columns of X, if wanted, and of y: (d + 1, R), 1 where none was released.

    ``centers`` (d + 1, R) times the last column of X are subtracted first.
    """
    first = 0 if with_columns else sample.n_features
    p, n_levels = sample.n_features + 1 - first, len(_POWERS)

    def powers(group: Group) -> IntArray:
        """Return the place among the levels of the lowest power of two that is not exceeded."""
        values = with_response(group)[:, first:, None]
        if centers is not None:
            values = values - group.X[:, -1, None, None] * centers[first:, group.replicates]
        mantissa, exponent = np.frexp(np.abs(values))
        lowest = np.where(mantissa == 0, _POWERS[0], exponent - (mantissa == 0.5))
        return np.asarray(np.clip(lowest - _POWERS[0], 0, n_levels))

    above = counts_above_places(sample, powers, (n_levels, p, transcript.n_replicates))
    found = search_by_counts(
        transcript,
        lambda middle: np.asarray(np.take_along_axis(above, middle[None], axis=0)[0]),
        above.shape,
        _ABOVE * sample.n_rows,
        l2_sensitivity=counts_sensitivity(p),
        noise_multiplier=noise_multiplier,
        label=UNITS,
    )
    units = np.ones((sample.n_features + 1, transcript.n_replicates))
    # At the lowest level most values are 0, which says nothing of the others.
    units[first:] = np.where(found > 0, 2.0 ** (_POWERS[found] - 1), 1.0)
    units[units == 0.5] = 1.0
    columns = units[:-1]
    columns[columns <= _TOO_LARGE] = 1.0
    columns[:] = np.minimum(columns, _LARGEST)
    return units
