"""The unit of a response, released: an estimator then works with y / s, as if s had been declared.

    s = 2^(k − 1),  2^k the lowest power of two that about a quarter of the |y| exceed

by a search of six counts, which replacing a row moves by 1 each
(:func:`dpalgos.mechanisms.clip_levels.count_sensitivity`). Of normal responses of standard deviation 1 the
quarter lies at 1.15, so that s is 1, and nothing changes where the declared unit was right.
"""

import numpy as np

from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.typing import FloatArray

RESPONSES_ABOVE = "responses above a level"
_LEVELS = 2.0 ** np.arange(-24, 40)
UNIT_COUNTS = counts_needed(len(_LEVELS))
_ABOVE = 0.25  # of the rows


def response_unit(transcript: Transcript, sample: Sample, *, noise_multiplier: float) -> FloatArray:
    """Return the unit s of the response, (R,), a power of two."""

    def sizes(group: Group) -> FloatArray:
        return np.asarray(np.abs(group.y)[:, None] * group.weights)

    level = search_level(
        transcript,
        _LEVELS,
        _ABOVE * sample.n_rows,
        sample.grouped(sizes),
        noise_multiplier=noise_multiplier,
        label=RESPONSES_ABOVE,
    )
    # At the lowest level most responses are 0, which says nothing of the others.
    return np.asarray(np.where(level > _LEVELS[0], level / 2, 1.0))


def in_units(coordinates: FloatArray | None, unit: FloatArray, n_features: int) -> FloatArray:
    """Return coordinates (R, d + 1, d + 1) of rows [x, y], or none, with responses in a unit (R,)."""
    if coordinates is None:
        coordinates = np.broadcast_to(np.eye(n_features + 1), (len(unit), n_features + 1, n_features + 1))
    scaled = coordinates.copy()
    scaled[:, -1, -1] /= unit
    return scaled
