"""Private estimators with their noise switched off: **not private**, a diagnostic of comparisons alone.

Clipping, sketches, ridges and numbers of steps are those of the private run. The error without noise is
therefore what a method loses by other means than its noise: early stopping, clipping, sketching, shrinkage.

It can exceed the error with noise. Noise in second moments blunts whitening, so fewer rows along narrow
directions are clipped. Released values with noise are larger, so they are shrunk less.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpalgos.accounting.events import GaussianSketchEvent, Relation, UnprotectedEvent
from dpalgos.api import build_params, replicate_generators, result_of, run_estimator
from dpalgos.catalog import get_estimator
from dpalgos.errors import InputError
from dpalgos.release.noise_source import Noise, NoNoise
from dpalgos.release.transcript import Transcript, sketched
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


class NoiseOffTranscript(Transcript):
    """A transcript that publishes private values as they are. A sketch stays random; its ridge goes."""

    def __init__(self, generators: Sequence[np.random.Generator], relation: Relation) -> None:
        super().__init__(NoNoise(generators), relation)
        self._sketches = Noise(generators)

    def restart(self, r: int) -> None:
        super().restart(r)
        self._sketches = self._sketches.select(slice(r, r + 1))

    def gaussian_sketch(self, gram: FloatArray, *, n_rows: int, added: object, **planned: Any) -> FloatArray:
        self.record(GaussianSketchEvent(n_rows=n_rows, **planned))
        return sketched(gram, np.moveaxis(self._sketches.normal(n_rows, gram.shape[-1]), -1, 0))


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
    transcript = NoiseOffTranscript(replicate_generators(rng, replicates), relation)
    estimate = run_estimator(estimator, sample, params, transcript)
    transcript.events = [UnprotectedEvent(label="all releases, with noise switched off")]
    return result_of(estimate, transcript, estimator, params, sample, certified_epsilon=math.inf)
