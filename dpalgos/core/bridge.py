"""The bridge between two protocols: a :class:`PrivateEstimator` on a sample and a transcript.

It is needed until all estimators are of that class. Then `Sample`, `Transcript` and this module go.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpalgos.core.estimator import PrivateEstimator, declared_lemmas
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.release.declared import Release
from dpalgos.release.transcript import Transcript
from dpalgos.rows.replicates import each_replicate
from dpalgos.rows.sample import Sample
from dpalgos.rows.units import UnitParams
from dpalgos.typing import FloatArray


def run_on_sample(sample: Sample, estimator: PrivateEstimator, transcript: Transcript) -> FloatArray:
    """Return the estimates (…, R) on the rows of a sample: a batch, or one replicate after the other."""
    is_batch = estimator.batch and sample.n_replicates > 1 and sample.units is None
    is_batch = is_batch and (sample.row_mask is None or not estimator.batch_of_same_rows)
    if transcript.n_replicates > 1 and not is_batch:
        return each_replicate(sample, transcript, lambda _, own, part: run_on_sample(own, estimator, part))
    if not is_batch:
        sample = sample.for_replicate(0)
    if isinstance(estimator, UnitParams):
        sample = estimator.with_units(sample)
    elif estimator.weighs_people:
        sample = UnitParams().with_units(sample)
    rows = Rows.of_sample(sample, is_batch=is_batch)
    if estimator.of_users:
        rows = rows.with_total(float(sample.n_users[0]))
    lemmas = declared_lemmas(estimator)
    spend = Spend(estimator.plan(rows.n, rows.d), lemmas, transcript, is_batch=is_batch)
    estimate = estimator.fit(rows, spend)
    spend.check_complete()
    if not is_batch:
        return np.asarray(estimate[..., None])
    estimate = np.broadcast_to(estimate, (transcript.n_replicates, *estimate.shape[1:]))
    return np.moveaxis(estimate, 0, -1)


def function_of(estimator: type[PrivateEstimator], name: str) -> Callable[..., FloatArray]:
    """Return the function of a catalog entry, in the module of the estimator's class."""

    def function(sample: Sample, params: PrivateEstimator, transcript: Transcript) -> FloatArray:
        return run_on_sample(sample, params, transcript)

    function.__module__, function.__name__, function.__qualname__ = estimator.__module__, name, name
    return function


def releases_of(estimator: type[PrivateEstimator]) -> tuple[Release, ...]:
    """Return the releases of an estimator's class as the catalog lists them."""
    return tuple(
        Release(label, lemma, estimator.witnesses.get(label))
        for label, lemmas in declared_lemmas(estimator).items()
        for lemma in lemmas
    )


def catalog_settings(estimator: type[PrivateEstimator]) -> dict[str, Any]:
    """Return what the catalog derives from the class of an estimator."""
    return {
        "parameters": estimator,
        "releases": releases_of(estimator),
        "one_replicate": estimator.batch is False,
    }
