"""Sums over the rows for several estimators in one pass.

A product with a wide design takes as long as reading the design, so that several take little longer than one
if they are requested together. Estimators are plain functions that don't know of each other. Each runs in a
thread of its own, but one at a time: until it needs a sum over the rows, or has ended. When all of them wait,
one pass makes all the sums, and they go on in their order. No two of them are at work at the same time: what
they share needs no locks, and the answers do not depend on time. Threads may share the work of a pass, a few
blocks of rows each; what they compute is added up in the order of the rows.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count, islice
from typing import Any, TypeVar

import numpy as np

from dpalgos.rows.blocks import Rows, Span
from dpalgos.rows.threads import in_order
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")
_BLOCKS_TOGETHER = 4  # whose entries the processor's last cache holds
_DENSE = 4  # one column in so many, above which a product with all takes less time than a search


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSum:
    """A sum over the rows that an estimator asks for: of x_i f_i, in each of R = ``n_columns`` columns.

    Entries are truncated to ± ``bound`` and multiplied in ``dtype`` within a block; blocks are summed in
    double precision. ``factors`` maps predictors (m, R), or None, and the slice of the m rows to the f_i (m,
    R). Predictors are made where ``coef`` (d, R) is given: where most entries are zero, of the others alone.
    Of a ``mask`` (n, R) column r says which rows are added to the sum; predictors of others are not made.
    """

    n_columns: int
    dtype: np.dtype[np.floating]
    bound: np.floating | None
    factors: Callable[[FloatArray | None, slice], FloatArray]
    coef: FloatArray | None = None
    mask: BoolArray | None = None

    @cached_property
    def supports(self) -> list[IntArray]:
        """The nonzero entries of each column of sparse coefficients; of dense ones or none nothing."""
        if self.coef is None or _DENSE * np.count_nonzero(self.coef.any(axis=1)) >= len(self.coef):
            return []
        return [np.flatnonzero(column) for column in self.coef.T]

    @property
    def entries(self) -> tuple[str, float | None, int]:
        """Precision, bound and mask, which decide the entries that are multiplied."""
        return self.dtype.str, None if self.bound is None else float(self.bound), id(self.mask)


def truncated(block: FloatArray, dtype: np.dtype[np.floating], bound: np.floating | None) -> FloatArray:
    """Return a block in a precision, its entries truncated to ± a bound."""
    block = block.astype(dtype, copy=False)
    return block if bound is None else np.clip(block, -bound, bound)


def row_sums(rows: Rows, wanted: Sequence[RowSum], threads: int = 1) -> list[FloatArray]:
    """Return the sums (R, d) in one pass; the number of threads does not change a bit of them."""
    kinds: dict[tuple[str, float | None, int], list[int]] = {}
    for place, one in enumerate(wanted):
        kinds.setdefault(one.entries, []).append(place)
    totals: list[FloatArray] = [np.empty(0)] * len(wanted)
    for places in kinds.values():
        alike = [wanted[place] for place in places]
        if sum(support.size for one in alike for support in one.supports) > rows.shape[1]:
            rows.hold_columns(threads)  # a row by row search for a few numbers takes as long as a product
        ends = np.cumsum([one.n_columns for one in alike])
        total: FloatArray = np.zeros((ends[-1], rows.shape[1]))
        for parts in in_order(partial(_products, rows, alike), _spans(rows), 1 if rows.streamed else threads):
            for used, product in parts:
                total[used] += product
        for place, part in zip(places, np.split(total, ends[:-1]), strict=True):
            totals[place] = part
    return totals


def _products(rows: Rows, alike: Sequence[RowSum], span: Span) -> list[tuple[BoolArray | slice, FloatArray]]:
    """Return which columns the rows of each block are added to, and what is added."""
    mask, dtype, bound = alike[0].mask, alike[0].dtype, alike[0].bound
    entries = [truncated(block, dtype, bound) for _, block in span]
    chosen = slice(span[0][0].start, span[-1][0].stop)
    marked = None if mask is None else mask[chosen]
    factors = [
        one.factors(u, chosen).T.astype(one.dtype, copy=False)
        for one, u in zip(alike, _predictors(rows, span, entries, alike, marked), strict=True)
    ]
    together = factors[0] if len(factors) == 1 else np.concatenate(factors)
    if marked is not None:
        together = together * np.tile(marked.T, (len(alike), 1))
    ends_of_blocks = np.cumsum([len(block) for block in entries])
    products: list[tuple[BoolArray | slice, FloatArray]] = []
    for block, own in zip(entries, np.split(together, ends_of_blocks[:-1], axis=1), strict=True):
        used: BoolArray = np.asarray(own.any(axis=1))  # not so where a replicate has none of these rows
        products.append((slice(None), own @ block) if used.all() else (used, own[used] @ block))
    return products


def sparse_predictors(rows: Rows, coef: FloatArray, bound: np.floating | None) -> FloatArray:
    """Return the products of all rows, held by column, with sparse coefficients (d, R), (n, R)."""
    supports = [np.flatnonzero(column) for column in coef.T]
    return np.concatenate([_by_column(rows, span, supports, coef, bound) for span in _spans(rows)])


def _spans(rows: Rows) -> Iterator[Span]:
    """Yield a few blocks at a time, so that factors are computed less often; one where rows are streamed."""
    blocks = rows.blocks()
    while span := list(islice(blocks, 1 if rows.streamed else _BLOCKS_TOGETHER)):
        yield span


def _predictors(
    rows: Rows,
    span: Span,
    entries: Sequence[FloatArray],
    alike: Sequence[RowSum],
    marked: BoolArray | None,
) -> list[FloatArray | None]:
    """Return the predictors that are wanted: one product for all whose coefficients are dense."""
    dense = [one.coef for one in alike if one.coef is not None and not one.supports]
    ends = np.cumsum([coef.shape[1] for coef in dense])
    every = np.concatenate(dense, axis=1) if dense else None
    parts = iter([] if every is None else np.split(_stacked(entries, every), ends[:-1], axis=1))
    ranges = _ranges(marked) if marked is not None and rows.columns_held else None
    return [
        None if one.coef is None else _sparse(rows, span, one, ranges) if one.supports else next(parts)
        for one in alike
    ]


def _ranges(marked: BoolArray) -> list[slice]:
    """Return the rows from the first to the last one that each column is given."""
    found = [np.flatnonzero(column) for column in marked.T]
    return [slice(rows[0], rows[-1] + 1) if len(rows) else slice(0) for rows in found]


def _sparse(rows: Rows, span: Span, one: RowSum, ranges: Sequence[slice] | None) -> FloatArray:
    """Return the products of some blocks with sparse coefficients, one by one where that saves reading."""
    assert one.coef is not None
    if rows.columns_held:
        return _by_column(rows, span, one.supports, one.coef, one.bound, ranges)
    support: IntArray = np.flatnonzero(one.coef.any(axis=1))
    return np.asarray(truncated(rows.some_columns(span, support), one.dtype, one.bound) @ one.coef[support])


def _by_column(
    rows: Rows,
    span: Span,
    supports: Sequence[IntArray],
    coef: FloatArray,
    bound: np.floating | None,
    ranges: Sequence[slice] | None = None,
) -> FloatArray:
    """Return the products of some blocks, or of a range of their rows, with each sparse column; else 0."""
    n_rows = span[-1][0].stop - span[0][0].start
    products = np.zeros((len(supports), n_rows), coef.dtype)
    for r, (support, column) in enumerate(zip(supports, coef.T, strict=True)):
        part = slice(0, n_rows) if ranges is None else ranges[r]
        entries = truncated(rows.some_columns(span, support, part), coef.dtype, bound)
        products[r, part] = entries @ column[support]
    return products.T


def _stacked(entries: Sequence[FloatArray], coef: FloatArray) -> FloatArray:
    """Return the products of some blocks with coefficients."""
    products = [block @ coef for block in entries]
    return products[0] if len(products) == 1 else np.concatenate(products)


def side_by_side(
    rows: Rows,
    functions: Sequence[Callable[[], T]],
    owner: object,
    passed: Callable[[int], object],
    threads: Callable[[], int],
) -> list[tuple[T, float]]:
    """Return what each function returns, and its seconds; raise what the first failing one raised.

    Sums over the rows that they ask of :func:`row_sum` for this owner are made in one pass for all that wait,
    by as many threads as ``threads`` says then. ``passed`` is told the number of passes after each.
    """
    runs = [_Run(function, owner) for function in functions]
    for run in runs:
        run.start()
    try:
        for n_passes in count():
            left = [run for run in runs if not run.ended]
            if not left:
                break
            _answer(rows, [run for run in left if run.wanted is not None], threads())
            passed(n_passes)
            for run in left:
                run.resume()
    except BaseException:
        for run in runs:
            run.abandon()
        raise
    for run in runs:
        run.join()
    for run in runs:
        if run.error is not None:
            raise run.error
    return [(run.result, run.seconds) for run in runs]


def row_sum(rows: Rows, wanted: RowSum, owner: object) -> FloatArray:
    """Return a sum (R, d): at once, or when all functions that run side by side with this one wait too."""
    run = threading.current_thread()
    if isinstance(run, _Run) and run.owner is owner:
        return run.wait_for(wanted)
    return row_sums(rows, [wanted])[0]


class _PassAbandoned(BaseException):
    """Ends a function because another one was interrupted."""


class _Run(threading.Thread):
    """A function in a thread of its own, at work from :meth:`resume` until it waits for a sum or ends."""

    def __init__(self, function: Callable[[], Any], owner: object) -> None:
        super().__init__(daemon=True)
        self.owner = owner
        self.wanted: RowSum | None = None
        self.answer: FloatArray = np.empty(0)
        self.ended = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0  # at work
        self._function, self._abandoned = function, False
        self._turn, self._stopped = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        try:
            self._wait()
            self.result = self._function()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self._stopped.release()

    def resume(self) -> None:
        began = time.perf_counter()
        self._turn.release()
        self._stopped.acquire()
        self.seconds += time.perf_counter() - began

    def abandon(self) -> None:
        self._abandoned = True
        self._turn.release()

    def wait_for(self, wanted: RowSum) -> FloatArray:
        self.wanted = wanted
        self._stopped.release()
        self._wait()
        return self.answer

    def _wait(self) -> None:
        self._turn.acquire()
        if self._abandoned:
            raise _PassAbandoned


def _answer(rows: Rows, waiting: Sequence[_Run], threads: int) -> None:
    if not waiting:
        return
    began = time.perf_counter()
    sums = row_sums(rows, [run.wanted for run in waiting if run.wanted is not None], threads)
    seconds = time.perf_counter() - began
    for run, answer in zip(waiting, sums, strict=True):
        run.wanted, run.answer = None, answer
        run.seconds += seconds / len(waiting)
