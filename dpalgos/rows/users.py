"""The rows of a sample user by user, for estimators that protect everything that a person contributed.

Every user counts once: a user's vector is the mean over that user's own rows, whatever their number. The
estimate is a mean over users. So a user with half of all rows moves it as much as a user with one row.
"""

from functools import cached_property
from typing import Any

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.release.checks import unmasked
from dpalgos.spelling import composed
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 4096


class UserRows:
    """The rows that one replicate uses, sorted by user; ``n_rows`` (n_users,) counts those of each user.
    ``starts`` (n_users,) is the first row of each.

    ``codes`` (n,) are any numbers, the same for rows of one user.
    """

    def __init__(self, X: FloatArray, y: FloatArray | None, codes: IntArray) -> None:
        if (codes[1:] < codes[:-1]).any():
            order = np.argsort(codes, kind="stable")
            X, y, codes = X[order], None if y is None else y[order], codes[order]
        self.X, self._y = X, y
        self.starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        self.n_rows = np.diff(np.r_[self.starts, len(codes)])

    @property
    def y(self) -> FloatArray:
        """Return the responses, or refuse if there are none."""
        if self._y is None:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")
        return self._y

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.starts)

    def predictors(self, coef: FloatArray) -> FloatArray:
        """Return x'θ of every row at θ (d,), (n,): a row's number depends on no other row, bit by bit.

        A matrix product does not have this property. Its last rows are summed in another order. Then one
        user's number of rows would change what is computed for other users.
        """
        used = np.flatnonzero(coef)
        if (
            len(used) <= 1
        ):  # a candidate of one column, or the start of a descent: the same bits, without sums
            return np.asarray((self.X[:, used] * coef[used]).sum(axis=1))
        products = np.empty(len(self.X))
        for start in range(0, len(self.X), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            products[rows] = (self.X[rows] * coef).sum(axis=1)
        return products

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean over each user's rows of values (n, k), (n_users, k)."""
        return self._averages(np.ones(len(values)), values)

    def mean_products(self, factors: FloatArray) -> FloatArray:
        """Return the mean over each user's rows of factor · x, (n_users, d), for factors (n,)."""
        return self._averages(factors, self.X)

    def _averages(self, factors: FloatArray, values: FloatArray) -> FloatArray:
        ends = np.append(self.starts, len(values))
        return np.asarray(sums_by_user(factors, values, ends) / self.n_rows[:, None])

    def taken(self, chosen: BoolArray) -> "UserRows":
        """Return some of the users, (n_users,)."""
        rows = np.repeat(chosen, self.n_rows)
        codes = np.repeat(np.arange(self.n_users), self.n_rows)[rows]
        return UserRows(self.X[rows], None if self._y is None else self._y[rows], codes)

    def at_most(self, n_rows: int) -> "UserRows":
        """Keep at most so many rows of each user, chosen by their positions among that user's rows.

        The choice depends on no value and on no other user: replacing a user changes only that user's rows.
        Positions are ordered by public random numbers. Therefore a file sorted by date does not lose all late
        rows.
        """
        if self.largest <= n_rows:
            return self
        codes = np.repeat(np.arange(self.n_users), self.n_rows)
        kept = np.flatnonzero(public_positions(codes) < n_rows)
        return UserRows(self.X[kept], None if self._y is None else self._y[kept], codes[kept])

    @cached_property
    def largest(self) -> int:
        """Rows of the user who has most."""
        return int(self.n_rows.max())


def sums_by_user(factors: FloatArray, values: FloatArray, ends: IntArray) -> FloatArray:
    """Return the sums of factors (n,) times values (n, k) over each user's rows, (n_users, k).

    Rows are sorted by user. ``ends`` (n_users + 1,) are the first rows of users, and n. A user's sum depends
    on no other user, bit by bit.
    """
    # A sparse product makes no array of all products, and is faster than `np.add.reduceat` by rows.
    places = np.arange(len(values))
    own = scipy.sparse.csr_array((factors, places, ends), shape=(len(ends) - 1, len(values)))
    return np.asarray(own @ values)


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
