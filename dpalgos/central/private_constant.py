"""The private constant: a released mean response alone, which every model of columns has to beat.

    β̂ = (0, …, 0, g(m̂)),   m̂ = the released mean response, g the link function

Guarantee: (ε, 0) under replacing one row (x, y); n is public. The last column of X is the constant 1. The
response of a linear model should be in public units in which it lies within ±2.

Why it is private. It is the estimate of few rows of :mod:`dpalgos.central.preconditioned`: a mean of cut
responses with Laplace noise of scale Δ/ε. The cut of counts is released before it, with two fifths of ε.
A low public maximum of counts, ``count_bound``, is the cut itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.catalog import register
from dpalgos.central.preconditioned.intercept import CountBound, released_start
from dpalgos.central.preconditioned.plan import CONSTANT, LOGARITHM, Numbers, intercept_alone
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.other_plans import laplace_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, interval
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.params import choice, count
from dpalgos.typing import FloatArray


@register(
    name="private_constant",
    title="Private constant",
    order=47,
    task="any",
    reference="ours; a mean with Laplace noise",
    summary="Releases the mean response alone; a model has to predict better.",
    no_interval="only the mean response is released; use preconditioned_glm",
    calibrations=("tight",),
    check_data=check_labels,
    public="the constant 1 is the last column; a unit in which the response of a linear model is within ±2",
)
@dataclass(frozen=True, kw_only=True)
class PrivateConstant(PrivateEstimator, CountBound):
    """The coefficients (d,), or (d, K) with classes: all except the last are 0."""

    family: str = choice("distribution of the responses given their mean", family_names(), default="gaussian")
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    lemmas: ClassVar[Lemmas] = {LOGARITHM: interval, CONSTANT: interval}

    def family_object(self) -> Family:
        """Return the family."""
        return get_family(self.family, n_classes=self.n_classes)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_count_bound(self.family)

    def plan(self, n: float, d: int) -> Plan:
        numbers = Numbers(
            n_rows=n,
            d=1,
            mu=1.0,
            family=self.family_object(),
            intercept=True,
            count_bound=self.count_bound or np.inf,
        )
        return laplace_plan(self.epsilon, intercept_alone(numbers))

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        rows.sample.check_response()
        family = self.family_object()
        coef = np.zeros((rows.d, *family.classes))
        coef[-1] = released_start(spend, rows, family, self.count_bound or np.inf).predictor
        return rows.by_replicate(family.identified(rows.by_column(coef)))
