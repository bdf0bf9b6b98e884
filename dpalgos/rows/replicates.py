"""A fit of one replicate, run for each of a sample's replicates."""

from collections.abc import Callable

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


def each_replicate(
    sample: Sample, transcript: Transcript, fit: Callable[[int, Sample, Transcript], FloatArray]
) -> FloatArray:
    """Return the estimates (…, R) of a fit of one replicate, ``(r, sample, transcript) -> (…, 1)``.

    Each replicate has its own rows and noise. Their releases and intervals are joined in the transcript.
    """
    if transcript.n_replicates == 1:
        transcript.renew_noise()
        return fit(0, sample.for_replicate(0), transcript)
    parts = [transcript.for_replicate(r) for r in range(transcript.n_replicates)]
    estimates = [fit(r, sample.for_replicate(r), part) for r, part in enumerate(parts)]
    transcript.join(parts)
    return np.concatenate(estimates, axis=-1)
