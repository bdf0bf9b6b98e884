"""Sums by group for the baseline table of a paper ("Table 1"), from one release.

    size of a group    Σ w,   w = the weight of a row in its person, 1 for rows that are persons
    share of level l   Σ w 1(level is l)
    number z           Σ w clip(z, −1, 1),   and Σ w 1(cell of z is k) in K = 128 ordered cells of [−1, 1]
    outside            Σ w 1(z is outside [−1, 1])
    missing cells      Σ w 1(the number is missing),   of a number that may lack cells

The first column of X is the code of the group, 1 … G. Each further column is a variable: the code of a
level, 1 … L, or a number in public units. Any other code is of no group, or of no level. A row of no group
counts nowhere, as does a row of zeros. The first cell of a number holds the value −1 alone; the others have
equal widths.

A number that was clipped before is outside if it is marked so (:class:`dpalgos.rows.sample.Sample`).

If a number may lack cells, a value of 2 or more is a missing cell. It counts in the sum of missing cells, and
in no other sum of the variable. Missing cells of a category are one more level.

All sums get independent Gaussian noise of one size σ. The cells h of a number are released as A h, and the
estimate has A⁻¹ (A h + noise). A is the square root of the matrix of cumulative sums
(:func:`dpalgos.central.cumulative_counts.strategy`). A cumulative count has noise of at most 1.7σ in this
way; with plain counts, it would have up to √128 σ.

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``levels``: G, and the number of levels of
each variable, 0 for a number, −1 for a number that may lack cells. A person with several rows counts with
weights that sum to 1.

    release          sensitivity (ℓ2)                     share of μ²
    sums by group    the largest distance of two rows     1

Sensitivity. A row contributes 1 for its group, 1 for each category, z, and a column a_k of A for each number.
Values in cell k lie between l_k and u_k. The squared distance of two rows is at most

    within a group:    Σ_categories 2 + Σ_numbers max_{j,k} [ (u_j − l_k)² + ‖a_j − a_k‖² + e_jk ]

    of two groups:     2 [ 1 + Σ_categories 1 + Σ_numbers max_k ( max(l_k², u_k²) + ‖a_k‖² + e_k ) ]

A number from outside is in the first or last cell. For these cells e_k is 1, else 0. e_jk is the larger one
of e_j and e_k. Two rows attain the maximum of the two lines. If there is one group, the second line is
halved: the other row is of no group. A category of one level counts 1 in the first line: the other row is of
no level.

A missing number adds 1 to one sum. Its square is 1, and its squared distance to a number is at most
1 + max_k ( max(l_k², u_k²) + ‖a_k‖² + e_k ) = 5.6. Numbers attain 4.6 and 8.7. Therefore the two lines hold.

A person contributes a convex combination of rows. Therefore these distances also bound those of persons.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpalgos.catalog import Form, register
from dpalgos.central.cumulative_counts import strategy
from dpalgos.core.estimator import PrivateEstimator, Witnesses
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import Lemmas, Neighbors, lemma
from dpalgos.mechanisms.witnesses import pair
from dpalgos.params import checked, for_columns
from dpalgos.release.checks import is_number
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

N_CELLS = 128
_ENDS = 0, N_CELLS - 1  # the cells of numbers from outside
_OUTSIDE = -1.5  # for example
MISSING = 2.0  # and more: a missing cell of a number that may lack cells
MAY_LACK = -1  # in place of a number of levels
_TOLERANCE = 1e-9  # of the range: values next to an upper end of a cell are in that cell
SUMS = "sums by group"


def check_numbers_of_levels(name: str, value: object) -> tuple[int, ...]:
    """Return numbers of levels as a tuple; refuse others."""
    numbers = np.atleast_1d(np.asarray(value, dtype=object))
    if (
        numbers.ndim != 1
        or not all(is_number(each) and each == each // 1 and MAY_LACK <= each < 10_000 for each in numbers)
        or not len(numbers)
        or numbers[0] < 1
    ):
        raise InputError(
            f"{name} must be whole numbers from -1 to 9999, one per column, the first at least 1, got "
            f"{shown(value)}; pass the number of groups, then of each variable's levels, 0 for "
            "numbers, -1 for numbers that may lack cells"
        )
    return tuple(int(each) for each in numbers)


def sums_per_group(levels: tuple[int, ...]) -> int:
    """Return how many sums are released for a group."""
    return 1 + sum(each if each > 0 else 2 + N_CELLS - each for each in levels[1:])


@lru_cache
def cell_strategy() -> FloatArray:
    """Return A, (K, K)."""
    return strategy(N_CELLS)


def cell_edges() -> FloatArray:
    """Return the largest value of each cell, (K,)."""
    return np.linspace(-1.0, 1.0, N_CELLS)


def cell_of(z: FloatArray) -> IntArray:
    """Return the cell of each value in [−1, 1], (n,)."""
    place = (z + 1) / 2 * (N_CELLS - 1)
    return np.clip(np.ceil(place - _TOLERANCE * N_CELLS), 0, N_CELLS - 1).astype(int)


@lru_cache
def _number_distances() -> tuple[float, int, int, float]:
    """Return the largest squared distance of two numbers with their cells, and the largest square of one."""
    A, upper = cell_strategy(), cell_edges() + 2 * _TOLERANCE
    lower = np.append(-1.0, cell_edges()[:-1])
    products = A.T @ A
    squares = np.diag(products)
    farthest = np.maximum(np.abs(upper[:, None] - lower), np.abs(lower[:, None] - upper))
    is_end = np.isin(np.arange(N_CELLS), _ENDS)
    within = farthest**2 + squares[:, None] + squares - 2 * products + (is_end[:, None] | is_end)
    j, k = np.unravel_index(np.argmax(within), within.shape)
    alone = np.maximum(lower**2, np.minimum(upper, 1.0) ** 2) + squares + is_end
    return float(within.max()), int(j), int(k), float(alone.max())


@lemma("largest distance of two rows")
def table_sensitivity(levels: tuple[int, ...]) -> FloatArray:
    """Return the largest ‖row − row'‖ of released sums: within one group, or across two."""
    return np.asarray(np.sqrt(max(_squares(levels))))


def _squares(levels: tuple[int, ...]) -> tuple[float, float]:
    """Return the largest squared distance within a group, and across two groups or to no group."""
    number_within, _, _, number_alone = _number_distances()
    within = sum(float(min(each, 2)) if each > 0 else number_within for each in levels[1:])
    alone = 1 + sum(1.0 if each > 0 else number_alone for each in levels[1:])
    return within, min(levels[0], 2) * alone


def _within_a_group(levels: tuple[int, ...]) -> Neighbors:
    """Return two rows of one group: other levels, and numbers in the two farthest cells."""
    _, _, k, _ = _number_distances()
    far = float(cell_edges()[k])
    one, other = (
        [1.0 if each > 0 else _OUTSIDE for each in levels],
        [2.0 if each > 0 else far for each in levels],
    )
    return pair(one, [1.0, *other[1:]])


def _of_two_groups(levels: tuple[int, ...]) -> Neighbors:
    """Return rows of two groups, or of one and none, with numbers in the longest cell."""
    row = [1.0 if each > 0 else _OUTSIDE for each in levels]
    return pair(row, [2.0, *row[1:]])


def _witness(params: Any, d: int) -> Neighbors:
    """Return the pair whose distance is the maximum."""
    levels = of_columns(params.levels, d)
    within, across = _squares(levels)
    return (_within_a_group if within > across else _of_two_groups)(levels)


def of_columns(levels: tuple[int, ...], d: int) -> tuple[int, ...]:
    """Return the number of levels of each column; refuse another number of columns."""
    return tuple(for_columns("levels", levels, d)[:, 0].astype(int).tolist())


def check_columns(sample: Sample, params: Any) -> None:
    """Refuse another number of columns."""
    of_columns(params.levels, sample.n_features)


@register(
    name="group_sums",
    title="Sums by group",
    order=87,
    task="sums",
    reference="ours; cells by the square root of Fichtenberger, Henzinger & Upadhyay (2023)",
    summary="Sizes, shares, means and quartiles by group, from one release of sums.",
    calibrations=("tight",),
    example={"levels": (2, 3, 0)},
    no_interval="baseline tables made of its sums have limits",
    check_data=check_columns,
    forms={
        "categories": Form(keywords={"levels": 2}),
        "one group": Form(keywords={"levels": (1, 0, 0)}),
        "missing cells": Form(keywords={"levels": (2, 3, MAY_LACK)}),
        "people": Form(keywords={}, of_people=True),
    },
    takes_people=True,
)
@dataclass(frozen=True, kw_only=True)
class GroupSums(PrivateEstimator):
    """The sums of each group, one group after another, (G · sums per group,)."""

    levels: tuple[int, ...] = checked(
        "the number of groups, then of the levels of each variable, 0 for a number, -1 if it may lack cells",
        check_numbers_of_levels,
    )

    weighs_people = True
    lemmas: ClassVar[Lemmas] = {SUMS: table_sensitivity}
    witnesses: ClassVar[Witnesses] = {SUMS: _witness}

    def plan(self, n: float, d: int) -> Plan:
        of_columns(self.levels, d)
        return gaussian_plan(self.epsilon, self.delta, {SUMS: Share(1.0)})

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        levels = of_columns(self.levels, rows.d)
        shape, A = (levels[0], sums_per_group(levels)), cell_strategy()
        totals = rows.sum(lambda block: _sums(block, levels))
        encoded = _through_cells(totals, levels, A).ravel()
        released = spend(SUMS, table_sensitivity.of(encoded, levels)).value
        return _through_cells(released.reshape(shape), levels, np.linalg.inv(A)).ravel()

    def largest_release(self, d: int) -> int:
        return self.levels[0] * sums_per_group(self.levels)


def _codes(values: FloatArray, n_codes: int) -> IntArray:
    """Return codes from 0 to n_codes − 1, (n,), and ``n_codes`` for a value that is none of 1 … n_codes."""
    is_code = (values >= 1) & (values <= n_codes) & (values == np.floor(values))
    return np.where(is_code, values - 1, n_codes).astype(int)


def _sums(block: Block, levels: tuple[int, ...]) -> FloatArray:
    """Return the sums of each group over some rows, (G, width)."""
    n_groups = levels[0]
    codes = _codes(block.X[:, 0], n_groups)

    def by_group(place: IntArray, n_places: int, values: FloatArray | None = None) -> FloatArray:
        """Return sums by group and place, (G, n_places), without the last group and place, which are none."""
        cells, shape = codes * (n_places + 1) + place, (n_groups + 1, n_places + 1)
        return block.histogram(cells, shape[0] * shape[1], values).reshape(shape)[:-1, :-1]

    everywhere, moved = np.zeros(len(codes), dtype=int), block.clipped_cells
    parts = [by_group(everywhere, 1)]
    for column, n_levels in enumerate(levels[1:], 1):
        if n_levels > 0:
            parts.append(by_group(_codes(block.X[:, column], n_levels), n_levels))
            continue
        values = block.X[:, column].astype(float)
        is_missing = (values >= MISSING) & (n_levels == MAY_LACK)
        z = np.where(is_missing, 0.0, np.clip(values, -1.0, 1.0))
        parts += [by_group(everywhere, 1, z)]
        cells = np.where(is_missing, N_CELLS, cell_of(z))
        is_outside = np.abs(values) > 1 + _TOLERANCE
        is_outside = is_outside if moved is None else is_outside | moved[:, column]
        parts += [by_group(cells, N_CELLS), by_group(np.where(is_outside & np.isin(cells, _ENDS), 0, 1), 1)]
        if n_levels == MAY_LACK:
            parts.append(by_group(np.where(is_missing, 0, 1), 1))
    return np.hstack(parts)


def _through_cells(sums: FloatArray, levels: tuple[int, ...], matrix: FloatArray) -> FloatArray:
    """Multiply the cells of each number by a matrix, in sums (G, width)."""
    result, start = sums.copy(), 1
    for n_levels in levels[1:]:
        start += max(n_levels, 0) or 1
        if n_levels <= 0:
            cells = slice(start, start + N_CELLS)
            result[:, cells] = sums[:, cells] @ matrix.T
            start += 1 + N_CELLS - n_levels
    return result
