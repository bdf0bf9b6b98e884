"""A nested model from a release of the whole model: constrained least squares in the released metric.

    β_S  = argmin (β̃ − L β)' H (β̃ − L β)   =  (L'HL)⁻¹ L'H β̃,   H = B'⁻¹ Q B⁻¹

The nested columns are L times the columns of the whole model. If L selects columns S and leaves out R, then
β_S = β̃_S + H_SS⁻¹ H_SR β̃_R. β̃ = B θ̃ are the released coefficients of the whole model, before shrinkage. Q is
the released curvature in white coordinates, and B is known. If β̃ is the least squares estimate and H are the
rows' second moments, β_S is exactly the least squares estimate of the nested model. In a generalized linear
model it is one Newton step from the whole model.

The input is :class:`dpalgos.intervals.regression.ReleasedRegression`, which holds released and public numbers
only. Therefore a nested model is post-processing and costs no ε. (A test replays it on other rows.)

**Errors that its intervals account for.** β_S solves P_S'(Q(θ_t − θ_S) + g) = 0, with a gradient g released
at θ_t. Its error is Λ times the error of the left side at the true θ_S. Here Λ = (P_S'Q P_S)⁻¹P_S' = L W Q⁻¹
for the combinations L = [I, H_SS⁻¹H_SR] of β̃. The errors are:

- Noise and sampling error of g, as for any combination.
- Noise of Q times θ_t − θ_S = r − δ. Here r = θ̃ − θ_S is the omitted part, and δ = θ̃ − θ_t is the step. The
  noise of the metric matters in proportion to the omitted part.
- Sampling error of Q times r. The mean of u u'r over rows has covariance E u u'(u'r)²/n. For normal rows, of
  which a share p counts, this is r'Qr Q/(p n), and Λ Q r = 0. Rows with heavier tails have more: the factor
  is the released threshold of the largest ‖u‖² over that of normal rows. Together with the second moments of
  scores, this is the sandwich of the nested model. Its residuals are those of the whole model plus u'r.
- Directions whose curvature is below the noise: |Λ v| λ |v'r| for an eigenvalue with an upper bound λ.

**Targets.** If ``interval_target`` is robust regression, so is the target of β̃ and of β_S; the metric is
that of the rows with unclipped scores. The target is the population's least squares if errors do not depend
on the covariates and clipped rows have the same distribution.

**Second order.** E x_S (ψ'(x'β̃) − ψ'(x_S'β_S)) = 0 is not linear in β_S. The correction for normal rows with
the released mean is added (:func:`_second_order`), and half of it counts as a bias. Other rows need another
correction. Therefore the largest correction of an event's coefficient, in half-widths, counts as a bias of
each. If it exceeds 1, or if events are nearly separated, no coefficient has an interval. For counts, the
metric misses the largest rows most. There, a quarter of the change by the metric counts as well, and along
the intercept all of r'Qr/p.

A coefficient has no interval if its combination has none in the whole model, with the same reason.
"""

import numpy as np

from dpalgos.intervals.regression import OmittedEffect, ReleasedRegression
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ROUNDS, _NARROWEST = 8, 1e-9
_NO_BOUND, _DIVERGED = 1e200, 1e9  # a bias without a bound; white coefficients without a limit
_HALF, _CLIPPED_METRIC = 0.5, 0.25  # of a second order; of what the metric of counts moves
_STEEPEST = 4.0  # standard deviation of an event's linear predictor; above it, events are nearly separated


def nested(
    released: ReleasedRegression, matrix: FloatArray, shift: FloatArray, L: FloatArray
) -> tuple[FloatArray, OmittedEffect]:
    """Return the combinations (s, k) of shown coefficients, and the effect of the omitted terms.

    Shown coefficients are ``matrix`` (k, m) times the released ones, plus ``shift`` (k,). The nested columns
    are the shown ones times ``L`` (k, s).
    """
    first = int(released.has_offset)
    to_coef = matrix[:, first:] @ released.outer
    back: FloatArray = np.linalg.inv(to_coef)
    curvature = released.curvature
    metric = (curvature.vectors * np.sqrt(curvature.values)).T @ back
    combinations = np.linalg.lstsq(metric @ L, metric, rcond=None)[0]
    whole = matrix @ released.coefficients + shift
    white: FloatArray = back @ (whole - L @ (combinations @ whole))
    shift_of_kept: FloatArray = np.zeros(L.shape[1])
    unsure = shift_of_kept
    if not released.family.is_linear:
        with np.errstate(all="ignore"):
            tangent, to_kept = np.linalg.qr(back @ L)  # covariates may be far from zero
            shift_of_kept = np.linalg.solve(to_kept, _second_order(released, white, tangent))
        is_finite = np.isfinite(shift_of_kept)
        unsure = np.where(is_finite, _HALF * np.abs(shift_of_kept), _NO_BOUND)
        shift_of_kept = np.where(is_finite, shift_of_kept, 0.0)
        half = np.nan_to_num(released.along(combinations @ matrix).half_width[:, 0])
        part = float((np.abs(shift_of_kept) / np.where(half > 0, half, np.inf)).max(initial=0.0))
        if not released.family.has_counts:
            unsure = np.maximum(unsure, part * half if part <= 1 else _NO_BOUND)
    if released.family.has_counts:
        selection = np.linalg.pinv(L)  # if columns are left out, it selects the others
        explained = float(curvature.along(white) ** 2 @ curvature.values / curvature.total)
        metric_bias = np.abs(combinations @ whole - selection @ whole) * _CLIPPED_METRIC
        unsure = unsure + metric_bias + explained * np.abs(selection @ to_coef @ curvature.ones)
    return combinations, OmittedEffect(white, shift_of_kept, unsure)


def _second_order(released: ReleasedRegression, white: FloatArray, tangent: FloatArray) -> FloatArray:
    """Return the difference between a nested model of normal rows and one Newton step to it, (|S|,), or NaN.

    ``white`` is r. ``tangent`` (d, |S|) maps the nested model's coefficients to white ones.
    """
    family, theta = released.family, released.center.theta
    mean = released.curvature.ones / max(1.0, float(np.linalg.norm(released.curvature.ones)))
    origin = released.middle - float(mean @ theta)
    if not family.has_counts and theta @ theta - (mean @ theta) ** 2 > _STEEPEST**2:
        return np.full(tangent.shape[1], np.nan)

    def step(left_out: FloatArray, gap: FloatArray) -> FloatArray:
        curvature = normal_curvature(family, theta - left_out, mean, origin)
        inner = tangent.T @ curvature @ tangent
        if not np.isfinite(inner).all():
            return np.full(len(inner), np.nan)
        return np.asarray(np.linalg.pinv(inner, hermitian=True) @ (tangent.T @ gap))

    first = step(0 * white, normal_curvature(family, theta, mean, origin) @ white)
    coef = first
    for _ in range(_ROUNDS):
        left_out = white - tangent @ coef
        coef = coef + step(left_out, _gap(released, left_out, mean))
        if not np.abs(coef).max(initial=0.0) < _DIVERGED:
            return np.full_like(coef, np.nan)
    return coef - first


def _gap(released: ReleasedRegression, left_out: FloatArray, mean: FloatArray) -> FloatArray:
    """Return E u (ψ'(η) − ψ'(η − ρ)), ρ = u'r, (d,), for normal rows u with mean ``mean`` and moments I."""
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
    """Return a covariance with u'a, a = ``along``, over the standard deviation of u'a."""
    return np.asarray(direction / np.maximum(np.sqrt(np.maximum(direction @ along, 0.0)), _NARROWEST))
