"""Releases whose noise may face an adversary: cryptographic randomness, and no floating-point leaks.

A float's low bits can betray a private value through the gaps between floats (Mironov 2012). Here the
value is rounded to a public grid, integer noise from OpenDP's exact samplers (operating-system randomness)
is added to the grid index, and only then the result becomes a float again: the release is a function of
an integer.

Rounding moves each of the k coordinates by at most half a step per data set, and floating-point error of
the value by less than that, so that on the grid the sensitivity is at most Δ/g + 2√k (ℓ2) or Δ/g + 2k
(ℓ1), which the noise covers. The step g is a power of two near Δ 2⁻¹²/√k: the cost is below one part in a
thousand.

Discrete Gaussian noise is accounted by its zero-concentrated DP, ρ = 1/(2z²), which is proved for it
(Canonne, Kamath & Steinke 2020); the continuous mechanism's exact formula is not used.
"""

from collections.abc import Callable
from math import floor, log2, sqrt

import numpy as np
import opendp.prelude as dp

from dpalgos.accounting.events import DiscreteGaussianEvent, Event, PureEvent
from dpalgos.accounting.relation import Relation
from dpalgos.errors import InputError
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.noise import NoNoise
from dpalgos.typing import FloatArray, IntArray

_STEPS_PER_SENSITIVITY = 2.0**12
_LARGEST_INDEX = 2.0**62


class SecureTranscript(Transcript):
    """One run whose noise is hardened.

    Parameters
    ----------
    relation : Relation
        The neighbouring relation of the run.
    inflation : float
        Factor ≥ 1 on every noise scale, by which the accounting above is met where an estimator was
        calibrated for continuous noise.
    """

    def __init__(self, relation: Relation = Relation.CENTRAL, inflation: float = 1.0) -> None:
        super().__init__(NoNoise([np.random.default_rng(0)]), relation)
        dp.enable_features("contrib")
        self._inflation = inflation

    def gaussian(
        self,
        value: FloatArray,
        *,
        l2_sensitivity: float | FloatArray,
        noise_multiplier: float,
        label: str,
    ) -> FloatArray:
        """Release one vector (k, 1) with discrete Gaussian noise on the grid."""
        multiplier = noise_multiplier * self._inflation
        sensitivity, size = _single(l2_sensitivity), len(value)
        step = grid_step(sensitivity, size)
        on_grid = sensitivity / step + 2 * sqrt(size)
        event = DiscreteGaussianEvent(
            label=label, relation=self._relation, noise_multiplier=multiplier, l2_sensitivity=sensitivity
        )
        self.events.append(event)
        return self._publish(value, lambda: _add(value, step, gaussian_sampler(multiplier * on_grid)))

    def laplace(
        self, value: FloatArray, *, l1_sensitivity: float | FloatArray, epsilon: float, label: str
    ) -> FloatArray:
        """Release one vector (k, 1) with discrete Laplace noise on the grid."""
        sensitivity, size = _single(l1_sensitivity), len(value)
        step = grid_step(sensitivity, size)
        scale = self._inflation * (sensitivity / step + 2 * size) / epsilon
        spent = epsilon / self._inflation
        self.events.append(
            PureEvent(label=label, relation=self._relation, epsilon=spent, sensitivity=sensitivity)
        )
        return self._publish(value, lambda: _add(value, step, laplace_sampler(scale)))

    def gaussian_sketch(
        self, gram: FloatArray, *, n_rows: int, row_bound_squared: float, ridge: float, label: str
    ) -> FloatArray:
        """Refuse: no hardened sampler of a sketch is known here."""
        raise InputError(
            f"{label} has no hardened sampler, so this estimator cannot be released; choose another estimator"
        )

    def publish(self, value: FloatArray, noisy: Callable[[], FloatArray], *events: Event) -> FloatArray:
        """Refuse a mechanism that draws floating-point noise of its own."""
        label = events[0].label if events else "this step"
        raise InputError(
            f"{label} has no hardened sampler, so this estimator cannot be released; choose another estimator"
        )

    def choose(self, scores: FloatArray, draw: Callable[[], IntArray], *events: Event) -> IntArray:
        """Refuse a selection by floating-point noise."""
        self.publish(scores, lambda: scores, *events)
        raise AssertionError("unreachable")


def grid_step(sensitivity: float, size: int) -> float:
    """Return the public grid step: a power of two near sensitivity · 2⁻¹² / √size."""
    return 2.0 ** floor(log2(sensitivity / (_STEPS_PER_SENSITIVITY * sqrt(size))))


def gaussian_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's exact discrete Gaussian mechanism on integer vectors."""
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=dp.f64)
    sampler: Callable[[list[int]], list[int]] = dp.m.make_gaussian(*space, scale=scale)
    return sampler


def laplace_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's exact discrete Laplace mechanism on integer vectors."""
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    sampler: Callable[[list[int]], list[int]] = dp.m.make_laplace(*space, scale=scale)
    return sampler


def _add(value: FloatArray, step: float, sampler: Callable[[list[int]], list[int]]) -> FloatArray:
    index = np.rint(value[:, 0] / step)
    if not (np.abs(index) < _LARGEST_INDEX).all():
        raise InputError("a released quantity is too large for its sensitivity; declare tighter bounds")
    noisy = sampler([int(entry) for entry in index])
    return np.asarray([float(entry) * step for entry in noisy])[:, None]


def _single(sensitivity: float | FloatArray) -> float:
    values = np.asarray(sensitivity, dtype=float)
    if values.size != 1 or not values.flat[0] > 0:
        raise InputError("a hardened release is of one replicate with a positive sensitivity")
    return float(values.flat[0])
