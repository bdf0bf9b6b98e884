"""Numbers and sizes of steps for noisy gradient descent by forecast; no row of the data decides them.

A descent that stops early is biased, and a long one spends its budget on many noisy gradients. The best
number of steps depends on the curvature of the rows, their bounds, n, ε and δ. Synthetic tables, drawn from
public guesses, give the curvature and the fixed point b of the descent on clipped rows. In the basis of the
curvature's eigenvalues λ, the iterate has mean m and variance v:

    m ← (1 − ηλ) m + ηλ b,   v ← (1 − ηλ)² v + (η σ_T(‖m‖² + Σv))²,   from m = v = 0

σ_T is the noise on a gradient if there are T of them: the estimator's own, at its calibration. The rule takes
η = 0.7 / λ_max. It takes the largest T whose forecast error is within 4% of the smallest. The forecast error
is the geometric mean over the tables. If no number of steps beats the zero vector, the rule takes the fewest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray

BY_FORECAST = "by forecast"  # the value of a keyword that a rule replaces
STEPS = (2, 3, 5, 7, 10, 14, 20, 30, 40, 60, 80, 110, 150, 200)
CANDIDATES = tuple((T, 0.7) for T in STEPS)  # numbers of steps, with η λ_max
_FLAT = 1.04
_NEWTON_STEPS, _DAMPING, _CONVERGED = 60, 0.7, 1e-9
_LARGEST, _LEAST_CURVATURE = 1e3, 1e-4


class Steps(NamedTuple):
    """A number of steps with their size, and the forecast error of the last iterate."""

    n_iterations: int
    step_size: float
    error: float


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Synthetic rows X (n, d), responses (n,) and target (k,); ``to_target`` (k, d) maps coefficients."""

    X: FloatArray
    y: FloatArray
    to_target: FloatArray
    target: FloatArray


@dataclass(frozen=True, eq=False)
class ClippedLoss:
    """The mean loss over clipped rows X and responses y, with residuals clipped at a bound, () or (n, 1)."""

    X: FloatArray
    family: Family
    y: FloatArray
    residual_bound: float | FloatArray = np.inf


class Descent(Protocol):
    """Parameters of a noisy descent, whose number and size of steps the rule can choose."""

    @property
    def candidates(self) -> Sequence[tuple[int, float]]:
        """Return numbers of steps with η λ_max, from which the rule chooses; preferred ones last."""

    @property
    def radius(self) -> float | None:
        """Return the radius of the ball that iterates are projected onto, or None."""

    def clipped_loss(self, X: FloatArray, y: FloatArray) -> ClippedLoss:
        """Return the loss of rows and responses as the gradient sees them."""

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        """Return the noise on a gradient of n rows over its radius, (k,), for numbers of steps (k,)."""

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        """Return the radius of rows' gradients at iterates of some norms, (k,)."""


@dataclass(frozen=True, eq=False)
class Course:
    """The course of a descent on one table: curvature (d,), fixed point (d,), and the way to the target."""

    curvature: FloatArray
    fixed_point: FloatArray
    to_target: FloatArray
    target: FloatArray

    @classmethod
    def of(cls, table: SyntheticTable, loss: ClippedLoss) -> "Course":
        fixed = _fixed_point(loss)
        curvature, basis = np.linalg.eigh(_hessian(loss, fixed / 2))  # on average along the way
        return cls(
            np.maximum(curvature, _LEAST_CURVATURE), basis.T @ fixed, table.to_target @ basis, table.target
        )


def _weights(loss: ClippedLoss, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return clipped residuals and the second derivatives of the clipped loss, (n, 1) each."""
    u = loss.X @ coef[:, None]
    residual, bound = loss.family.mean(u) - loss.y[:, None], loss.residual_bound
    inside = np.abs(residual) < bound
    return np.clip(residual, -bound, bound), loss.family.second_derivative(u) * inside


def _hessian(loss: ClippedLoss, coef: FloatArray) -> FloatArray:
    _, weights = _weights(loss, coef)
    return np.asarray(loss.X.T @ (weights * loss.X) / len(loss.X))


def _fixed_point(loss: ClippedLoss) -> FloatArray:
    """Return where the gradient on clipped rows vanishes, by damped Newton steps."""
    d = loss.X.shape[1]
    coef, n = np.zeros(d), len(loss.X)
    if loss.family.is_linear and np.isinf(loss.residual_bound).all():
        return np.asarray(np.linalg.lstsq(loss.X, loss.y, rcond=None)[0])
    for _ in range(_NEWTON_STEPS):
        residual, weights = _weights(loss, coef)
        hessian = loss.X.T @ (weights * loss.X) / n + 1e-9 * np.eye(d)
        step = np.linalg.solve(hessian, loss.X.T @ residual[:, 0] / n)
        coef = coef - _DAMPING * step
        if np.abs(step).max() < _CONVERGED:
            break
    return coef


def forecast_errors(
    descent: Descent,
    courses: Sequence[Course],
    steps: FloatArray,
    step_size: FloatArray,
    noise_scale: FloatArray,
) -> FloatArray:
    """Return forecast errors (tables, k) for numbers and sizes of steps and noise over the radius, (k,)."""
    curvature, fixed, to_target, target = (
        np.stack([getattr(course, name) for course in courses])
        for name in ("curvature", "fixed_point", "to_target", "target")
    )
    rate = 1 - step_size[:, None] * curvature[:, None]
    pull = step_size[:, None] * (curvature * fixed)[:, None]
    spread = (to_target**2).sum(axis=1)[:, :, None]
    shape = (len(courses), len(steps))
    errors, (mean, variance) = np.full(shape, np.inf), np.zeros((2, *shape, curvature.shape[1]))
    for t in range(1, int(steps.max()) + 1):
        norm = np.sqrt((mean**2 + variance).sum(axis=2))
        noise = step_size * noise_scale * descent.gradient_radius(norm)
        mean = np.clip(rate * mean + pull, -_LARGEST, _LARGEST)
        variance = np.minimum(rate**2 * variance + (noise**2)[:, :, None], _LARGEST**2)
        if descent.radius is not None:
            length = np.sqrt((mean**2 + variance).sum(axis=2))
            shrink = (descent.radius / np.maximum(length, descent.radius))[:, :, None]
            mean, variance = mean * shrink, variance * shrink**2
        if (last := steps == t).any():
            bias = mean[:, last] @ np.swapaxes(to_target, 1, 2) - target[:, None]
            errors[:, last] = np.sqrt((bias**2).sum(axis=2) + (variance[:, last] @ spread)[:, :, 0])
    return errors


def choose_steps(settings: Sequence[tuple[Descent, int]], courses: Sequence[Course]) -> list[Steps]:
    """Return the number and the size of steps by the rule of the module, for each setting.

    A setting is the parameters of a descent, with some ε and δ, and a number of rows. Calibration and bounds
    are the same in all of them.
    """
    descent = settings[0][0]
    T, shares = np.array(descent.candidates, dtype=float).T
    size = shares / max(float(course.curvature[-1]) for course in courses)
    scales = np.concatenate([each.noise_scale(T, n_rows) for each, n_rows in settings])
    repeated = np.tile(T, len(settings)), np.tile(size, len(settings))
    by_table = forecast_errors(descent, courses, *repeated, scales)
    errors = np.exp(np.log(by_table).mean(axis=0)).reshape(len(settings), len(T))
    zero = np.exp(np.mean([np.log(np.linalg.norm(course.target)) for course in courses]))
    best = [
        int(np.flatnonzero(each <= _FLAT * each.min())[-1]) if each.min() < zero else 0 for each in errors
    ]
    return [
        Steps(int(T[at]), float(size[at]), float(each[at])) for at, each in zip(best, errors, strict=True)
    ]
