"""Units of privacy that are not single rows: people with several rows, and rows with weights.

Each query of an estimator is a mean of clipped contributions of rows. A unit contributes the weighted sum of
its rows' contributions. The weights of a unit's rows lie in [0, 1] and sum to at most 1. The set of clipped
contributions is convex, and contains 0 where weights may sum to less than 1. Therefore the sensitivities for
rows hold for units with any number of rows. n is then the public number of units.

With weights w_i, at most w_max, and a unit of m rows, row i weighs

    person_weight="equal":   w_i/(w_max m)
    person_weight="rows":    w_i/(w_max k), for at most k rows of a unit; other rows weigh 0

Without weights w_i, rows of equal persons weigh 1/m, and a unit weighs 1. In all other cases, the sum of all
weights is private. It is released, and replaces n in means and sensitivities
(:meth:`dpalgos.core.rows.Rows.with_total`).

Bit by bit, what is computed for one unit depends on no other unit. Products with rows are computed column by
column (:func:`dpalgos.rows.products.row_products`), since the last rows of a matrix product are summed in
another order.
"""

import numpy as np

from dpalgos.rows.group import PrivacyUnits
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import public_positions
from dpalgos.typing import FloatArray


def weighted_units(sample: Sample, max_rows: int | None = None, max_weight: float | None = None) -> Sample:
    """Return a sample of one replicate whose rows know their unit and their weight, if there are any.

    ``max_rows`` and ``max_weight`` are the keywords of :class:`dpalgos.core.units.UnitEstimator`.
    """
    if sample.user_codes is None and sample.row_weights is None:
        return sample
    if sample.user_codes is not None and not sample.rows.streamed:
        sample = sample.derived(rows=np.argsort(sample.user_codes, kind="stable"))
    n = len(sample.rows)
    used = np.ones(n, dtype=bool) if sample.row_mask is None else sample.row_mask[:, 0]
    weights: FloatArray = np.zeros(n)
    weights[used] = 1.0
    if sample.row_weights is not None and max_weight is not None:
        weights[used] = np.clip(sample.row_weights[used] / max_weight, 0.0, 1.0)
    if sample.user_codes is None:
        return sample.with_units(PrivacyUnits(None, weights, float(sample.n_rows[0])))
    sizes = np.bincount(sample.user_codes[used], minlength=int(sample.user_codes.max()) + 1)
    codes = sample.user_codes
    if not sizes.all():
        codes = (np.cumsum(sizes > 0) - 1)[codes]  # without gaps
    sizes = sizes[sizes > 0]
    starts = None if sample.rows.streamed else np.append(0, np.cumsum(sizes))
    if max_rows is None:
        weights[used] /= sizes[codes[used]]
    else:
        weights /= max_rows
        if sizes.max() > max_rows:
            weights[used] *= public_positions(codes[used]) < max_rows
    return sample.with_units(PrivacyUnits(codes, weights, float(len(sizes)), starts))
