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

The sum of a unit's rows with these weights is its own contribution: for equal persons the mean of their rows.

Bit by bit, what is computed for one unit depends on no other unit. Products with rows are computed column by
column (:func:`dpalgos.rows.products.row_products`), since the last rows of a matrix product are summed in
another order.
"""

from typing import Any, NamedTuple

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.checks import unmasked
from dpalgos.spelling import composed
from dpalgos.typing import BoolArray, FloatArray, IntArray

_LEAST_SHARE = 1e-12


class PrivacyUnits(NamedTuple):
    """Units of privacy: ``codes`` (n,) tell the unit of each row, None if each is one.

    ``weights`` (n,) are of rows, and sum to at most 1 in a unit. ``n_units`` is their public number. If rows
    are sorted by unit, ``starts`` (units + 1,) are the first rows of units and the end. Rows that are shares
    of what they belong to have a ``whole`` weight each, for sums that are clipped as a whole.
    """

    codes: IntArray | None
    weights: FloatArray
    n_units: float
    starts: IntArray | None = None
    whole: FloatArray | None = None


def weighted_units(
    codes: IntArray | None,
    used: BoolArray,
    row_weights: FloatArray | None,
    max_rows: int | None,
    max_weight: float,
    *,
    is_sorted: bool,
    shares: FloatArray | None = None,
) -> PrivacyUnits:
    """Return the units of rows (n,): of users by their codes, or single rows without.

    Rows that are not ``used`` weigh 0. ``is_sorted`` says whether all rows are used and sorted by user.
    ``shares`` of rows are scaled to sum to 1 in a unit of any number of rows.
    """
    weights = used.astype(float)
    if row_weights is not None:
        weights[used] = np.clip(row_weights[used] / max_weight, 0.0, 1.0)
    if codes is None:
        return PrivacyUnits(None, weights, float(np.count_nonzero(used)))
    sizes = np.bincount(codes[used], minlength=int(codes.max()) + 1)
    if not sizes.all():
        codes = (np.cumsum(sizes > 0) - 1)[codes]  # without gaps
    sizes = sizes[sizes > 0]
    if shares is not None:
        parts = np.where(used, np.clip(shares, _LEAST_SHARE, 1.0), 0.0)
        parts /= np.maximum(np.bincount(codes, parts)[codes], _LEAST_SHARE)
        starts = np.append(0, np.cumsum(sizes)) if is_sorted else None
        return PrivacyUnits(codes, weights * parts, float(len(sizes)), starts, whole=weights)
    if max_rows is None:
        weights[used] /= sizes[codes[used]]
    else:
        weights /= max_rows
        if sizes.max() > max_rows:
            weights[used] *= public_positions(codes[used]) < max_rows
    starts = np.append(0, np.cumsum(sizes)) if is_sorted else None
    return PrivacyUnits(codes, weights, float(len(sizes)), starts)


def public_positions(codes: IntArray) -> IntArray:
    """Return the place of each row among its user's rows, (n,), in an order by public random numbers.

    It depends on no value and on no other user.
    """
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
    sizes = np.diff(np.r_[starts, len(codes)])
    place: IntArray = np.arange(len(codes)) - np.repeat(starts, sizes)
    # The first numbers of the generator are the same however many are drawn.
    drawn = np.random.default_rng(0).random(int(sizes.max()))[place]
    positions: IntArray = np.empty(len(codes), dtype=np.int64)
    positions[order[np.lexsort((drawn, codes[order]))]] = place
    return positions


def count_users(user_ids: object, n_rows: int) -> int:
    """Return how many users the ids of rows name, as :class:`dpalgos.Sample` counts them."""
    return int(user_codes(user_ids, n_rows).max(initial=-1)) + 1


def user_codes(user_ids: object, n_rows: int) -> IntArray:
    """Return an integer code per row for the user it belongs to, (n,); no message shows an id.

    An id is a whole number below 2^53 or text: ``"7"`` and ``"007"`` are two users. Texts that look
    the same, with accents or µ in another Unicode form, are one user.
    """
    # A list of numbers and text would become text.
    values: Any = unmasked("user_ids", user_ids)
    ids = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    if ids.ndim != 1 or len(ids) != n_rows:
        raise InputError(f"user_ids must have one entry per row of X ({n_rows}), got shape {ids.shape}")
    if ids.dtype == object:
        entries = ids.tolist()
        is_one_kind = any(
            all(isinstance(one, allowed) for one in entries) for allowed in (str, int | np.integer)
        )
        if not is_one_kind or any(isinstance(one, bool) for one in entries):
            raise InputError(
                "user_ids must be all whole numbers or all text, none missing, got other, missing or mixed "
                "ones; correct the column"
            )
        ids = np.array(entries)
    if ids.dtype.kind not in "iufU":
        raise InputError(f"user_ids must be whole numbers or text, got dtype {ids.dtype}; convert them")
    if ids.dtype.kind == "f":
        bits = np.finfo(ids.dtype).nmant + 1  # from 2^bits on, two whole numbers may be one
        if not ((np.abs(ids) < 2.0**bits) & (ids == np.rint(ids))).all():
            raise InputError(
                f"user_ids must be whole numbers below 2^{bits} or text, got missing or other numbers; "
                "correct the column"
            )
    distinct, codes = np.unique(ids, return_inverse=True)
    if ids.dtype.kind == "U":
        codes = np.unique([composed(each) for each in distinct.tolist()], return_inverse=True)[1][codes]
    return np.asarray(codes)
