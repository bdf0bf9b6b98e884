"""Private estimators with their noise switched off: **not private**, a diagnostic of comparisons alone.

Clipping, sketches, ridges and numbers of steps are those of the private run. A sketch stays random, but the
ridge that protects it goes. The error without noise is
therefore what a method loses by other means than its noise: early stopping, clipping, sketching, shrinkage.

It can exceed the error with noise. Noise in second moments blunts whitening, so fewer rows along narrow
directions are clipped. Released values with noise are larger, so they are shrunk less.
"""

import math
from typing import Any

import numpy as np

from dpalgos.accounting.events import Relation, UnprotectedEvent
from dpalgos.api import build_params, replicate_generators, result_of, run_estimator
from dpalgos.catalog import get_estimator
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.release.noise_source import NoNoise
from dpalgos.result import Result
from dpalgos.rows.sample import Sample


def estimate_without_noise(
    name: str, sample: Sample, *, rng: np.random.Generator, replicates: int = 1, **keywords: Any
) -> Result:
    """Run a private estimator with its noise switched off; the result is **not private**.

    Parameters
    ----------
    name : str
        A private estimator of the catalog.
    sample : Sample
        Rows with as many replicates as stated.
    rng : numpy.random.Generator
        Draws what is random in addition to noise, such as sketches.
    replicates : int
        The number of independent repetitions.
    **keywords
        As for :func:`dpalgos.estimate`. ε and δ still decide ridges and plans, where these depend on them.

    Returns
    -------
    Result
        Its certified ε is infinite, and its only event is an unprotected release.
    """
    estimator = get_estimator(name)
    if not estimator.private:
        raise InputError(f"name must be of a private estimator, got {name!r}, which has no noise")
    estimator = estimator.for_unit(people=sample.user_codes is not None)
    params = build_params(estimator, keywords)
    relation = estimator.relation or Relation.CENTRAL
    spend = Spend(NoNoise(replicate_generators(rng, replicates)), relation)
    estimate = run_estimator(estimator, sample, params, spend)
    spend.record.events = [UnprotectedEvent(label="all releases, with noise switched off")]
    return result_of(estimate, spend.record, estimator, params, sample, certified_epsilon=math.inf)
