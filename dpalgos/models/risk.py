"""The empirical risk of a generalized linear model, for all replicates at once, and its minimizer.

    F(B) = (1/n) Σ_i w_i loss(B'x_i, y_i) + (κ/2) ‖B‖² + ⟨c, B⟩

Coefficients are (d, R), or (d, K, R) with K classes; κ (a ridge) and c (a tilt) are zero unless given.
Mean gradients of clipped rows are here, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpalgos.core.rows import Block, Query, Rows, second_moments
from dpalgos.models.families import Family
from dpalgos.models.families.gaussian import TruncatedGaussian
from dpalgos.rows.products import clip_rows_l2
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray

_MOST_HALVINGS = 40
_RANK = 1e-12  # eigenvalues of the scaled second moments this much below the largest count as zero
_FLAT = 1e-11  # curvature relative to the second moments below which the risk has no minimum in sight
_ROUNDING = 1e-13  # of a loss, which rises by so much where nothing is left to gain
_CLOSE = 1e-9  # a last Newton step this short leaves an error of its square


class Risk:
    """The risk of each replicate's rows, plus a ridge κ and a tilt c in the shape of the coefficients.

    Rows are clipped to the ℓ2 norm ``row_bound`` if one is given, residuals to the family's public bound;
    labels outside the family are refused.
    """

    def __init__(
        self,
        family: Family,
        rows: Rows,
        *,
        row_bound: float | None = None,
        ridge: float | FloatArray = 0.0,
        tilt: FloatArray | None = None,
    ) -> None:
        self.family, self._rows, self._row_bound = family, rows, row_bound
        self._n_replicates = rows.sample.n_replicates
        self._ridge = np.broadcast_to(np.asarray(ridge, dtype=float), (self._n_replicates,))
        self._prepared = rows.map(clipped_and_encoded(family, row_bound))
        self._tilt = np.zeros(self.shape) if tilt is None else tilt

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._rows.d, *self.family.classes, self._n_replicates)

    def loss(self, coef: FloatArray) -> FloatArray:
        """Return F, (R,)."""
        family, leading = self.family, self._leading(coef)

        def loss(block: Block) -> FloatArray:
            return block.sum(by_family(block, family.loss, _predict(block, leading)))

        extra = self._ridge / 2 * _dot(coef, coef) + _dot(self._tilt, coef)
        return np.asarray(self._prepared.mean(loss) + extra)

    def gradient(self, coef: FloatArray) -> FloatArray:
        """Return the gradient of F with residuals clipped to the family's bound, in the shape of ``coef``."""
        family, leading = self.family, self._leading(coef)

        def score(block: Block) -> FloatArray:
            X, _ = block.derived
            return block.products(by_family(block, family.residual, _predict(block, leading)), X)

        gradient = self._rows.by_column(self._prepared.mean(score))
        gradient = np.swapaxes(gradient, 0, 1) if family.classes else gradient
        return np.asarray(gradient + self._ridge * coef + self._tilt)

    def second_moments(self) -> FloatArray:
        """Return the mean of x x' over each replicate's rows, plus the ridge, (R, d, d)."""
        moments = second_moments(self._rows, self._row_bound) / self._rows.n
        return np.asarray(moments + self._ridge[:, None, None] * np.eye(self._rows.d))

    def curvature(self, coef: FloatArray, contrasts: FloatArray) -> FloatArray:
        """Return the Hessian of F in ``contrasts`` (K, k) of the classes, (R, k, d, k, d); k = 1 without."""
        k, d = contrasts.shape[1], self._rows.d
        family, leading = self.family, self._leading(coef)

        def lower(block: Block) -> FloatArray:
            X, _ = block.derived
            second = by_family(block, lambda u, y: curvatures(family, u, y), _predict(block, leading))
            second = second if family.classes else second[..., None, None, :]
            parts = [
                [
                    block.moments(X, np.einsum("...jkn,j,k->...n", second, contrasts[:, a], contrasts[:, b]))
                    for b in range(a + 1)
                ]
                for a in range(k)
            ]
            hessians = np.zeros((*parts[0][0].shape[:-2], k, d, k, d))
            for a in range(k):
                for b in range(a + 1):
                    hessians[..., a, :, b, :] = parts[a][b]
            return hessians

        hessian = np.broadcast_to(self._prepared.mean(lower), (self._n_replicates, k, d, k, d)).copy()
        for a in range(k):
            for b in range(a):
                hessian[:, b, :, a] = hessian[:, a, :, b]
            hessian[:, a, range(d), a, range(d)] += self._ridge[:, None]
        return hessian

    def _leading(self, coef: FloatArray) -> FloatArray:
        """Return coefficients as rows have them, (…, d) or (…, K, d)."""
        leading = self._rows.by_replicate(coef)
        return np.swapaxes(leading, -1, -2) if self.family.classes else leading


def curvatures(family: Family, predictor: FloatArray, y: FloatArray) -> FloatArray:
    """Return ψ'', in the shape of the predictor; without classes 0 where a residual is clipped."""
    second = family.second_derivative(predictor)
    if family.classes:
        return second
    clipped = np.abs(family.residual(predictor, y)) >= family.residual_bound
    return np.where(clipped, 0.0, second)


def wide_gradient(
    sample: Sample,
    design: Design,
    family: Family,
    largest_residual: Callable[[FloatArray], FloatArray] | None = None,
) -> Callable[[FloatArray], FloatArray]:
    """Return β (d, R) → the gradient of the mean loss, for wide designs: one pass in the design's precision.

    The family has no classes; residuals are clipped to ``largest_residual``, β → (R,), if it is given. Where
    responses are truncated no residual is: the products of `Design.negative_gradient` serve.
    """
    y, limits = family.encode(sample.response()), np.finfo(design.dtype)
    if family.is_linear and not np.isfinite(family.residual_bound):
        level = family.level if isinstance(family, TruncatedGaussian) else np.inf
        descent = design.negative_gradient(np.clip(y, -level, level))
        return lambda coef: -descent(coef)
    y = np.clip(y, limits.min, limits.max).astype(limits.dtype)

    def gradient(coef: FloatArray) -> FloatArray:
        if largest_residual is None:
            return design.mean_score(coef, lambda u, rows: family.residual(u, y[rows]))
        largest = largest_residual(coef).astype(limits.dtype)
        return design.mean_score(
            coef, lambda u, rows: np.clip(family.residual(u, y[rows]), -largest, largest)
        )

    return gradient


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where Newton's method ended, and for each replicate whether that is a minimum, (R,).

    It is one if the last step was short and the risk is not flat.
    """

    coef: FloatArray
    converged: BoolArray


class Step(NamedTuple):
    """A Newton step in the shape of the iterate; whether to take it and whether it is short, (R,)."""

    change: FloatArray
    is_sound: BoolArray
    is_short: BoolArray


def newton_descent(
    start: FloatArray,
    loss: Callable[[FloatArray], FloatArray],
    newton_step: Callable[[FloatArray], Step],
    *,
    most_steps: int,
    step_size: float = 1.0,
) -> Minimum:
    """Minimize a loss by Newton's method with step halving; deterministic.

    Each of at most ``most_steps`` steps is ``step_size`` times Newton's, and is halved until the loss falls.
    A replicate ends after a short step, or before a step that is not sound. It then does not change.
    Therefore a batch equals a loop.
    """
    coef, current = start, loss(start)
    is_minimum: BoolArray = np.zeros(coef.shape[-1], dtype=bool)
    active = ~is_minimum
    for _ in range(most_steps):
        step = newton_step(coef)
        active &= step.is_sound
        if not active.any():
            break
        size = np.where(active, step_size, 0.0)
        for _ in range(_MOST_HALVINGS):
            step_end = coef - size * step.change
            after = loss(step_end)
            rising = active & ~(after <= current + _ROUNDING * (1 + np.abs(current)))
            if not rising.any():
                break
            size = np.where(rising, size / 2, size)
        active &= ~rising
        coef, current = np.where(active, step_end, coef), np.where(active, after, current)
        is_minimum |= active & step.is_short
        active &= ~step.is_short
        if not active.any():
            break
    return Minimum(coef, is_minimum)


def minimize(risk: Risk, *, most_steps: int = 100, step_size: float = 1.0) -> Minimum:
    """Minimize a risk by :func:`newton_descent` from zero.

    Directions in which the rows do not vary get coefficient zero. Therefore a solution exists for collinear
    columns and for more columns than rows. With classes, coefficients sum to zero over classes.

    If a linear predictor separates the classes, the risk has no minimum. It falls forever along that
    predictor, and its curvature vanishes; ``found`` is False there.
    """
    contrasts = _contrasts(risk.family.classes)
    whitening, unwhitening = _whitening(risk.second_moments())

    def newton_step(coef: FloatArray) -> Step:
        change, white, sound = _newton_step(risk, coef, contrasts, whitening)
        flat = coef.reshape(len(coef), -1, len(white))
        white_coef = np.einsum("red,dcr,ck->rke", unwhitening, flat, contrasts)
        return Step(change, sound, _norms(white) / (1 + _norms(white_coef)) <= _CLOSE)

    start: FloatArray = np.zeros(risk.shape)
    return newton_descent(start, risk.loss, newton_step, most_steps=most_steps, step_size=step_size)


def _newton_step(
    risk: Risk, coef: FloatArray, contrasts: FloatArray, whitening: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the step, the same in whitened units, (R, k, d), and where it is sound."""
    d, n_replicates = coef.shape[0], coef.shape[-1]
    k = contrasts.shape[1]
    gradient = np.moveaxis(risk.gradient(coef).reshape(d, -1, n_replicates), -1, 0)
    hessian = risk.curvature(coef, contrasts)
    # In whitened units T'x rows vary by one in every direction that they have.
    slope = np.einsum("rde,rdc,ck->rke", whitening, gradient, contrasts).reshape(n_replicates, k * d)
    left = np.swapaxes(whitening, 1, 2)[:, None, None] @ np.moveaxis(hessian, 3, 2) @ whitening[:, None, None]
    curvature = np.moveaxis(left, 2, 3).reshape(n_replicates, k * d, k * d)
    unused = np.tile(~whitening.any(axis=1), (1, k))
    curvature[:, range(k * d), range(k * d)] += unused * np.maximum(
        1.0, np.trace(curvature, axis1=1, axis2=2)[:, None]
    )
    finite = np.isfinite(curvature).all(axis=(1, 2)) & np.isfinite(slope).all(axis=1)
    curvature[~finite] = np.eye(k * d)
    smallest = np.linalg.eigvalsh(curvature)[:, 0]
    sound = finite & (smallest > _FLAT)
    curvature[~sound] = np.eye(k * d)
    white = np.linalg.solve(curvature, slope[:, :, None]).reshape(n_replicates, k, d)
    step = np.einsum("rde,rke,ck->dcr", whitening, white, contrasts)
    return step.reshape(coef.shape), white, sound


def _whitening(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return T with T' E[x x'] T = 1 on the directions that rows have, zero on the others, and T⁺."""
    scale = np.sqrt(np.einsum("rjj->rj", moments))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(moments * inverse[:, :, None] * inverse[:, None, :])
    is_resolved = values > _RANK * values[:, -1:]
    roots = np.sqrt(np.where(is_resolved, values, 1.0))
    whitening = inverse[:, :, None] * vectors * (is_resolved / roots)[:, None, :]
    unwhitening = (is_resolved * roots)[:, :, None] * np.swapaxes(vectors, 1, 2) * scale[:, None, :]
    return whitening, unwhitening


def _contrasts(classes: tuple[int, ...]) -> FloatArray:
    """Return orthonormal contrasts of K classes that sum to zero, (K, K − 1); [[1]] without classes."""
    if not classes:
        return np.ones((1, 1))
    centering = np.eye(classes[0]) - 1 / classes[0]
    return np.asarray(np.linalg.svd(centering)[0][:, :-1])


def _predict(block: Block, coef: FloatArray) -> FloatArray:
    """Return linear predictors with the offset, (…, n) or (…, K, n)."""
    X, _ = block.derived
    return block.predictors(coef, X) + block.offset


def _norms(values: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((values**2).sum(axis=(1, 2))))


def _dot(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.asarray((first * second).reshape(-1, first.shape[-1]).sum(axis=0))


def mean_gradient(rows: Rows, family: Family, row_bound: float) -> Callable[[FloatArray], FloatArray]:
    """Return β ↦ (1/n) Σ w_i r_i x_i, both (…, d), or (…, d, K) with K classes.

    Rows are clipped to the ℓ2 norm ``row_bound``. Residuals r are clipped to the family's public bound.
    Labels outside the family are refused.
    """
    prepared = rows.map(clipped_and_encoded(family, row_bound))
    has_classes = bool(family.classes)

    def at(coef: FloatArray) -> FloatArray:
        of_classes = np.swapaxes(coef, -1, -2) if has_classes else coef

        def part(block: Block) -> FloatArray:
            X, _ = block.derived
            return block.products(by_family(block, family.residual, block.predictors(of_classes, X)), X)

        gradient = prepared.mean(part)
        return np.asarray(np.swapaxes(gradient, -1, -2) if has_classes else gradient)

    return at


def clipped_and_encoded(family: Family, row_bound: float | None) -> Query:
    """Return block ↦ its rows, clipped to an ℓ2 norm if one is given, and its checked responses."""

    def prepared(block: Block) -> tuple[FloatArray, FloatArray]:
        rows = block.X if row_bound is None else clip_rows_l2(block.X, row_bound)
        return rows, encoded(family, block.y)

    return prepared


def encoded(family: Family, y: FloatArray) -> FloatArray:
    """Return checked responses (n,) or (R, n) with rows first and replicates last."""
    flat = family.encode(y.ravel())
    if y.ndim == 1:
        return flat
    return np.asarray(np.moveaxis(flat[..., 0].reshape(*y.shape, *flat.shape[1:-1]), 0, -1))


def by_family(
    block: Block, function: Callable[[FloatArray, FloatArray], FloatArray], predictors: FloatArray
) -> FloatArray:
    """Return a family's function of predictors (…, n), or (…, K, n), and of the block's encoded responses.

    Families have rows first and replicates last.
    """
    _, y = block.derived
    if block.is_batch:
        return np.asarray(function(predictors.T, y).T)
    return np.asarray(function(predictors.T[..., None], y)[..., 0].T)
