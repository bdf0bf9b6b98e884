"""The private constant: a released mean response alone, which every model of columns has to beat.

    β̂ = (0, …, 0, g(m̂)),   m̂ = the released mean response, g the link function

Guarantee: (ε, 0) under replacing one row (x, y); n is public. The last column of X is the constant 1. The
response of a linear model should be in public units in which it lies within ±2.

Why it is private. It is the estimate of few rows of :mod:`dpalgos.central.preconditioned`: a mean of cut
responses with Laplace noise of scale Δ/ε. The cut of counts is released before it, with two fifths of ε.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.central.preconditioned.intercept import released_start
from dpalgos.central.preconditioned.plan import CONSTANT, LOGARITHM, Numbers, intercept_alone
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.params import PrivateParams, choice, count
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class PrivateConstantParams(PrivateParams):
    """Keywords of :func:`private_constant`."""

    family: str = choice("distribution of the responses given their mean", family_names(), default="gaussian")
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    def family_object(self) -> Family:
        return get_family(self.family, n_classes=self.n_classes)


@register(
    title="Private constant",
    order=47,
    task="any",
    reference="ours; a mean with Laplace noise",
    summary="Releases the mean response alone; a model has to predict better.",
    no_interval="only the mean response is released; use preconditioned_glm",
    calibrations=("tight",),
    releases=(LOGARITHM, CONSTANT),
    check_data=check_labels,
    public="the constant 1 is the last column; a unit in which the response of a linear model is within ±2",
)
def private_constant(sample: Sample, params: PrivateConstantParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, 1), or (d, K, 1) with classes: all except the last are 0."""
    sample.check_response()
    family = params.family_object()
    plan = intercept_alone(
        Numbers(n_rows=float(sample.n_rows[0]), d=1, mu=1.0, family=family, intercept=True)
    )
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, plan, pure=True)
    coef = np.zeros((sample.n_features, *family.classes))
    coef[-1] = released_start(spend, plan, sample, family).predictor
    spend.check_complete()
    return family.identified(coef[..., None])
