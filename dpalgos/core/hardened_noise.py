"""Releases whose noise may face an adversary: cryptographic randomness, and no floating-point leaks.

A float's low bits can reveal a private value through the gaps between floats (Mironov 2012). Here the value
is rounded to a public grid. Integer noise from OpenDP's exact samplers (operating-system randomness) is added
to the grid index. Only then is the result converted to a float: the release is a function of an integer.

Rounding moves each of the k coordinates by at most half a step per dataset. The value is clipped at 2⁴⁰
steps. Its floating-point error therefore moves a coordinate by less than half a step. The sensitivity on the
grid is at most Δ/g + 2√k (ℓ2) or Δ/g + 2k (ℓ1), which the noise covers. The step g is a power of two near
Δ 2⁻¹²/√k: the cost is below one part in a thousand. Sums over n rows reach nΔ. They have a larger step from
2²⁷ rows on, 2⁻⁹ Δ for 10⁹ rows. Their Δ counts as (1 + K u n) Δ: the factor bounds the rounding error of
sums of K blocks of rows (:mod:`dpalgos.rows.blocks`).

Noise in a cube (:func:`dpalgos.release.noise_source.box_sampler`) is of whole numbers from the
operating system. A coordinate moves by at most Δ/g + 2.

A selection adds discrete Gumbel noise to the scores on their grid, where a score moves by at most Δ/g + 2.

Values and scores outside the grid are clipped to its minimum and maximum, which never increases the distance
between two of them. No error and no branch here depends on a quantity that noise does not cover.

Discrete Gaussian noise is accounted by its zero-concentrated DP, ρ = 1/(2z²) (proof: Canonne, Kamath and
Steinke 2020). The continuous mechanism's exact formula is not used.
"""

import sys
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache, partial
from math import ceil, floor, log2, sqrt
from typing import Any

import numpy as np

from dpalgos.accounting.events import DiscreteGaussian, Event, Gaussian, Relation
from dpalgos.accounting.other_events import Cube, SampledGaussian, Selection
from dpalgos.core.spend import A, Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Bounded
from dpalgos.mechanisms.top_k import top_k_sampler
from dpalgos.release.noise_source import (
    N_SAMPLERS,
    Noise,
    Sampler,
    box_sampler,
    integer_vectors,
    laplace_sampler,
)
from dpalgos.typing import BoolArray, FloatArray, IntArray, Number

_STEPS_PER_SENSITIVITY = 2.0**12
# Where float64 still resolves a step to 2⁻¹²: what rounding adds to a value stays far below half a step.
_LARGEST_INDEX = 2.0**40
_FAR = 40.0  # scales that noise never reaches


class _NoDraws(Noise):
    """A source that refuses to draw: the noise of a release comes from the operating system alone."""

    def _fresh(self, kind: str, count: int) -> FloatArray:
        raise RuntimeError(f"a floating-point-safe release must draw no {kind} number of a generator")

    def select(self, replicates: slice) -> "_NoDraws":
        return self


class SecureSpend(Spend):
    """Makes the releases of one run with floating-point-safe noise.

    ``inflation`` ≥ 1 is a factor on every noise scale. If an estimator was calibrated for continuous noise,
    this factor meets the accounting above. ``n_rows`` is the number of rows, or of users if users are
    protected. It is public, as is the number of blocks of the sums; both decide the grid.
    """

    lists_candidates = True

    def __init__(
        self,
        relation: Relation = Relation.CENTRAL,
        inflation: float = 1.0,
        *,
        n_rows: int = 1,
        n_blocks: int = 1,
    ) -> None:
        super().__init__(_NoDraws([np.random.default_rng(0)]), relation)
        from opendp.mod import enable_features  # here: files are checked without it

        enable_features("contrib")
        self._inflation, self._n_rows = inflation, n_rows
        self._rounding = 1 + n_rows * n_blocks * float(np.finfo(float).eps) / 2

    def _charge(self, slot: Event, label: str, sensitivity: Number | None = None) -> Event:
        """Record the event of discrete noise with its inflation."""
        single = None if sensitivity is None else _single(sensitivity)
        event = safe_event(slot.once(label, single))
        return self.record.charge(event.scaled(self._inflation))

    def _add_noise(
        self, slot: Event, label: str, columns: FloatArray, sensitivity: Number
    ) -> tuple[FloatArray, FloatArray]:
        """Release one vector (k, 1) with discrete noise on the grid."""
        if not slot.has_exact_sampler:
            raise no_sampler(label, slot.instead)
        single, size = _single(sensitivity), len(columns)
        step = self._step(single, size)
        of_sum = sqrt(size) if isinstance(slot, Gaussian) else size  # what rounding moves in ℓ2, or ℓ1
        rounded = 2 * (1 if isinstance(slot, Cube) else of_sum)
        unit = self._charge(slot, label, single).noise_scale  # inflated
        assert unit is not None
        scale = float(unit) / single * (self._rounding * single / step + rounded)  # in steps
        largest_noise = _FAR * scale
        sampler: Callable[[], Sampler] = partial(laplace_sampler, scale)
        if isinstance(slot, Gaussian):
            sampler = partial(gaussian_sampler, scale)
        elif isinstance(slot, Cube):
            largest_noise, sampler = size * largest_noise, partial(box_sampler, scale, size)
        released = self._publish(columns, lambda: _add(columns, step, largest_noise, sampler()))
        return released, np.asarray(scale * step)

    def _select(self, slot: Selection, label: str, scores: Bounded, draw: Callable[[], IntArray]) -> IntArray:
        """Select the largest of one vector of scores (d, 1) by discrete Gumbel noise on the grid.

        ``draw``, which uses floating-point noise, is not called.
        """
        step, scale = self._charged_selection(slot, label, scores)
        ranked = np.abs(scores.value[:, 0]) if slot.by_magnitude else scores.value[:, 0]
        select = top_k_sampler(scale, slot.count)
        return self._publish(scores.value, lambda: np.asarray(select(_on_grid(ranked, step)))[:, None])

    def _select_each(
        self,
        slot: Selection,
        label: str,
        scores: Bounded,
        draw: Callable[[], IntArray],
        allowed: BoolArray | None,
    ) -> IntArray:
        """Select the largest allowed score of every column, (m, 1), from scores (K, m, 1)."""
        step, scale = self._charged_selection(slot, label, scores)
        select, values = top_k_sampler(scale, 1), scores.value
        candidates = [np.arange(len(values))] * values.shape[1]
        if allowed is not None:
            public = np.broadcast_to(allowed, values.shape)
            candidates = [np.flatnonzero(column) for column in public[..., 0].T]

        def selected() -> IntArray:
            columns = zip(candidates, values[..., 0].T, strict=True)
            return np.asarray([[some[select(_on_grid(column[some], step))[0]]] for some, column in columns])

        return self._publish(values.reshape(-1, 1), selected)

    def _by_own_sampler(
        self, slot: Event, label: str, value: FloatArray, draw: Callable[[], A], sensitivity: Number | None
    ) -> A:
        """Refuse a mechanism that draws floating-point noise of its own."""
        raise no_sampler(label, slot.instead)

    def of_drawn_rows(self, label: str, *_: Any) -> FloatArray:
        """Refuse: discrete noise on sums over random rows has no accountant here."""
        raise no_sampler(label, SampledGaussian.instead)

    def _charged_selection(self, slot: Selection, label: str, scores: Bounded) -> tuple[float, float]:
        """Charge a selection; return the scores' grid step, and the Gumbel scale in steps."""
        if not slot.has_exact_sampler:
            raise no_sampler(label, slot.instead)
        sensitivity = _single(scores.sensitivity)
        self._charge(slot, label, sensitivity)
        step = self._step(sensitivity, 1)
        # Twice the sensitivity: scores may move in both directions.
        return step, 2 * (self._rounding * sensitivity / step + 2) / (slot.epsilon / self._inflation)

    def _step(self, sensitivity: float, size: int) -> float:
        return grid_step(sensitivity, size, self._n_rows)


def safe_event(event: Event) -> Event:
    """Return the event of a release with floating-point-safe noise: Gaussian noise is discrete."""
    if isinstance(event, Gaussian):
        return DiscreteGaussian(**{item.name: getattr(event, item.name) for item in fields(event)})
    return event


def no_sampler(label: str, instead: str = "choose another estimator") -> InputError:
    """Return the refusal of a release without a floating-point-safe sampler."""
    return InputError(
        f"{label} has no floating-point-safe sampler, so this estimator cannot be released; {instead}"
    )


def grid_step(sensitivity: float, size: int, n_rows: int = 1) -> float:
    """Return the public grid step: a power of two near sensitivity · 2⁻¹² / √size, larger for many rows.

    If each of n rows moves a sum by at most the sensitivity, the sum stays within half of the grid.
    """
    fine = floor(log2(sensitivity / (_STEPS_PER_SENSITIVITY * sqrt(size))))
    step = 2.0 ** max(fine, ceil(log2(n_rows * sensitivity / (_LARGEST_INDEX / 2))))
    if 4 * step * sqrt(size) > sensitivity:
        raise _too_many(size, n_rows)
    return step


def check_grid(size: int, n_rows: int) -> None:
    """Refuse a release of so many numbers from so many rows if :func:`grid_step` may do so."""
    largest_step = 2 * n_rows / (_LARGEST_INDEX / 2)  # over the sensitivity: rounded up to a power of two
    if 4 * largest_step * sqrt(size) > 1:
        raise _too_many(size, n_rows)


def _too_many(size: int, n_rows: int) -> InputError:
    return InputError(
        f"{size} numbers from {n_rows} rows are too many for the grid of the floating-point-safe noise; "
        "choose fewer columns, or a simple random sample of the rows"
    )


@lru_cache(maxsize=N_SAMPLERS)
def gaussian_sampler(scale: float) -> Sampler:
    """Return OpenDP's exact discrete Gaussian mechanism on integer vectors."""
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    space = integer_vectors(), l2_distance(T="f64")
    sampler: Sampler = make_gaussian(*space, scale=scale)
    return sampler


def _on_grid(values: FloatArray, step: float) -> list[int]:
    """Return numbers (k,) as grid indices, clipped to the grid; NaN counts as 0."""
    end = min(_LARGEST_INDEX * step, sys.float_info.max)
    within = np.minimum(np.maximum(np.where(np.isnan(values), 0.0, values), -end), end)
    return [int(entry) for entry in np.rint(within / step).tolist()]


def _add(value: FloatArray, step: float, largest_noise: float, sampler: Sampler) -> FloatArray:
    """Return a vector with noise of about ``largest_noise`` steps at most; refuse by the noisy value."""
    noisy = sampler(_on_grid(value[:, 0], step))
    if max(abs(entry) for entry in noisy) >= _LARGEST_INDEX / 2 + largest_noise:
        raise InputError("a released quantity is too large for its sensitivity; declare tighter bounds")
    return np.asarray([float(entry) * step for entry in noisy])[:, None]


def _single(sensitivity: float | FloatArray) -> float:
    values = np.asarray(sensitivity, dtype=float)
    if values.size != 1 or not values.flat[0] > 0:
        raise InputError("a floating-point-safe release is of one replicate with a positive sensitivity")
    return float(values.flat[0])
