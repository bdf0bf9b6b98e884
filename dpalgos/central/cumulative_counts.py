"""Counts of rows in ordered cells, with noise that is small in their cumulative sums.

    ĥ = A⁻¹ (A h + noise),   h_j = number of rows whose largest entry, if positive, is in column j

Columns are cells, chain after chain; a chain is ``chain`` cells in order, such as the periods of a study. A
row counts in one cell: 1 in its column and 0 elsewhere. If all entries are 0 or less, it counts in none. A
person with several rows counts in the cell of their mean.

    chain ≤ 9    A is the identity: plain counts
    chain > 9    A is, by chain, the square root of the matrix of cumulative sums: a_0 = 1,
                 a_i = a_{i−1} (1 − 1/(2i)) below the diagonal

Both are unbiased. Plain counts have independent noise, which adds up in cumulative sums: after m cells it has
m times the variance. With the square root, the variance grows like log² m.

    periods of a survival curve            4      8      16     32
    error, square root over plain counts   1.06   0.98   0.87   0.74    1,000 persons in two groups, ε = 1

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``chain`` and the number of columns. The
sensitivity is the largest distance of two columns of A, or of a column and 0. The replaced row leaves one
cell, or none, and its replacement enters one, or none.

Reference: Fichtenberger, Henzinger & Upadhyay (2023), Constant matters: fine-grained error bound on
differentially private continual observation.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpalgos.catalog import Form, Release, register
from dpalgos.params import PrivateParams, count
from dpalgos.release.declared import lemma
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

_LONGEST_PLAIN = 9


@dataclass(frozen=True, kw_only=True)
class CumulativeCountsParams(PrivateParams):
    """Keywords of :func:`cumulative_counts`."""

    chain: int = count("the number of ordered cells in a chain; columns are chain after chain")


def strategy(chain: int, n_cells: int) -> FloatArray:
    """Return A, (n_cells, n_cells); the last chain may be shorter."""
    if chain <= _LONGEST_PLAIN:
        return np.eye(n_cells)
    i = np.arange(1, chain)
    first = np.cumprod(np.append(1.0, 1 - 1 / (2 * i)))
    cell = np.arange(n_cells)
    below = cell[:, None] - cell
    in_chain = (below >= 0) & (cell[:, None] // chain == cell // chain)
    return np.where(in_chain, first[np.where(in_chain, below, 0)], 0.0)


def noise_covariance(chain: int, noise_std: float) -> FloatArray:
    """Return the covariance of the noise in the counts of a full chain, (chain, chain)."""
    inverse = np.linalg.inv(strategy(chain, chain))
    return np.asarray(noise_std**2 * inverse @ inverse.T)


@lru_cache(maxsize=64)
def farthest_cells(chain: int, n_cells: int) -> tuple[int, int, float]:
    """Return two cells whose columns of A are farthest apart, and their distance; the cell −1 is none."""
    columns = np.column_stack([strategy(chain, n_cells), np.zeros(n_cells)])
    products = columns.T @ columns
    squares = np.diag(products)
    distances = squares[:, None] + squares - 2 * products
    pair_index = np.unravel_index(np.argmax(distances), distances.shape)
    one, other = (int(j) if j < n_cells else -1 for j in pair_index)
    return one, other, float(np.sqrt(distances.max()))


@lemma("max ‖a_i − a_j‖")
def cell_sensitivity(chain: int, n_cells: int) -> FloatArray:
    """Return the largest ‖a_i − a_j‖ over columns of A and 0: the replaced row's cells before and after."""
    return np.asarray(farthest_cells(chain, n_cells)[2])


COUNTS = Release("counts by cell", cell_sensitivity)


@register(
    title="Counts in ordered cells",
    order=86,
    task="counts",
    reference="ours; the square root of Fichtenberger, Henzinger & Upadhyay (2023)",
    summary="Counts in ordered cells, from which survival curves by group follow.",
    calibrations=("tight",),
    example={"chain": 2},
    no_interval="survival curves made of its counts have limits",
    releases=(COUNTS,),
    forms={
        "square root": Form(keywords={"chain": 12}),
        "people": Form(keywords={"chain": 3}, of_people=True, in_memory=True),
    },
    takes_people=True,
)
def cumulative_counts(sample: Sample, params: CumulativeCountsParams, transcript: Transcript) -> FloatArray:
    """Return unbiased counts by cell, (d, R)."""
    d = sample.n_features

    def cells(group: Group) -> IntArray:
        return np.where(group.X.max(axis=1) > 0, group.X.argmax(axis=1), d)

    def counts(group: Group, cell: IntArray) -> FloatArray:
        return np.stack([np.bincount(cell, own, d + 1)[:d] for own in group.weights.T], axis=1)

    shape = d, sample.n_replicates
    totals = map_groups(sample, cells).total(shape, counts)
    A = strategy(params.chain, d)
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, {COUNTS: Planned(1.0)})
    released, _ = spend(COUNTS, cell_sensitivity.of(A @ totals, params.chain, d))
    spend.check_complete()
    return np.linalg.solve(A, released)
