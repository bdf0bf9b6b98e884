"""Maximum likelihood in a generalized linear model, without privacy.

    β̂ = argmin_β Σ_i ψ(o_i + x_i'β) − y_i x_i'β

Offsets o_i are 0 unless there is an offset. The method is Newton's with step halving, from zero. For Gaussian
responses it is least squares (:mod:`dpalgos.nonprivate.ols`). No intercept is added. Collinear columns share
the effect; an all-zero column gets coefficient zero. Responses that a linear predictor separates are refused:
their likelihood has no maximum.
"""

from dataclasses import dataclass

from dpalgos.catalog import register
from dpalgos.core.estimator import PublicEstimator
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.models.families import Family, family_names, get_family
from dpalgos.models.offsets import OffsetEstimator
from dpalgos.models.risk import Risk, minimize
from dpalgos.nonprivate.ols import least_squares
from dpalgos.nonprivate.robust_intervals import (
    RobustIntervalEstimator,
    glm_half_widths,
    least_squares_half_widths,
    robust_interval,
)
from dpalgos.params import choice, count
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class LikelihoodEstimator(PublicEstimator):
    """Keywords of non-private estimators in a generalized linear model."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.family_object()

    def family_object(self) -> Family:
        """Return the family, its residuals not clipped."""
        return get_family(self.family, n_classes=self.n_classes)


@register(
    name="glm",
    title="Maximum likelihood",
    order=16,
    task="glm",
    relation=None,
    reference="maximum likelihood",
    summary="Newton's method on the likelihood, without privacy.",
    example={"family": "gaussian"},
)
@dataclass(frozen=True, kw_only=True)
class GLM(RobustIntervalEstimator, LikelihoodEstimator, OffsetEstimator):
    """Maximum likelihood."""

    batch = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_offset(self.family_object())
        if self.interval is not None and self.family == "multinomial":
            raise InputError(
                f"interval must be left out for family='multinomial', got {self.interval!r}: its "
                "coefficients are known up to a common vector"
            )

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        is_linear = self.family_object().is_linear and self.offset_bounds is None
        coef = least_squares(rows) if is_linear else self._likeliest(rows)
        if self.interval is not None:
            widths = (
                least_squares_half_widths(self.interval)
                if is_linear
                else glm_half_widths(self.interval, self.family, self.offset_bounds)
            )
            spend.keep_interval(robust_interval(rows.sample, widths))
        return rows.by_replicate(coef)

    def _likeliest(self, rows: Rows) -> FloatArray:
        """Return the coefficients of the maximum, (d, R), or (d, K, R) with classes."""
        covariates = Rows.of_sample(self.covariates(rows.sample), is_batch=rows.is_batch)
        minimum = minimize(Risk(self.family_object(), covariates))
        if not minimum.converged.all():
            raise InputError(
                f"y must not be separated by a linear predictor for family={self.family!r}, or the "
                "likelihood has no maximum (or none within reach); add rows, drop or rescale columns, or "
                "take a private or sparse estimator"
            )
        return self.coefficients(minimum.coef)
