"""A nested model from a release of the whole one: constrained least squares in the released metric.

    β_S  = argmin (β̃ − β)' H (β̃ − β)  over β with β_R = 0   =  β̃_S + H_SS⁻¹ H_SR β̃_R,   H = B'⁻¹ Q B⁻¹

β̃ = B θ̃ are the released coefficients of the whole model, before they are shrunk, Q is the released curvature
in white coordinates, B known. With least squares' β̃ and the rows' second moments H it is least squares of the
nested model, exactly; in a generalized linear model it is one Newton step from the whole one.

Nothing is read but what :class:`dpalgos.intervals.regression.ReleasedRegression` holds: released and public
numbers, so that a nested model is post-processing and costs no ε. (A test replays it on other rows.)

What its intervals count. β_S solves P_S'(Q(θ_t − θ_S) + g) = 0, with a gradient g released at θ_t. Its error
is Λ times that of the left-hand side at the true θ_S, Λ = (P_S'Q P_S)⁻¹P_S' = L W Q⁻¹ for the combinations
L = [I, H_SS⁻¹H_SR] of β̃:

- noise and sampling of g, as of any combination;
- noise of Q times θ_t − θ_S = r − δ, where r = θ̃ − θ_S is what the nested model leaves out, and δ = θ̃ − θ_t
  the step: the noise of the metric matters as far as something is left out;
- sampling of Q times r: the mean of u u'r over rows has covariance E u u'(u'r)²/n, which is r'Qr Q/(p n) for
  normal rows, of which a share p counts, and Λ Q r = 0. Rows of heavier tails have more: times the released
  level of the largest ‖u‖² over that of normal rows. Together with the second moments of scores that is the
  sandwich of the nested model, whose residuals are those of the whole one and u'r;
- directions whose curvature noise hides: |Λ v| λ |v'r| for an eigenvalue λ that may be anything below.

Two targets. β̃ is that of robust regression, if ``interval_target`` is; so is β_S, with the metric of the rows
whose scores are not clipped. Where errors do not depend on the covariates, and rows that are clipped are not
of another shape, both are the population's least squares.

Second order. E x_S (ψ'(x'β̃) − ψ'(x_S'β_S)) = 0 is not linear in β_S. What normal rows of the released mean
would add is added (:func:`_second_order`), and half of it counts as a bias. Of counts, whose largest rows the
metric misses most, a quarter of what the metric moves counts as well, and along the intercept all of r'Qr/p.

No interval: where the combination has none in the whole model, for the reason that it has.
"""

import numpy as np

from dpalgos.intervals.regression import OmittedEffect, ReleasedRegression
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ROUNDS, _NARROWEST = 8, 1e-9
_HALF, _CLIPPED_METRIC = 0.5, 0.25  # of a second order; of what the metric of counts moves


def nested(
    released: ReleasedRegression, matrix: FloatArray, shift: FloatArray, kept: list[int]
) -> tuple[FloatArray, OmittedEffect]:
    """Return the combinations L (|S|, k) of shown coefficients, and what the nested model omits.

    Shown coefficients are ``matrix`` (k, m) times those that were released, plus ``shift`` (k,); ``kept`` are
    those that the nested model has. The ``moved`` part is of the kept ones.
    """
    first = int(released.has_offset)
    to_shown = matrix[:, first:] @ released.outer
    back: FloatArray = np.linalg.inv(to_shown)
    curvature = released.curvature
    metric = (curvature.vectors * np.sqrt(curvature.values)).T @ back
    combinations = np.linalg.lstsq(metric[:, kept], metric, rcond=None)[0]
    whole = matrix @ released.coefficients + shift
    placed: FloatArray = np.zeros(len(matrix))
    placed[kept] = combinations @ whole
    white: FloatArray = back @ (whole - placed)
    moved: FloatArray = np.zeros(len(kept))
    unsure = moved
    if not released.family.is_linear:
        with np.errstate(all="ignore"):
            moved = _second_order(released, white, back[:, kept])
        known = np.isfinite(moved)
        unsure = np.where(known, _HALF * np.abs(moved), np.inf)
        moved = np.where(known, moved, 0.0)
    if released.family.has_counts:
        explained = float(curvature.along(white) ** 2 @ curvature.values / curvature.total)
        metric_bias = np.abs(combinations @ whole - whole[kept]) * _CLIPPED_METRIC
        unsure = unsure + metric_bias + explained * np.abs(to_shown @ curvature.ones)[kept]
    return combinations, OmittedEffect(white, moved, unsure)


def _second_order(released: ReleasedRegression, white: FloatArray, tangent: FloatArray) -> FloatArray:
    """Return by how much a nested model of normal rows differs from one Newton step to it, (|S|,).

    ``white`` is r; ``tangent`` (d, |S|) brings the nested model's coefficients to white ones.
    """
    family, theta = released.family, released.center.theta
    mean = released.curvature.ones / max(1.0, float(np.linalg.norm(released.curvature.ones)))
    origin = released.middle - float(mean @ theta)

    def step(left_out: FloatArray, gap: FloatArray) -> FloatArray:
        curvature = normal_curvature(family, theta - left_out, mean, origin)
        inner = tangent.T @ curvature @ tangent
        if not np.isfinite(inner).all():
            return np.full(len(inner), np.nan)
        return np.asarray(np.linalg.pinv(inner, hermitian=True) @ (tangent.T @ gap))

    first = step(0 * white, normal_curvature(family, theta, mean, origin) @ white)
    found = first
    for _ in range(_ROUNDS):
        left_out = white - tangent @ found
        found = found + step(left_out, _gap(released, left_out, mean))
    return found - first


def _gap(released: ReleasedRegression, left_out: FloatArray, mean: FloatArray) -> FloatArray:
    """Return E u (ψ'(η) − ψ'(η − ρ)), ρ = u'r, (d,), on normal rows u of mean ``mean`` and moments I."""
    theta = released.center.theta
    slope = _scaled(theta - mean * (mean @ theta), theta)
    other = _scaled(left_out - mean * (mean @ left_out) - slope * (slope @ left_out), left_out)
    first, second = (axis.ravel() for axis in np.meshgrid(_NODES, _NODES, indexing="ij"))
    predictor = released.middle + (slope @ theta) * first
    omitted = mean @ left_out + (slope @ left_out) * first + (other @ left_out) * second
    means = released.family.mean(np.stack([predictor, predictor - omitted], axis=1))
    gap = np.outer(_WEIGHTS, _WEIGHTS).ravel() * (means[:, 0] - means[:, 1])
    return np.asarray(mean * gap.sum() + slope * (gap @ first) + other * (gap @ second))


def _scaled(direction: FloatArray, along: FloatArray) -> FloatArray:
    """Return a covariance with u'a, a = ``along``, over the latter's standard deviation."""
    return np.asarray(direction / np.maximum(np.sqrt(np.maximum(direction @ along, 0.0)), _NARROWEST))
