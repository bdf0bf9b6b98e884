"""Sums over the rows for several estimators in one pass.

A product with a wide design takes as long as reading the design. Several products requested together take
little longer than one. Estimators are plain functions that don't know of each other. Each runs in a thread of
its own, but one at a time: until it needs a sum over the rows, or has ended. When all of them wait, one pass
computes all the sums, and they go on in their order. No two of them run at the same time: shared objects need
no locks, and results do not depend on time.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from dpalgos.rows.blocks import Stored
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")
# Which rows and the rows, of adjacent blocks.
Span = Sequence[tuple[slice, FloatArray]]
# A sparse array (K R, k) of the coefficients of K sums, and the k columns.
Sparse = tuple[Any, IntArray | slice] | None
_BLOCKS_TOGETHER = 4  # whose entries the processor's last cache holds
_DENSE = 4  # one column in so many, above which a product with all takes less time than a search


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSum:
    """A sum over the rows that an estimator asks for: of x_i f_i, in each of R = ``n_columns`` columns.

    Entries are truncated to ± ``bound`` and multiplied in ``dtype`` within a block; blocks are summed in
    double precision. ``factors`` maps predictors (m, R), or None, and the slice of the m rows to the f_i (m,
    R). Predictors are computed if ``coef`` (d, R) is given. Column r of a ``mask`` (n, R) indicates which
    rows are added to the sum.
    """

    n_columns: int
    dtype: np.dtype[np.floating]
    bound: np.floating | None
    factors: Callable[[FloatArray | None, slice], FloatArray]
    coef: FloatArray | None = None
    mask: BoolArray | None = None

    @cached_property
    def sparse(self) -> bool:
        """Whether most columns have no coefficient but zero."""
        return self.coef is not None and is_sparse(self.coef)

    @property
    def entries(self) -> tuple[str, float | None, int, int]:
        """Precision, bound and mask, which decide the entries that are multiplied, and R."""
        bound = None if self.bound is None else float(self.bound)
        return self.dtype.str, bound, id(self.mask), self.n_columns


def is_sparse(coef: FloatArray) -> bool:
    """Return whether most columns have no coefficient (d, R) but zero."""
    return _DENSE * int(coef.any(axis=1).sum()) < len(coef)


def truncated(block: FloatArray, dtype: np.dtype[np.floating], bound: np.floating | None) -> FloatArray:
    """Return a block in a precision, its entries truncated to ± a bound."""
    block = block.astype(dtype, copy=False)
    return block if bound is None else np.clip(block, -bound, bound)


def row_sums(rows: Stored, requests: Sequence[RowSum]) -> list[FloatArray]:
    """Return the sums (R, d) in one pass."""
    kinds: dict[tuple[str, float | None, int, int], list[int]] = {}
    for place, one in enumerate(requests):
        kinds.setdefault(one.entries, []).append(place)
    totals: list[FloatArray] = [np.empty(0)] * len(requests)
    for places in kinds.values():
        same_kind = [requests[place] for place in places]
        total: FloatArray = np.zeros((same_kind[0].n_columns, len(same_kind), rows.shape[1]))
        sparse = _sparse(rows, same_kind)
        for span in _spans(rows):
            for chosen, product in _products(rows, same_kind, sparse, span):
                if chosen is None:
                    total += product
                    continue
                for column, own in zip(chosen, product, strict=True):  # in less time than all at once
                    total[column] += own
        for place, part in zip(places, total.transpose(1, 0, 2), strict=True):
            totals[place] = part
    return totals


def _products(
    rows: Stored, same_kind: Sequence[RowSum], sparse: Sparse, span: Span
) -> list[tuple[IntArray | None, FloatArray]]:
    """Return column indices (None: all) and products (R, K, d)."""
    mask, dtype, bound = same_kind[0].mask, same_kind[0].dtype, same_kind[0].bound
    entries = [truncated(block, dtype, bound) for _, block in span]
    every = slice(span[0][0].start, span[-1][0].stop)
    marked = None if mask is None else mask[every]
    predictors = _predictors(rows, same_kind, sparse, span, entries)
    factors = np.stack(
        [
            one.factors(u, every).T.astype(dtype, copy=False)
            for one, u in zip(same_kind, predictors, strict=True)
        ],
        axis=1,
    )
    ends = np.cumsum([len(block) for block in entries])
    products: list[tuple[IntArray | None, FloatArray]] = []
    for i, (block, own) in enumerate(zip(entries, np.split(factors, ends[:-1], axis=2), strict=True)):
        chosen: IntArray | None = None
        if marked is not None:
            marks = marked[ends[i] - len(block) : ends[i]].T
            chosen = np.flatnonzero(marks.any(axis=1))  # not all where a replicate has none of these rows
            own = own[chosen] * marks[chosen, None]
        products.append(
            (chosen, (own.reshape(-1, len(block)) @ block).reshape(*own.shape[:2], block.shape[1]))
        )
    return products


def _spans(rows: Stored) -> Iterator[Span]:
    """Yield a few blocks at a time, to compute factors less often; one block if rows are streamed."""
    blocks = rows.blocks()
    while span := list(islice(blocks, 1 if rows.streamed else _BLOCKS_TOGETHER)):
        yield span


def _sparse(rows: Stored, same_kind: Sequence[RowSum]) -> Sparse:
    """Return the sparse coefficients of all sums, and which columns they are of."""
    from scipy.sparse import csr_array

    coefs = [one.coef.T for one in same_kind if one.coef is not None and one.sparse]
    if not coefs:
        return None
    every = np.concatenate(coefs)
    used: IntArray | slice = np.flatnonzero(every.any(axis=0))
    if rows.keeps_columns and same_kind[0].bound is None and same_kind[0].dtype == rows.dtype:
        used = slice(None)  # all columns are used where they lie
    return csr_array(every[:, used]), used


def _predictors(
    rows: Stored, same_kind: Sequence[RowSum], sparse: Sparse, span: Span, entries: Sequence[FloatArray]
) -> list[FloatArray | None]:
    """Return the predictors that are wanted: one product for all with sparse coefficients, one for others."""
    dense = [one.coef for one in same_kind if one.coef is not None and not one.sparse]
    products: dict[bool, FloatArray] = {}
    if dense:
        coef = np.concatenate(dense, axis=1)
        products[False] = np.concatenate([block @ coef for block in entries])
    if sparse is not None:
        weights, used = sparse
        columns = [rows.some_columns(which, block, used) for which, block in span]
        dtype, bound = same_kind[0].dtype, same_kind[0].bound
        products[True] = np.concatenate([(weights @ truncated(each, dtype, bound)).T for each in columns])
    places = {
        kind: iter(range(0, product.shape[1], same_kind[0].n_columns)) for kind, product in products.items()
    }

    def of(one: RowSum) -> FloatArray | None:
        if one.coef is None:
            return None
        start = next(places[one.sparse])
        return products[one.sparse][:, start : start + one.n_columns]

    return list(map(of, same_kind))


def side_by_side(
    rows: Stored,
    functions: Sequence[Callable[[], T]],
    owner: object,
) -> list[tuple[T, float]]:
    """Return each function's result and its seconds; raise the exception of the first that fails.

    Functions request sums over the rows by :func:`row_sum` for this owner. One pass computes the sums for all
    functions that wait.
    """
    runs = [_Run(function, owner) for function in functions]
    for run in runs:
        run.start()
    try:
        while left := [run for run in runs if not run.ended]:
            _answer(rows, [run for run in left if run.request is not None])
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


def row_sum(rows: Stored, request: RowSum, owner: object) -> FloatArray:
    """Return a sum (R, d): at once, or when all functions that run side by side with this one wait too."""
    run = threading.current_thread()
    if isinstance(run, _Run) and run.owner is owner:
        return run.wait_for(request)
    return row_sums(rows, [request])[0]


class _PassAbandoned(BaseException):
    """Ends a function because another one was interrupted."""


class _Run(threading.Thread):
    """A function in a thread of its own, at work from :meth:`resume` until it waits for a sum or ends."""

    def __init__(self, function: Callable[[], Any], owner: object) -> None:
        super().__init__(daemon=True)
        self.owner = owner
        self.request: RowSum | None = None
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

    def wait_for(self, request: RowSum) -> FloatArray:
        self.request = request
        self._stopped.release()
        self._wait()
        return self.answer

    def _wait(self) -> None:
        self._turn.acquire()
        if self._abandoned:
            raise _PassAbandoned


def _answer(rows: Stored, waiting: Sequence[_Run]) -> None:
    if not waiting:
        return
    began = time.perf_counter()
    requests = [run.request for run in waiting if run.request is not None]
    numbers = sum(np.count_nonzero(one.coef) for one in requests if one.coef is not None and one.sparse)
    rows.keeps_columns |= bool(numbers > rows.shape[1])  # each of which is a search through all rows
    sums = row_sums(rows, requests)
    seconds = time.perf_counter() - began
    for run, answer in zip(waiting, sums, strict=True):
        run.request, run.answer = None, answer
        run.seconds += seconds / len(waiting)
