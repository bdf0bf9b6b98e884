"""Levels at which to clip, by a private binary search: about a wanted number of norms lies above the level.

A count of rows above a public level moves by 1 when a row is replaced; each halving of m candidate levels is
one Gaussian release of a count, ⌈log₂ m⌉ of them whatever the data. The answer errs by about the noise of one
count, so that the wanted number should exceed it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.models.whitened_scores import ScoresAt, WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.steps.clipping import ROWS_ABOVE, at_the_last_level, counts_above
from dpalgos.typing import FloatArray


def count_sensitivity() -> float:
    """Return 1: replacing a row raises a count of rows by one, lowers it by one or leaves it."""
    return 1.0


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def search_level(
    transcript: Transcript,
    candidates: FloatArray,
    wanted: FloatArray,
    norms: Grouped[FloatArray],
    *,
    noise_multiplier: float,
    label: str,
) -> FloatArray:
    """Release the lowest candidate that at most about ``wanted`` of the ``norms`` exceed, (R,).

    A diagnostic says whether that is the last candidate: then the rows are larger than those tried.
    Candidates are rising public levels, (m,) or (m, R) where each replicate has its own. Streamed rows are
    read once, whatever the number of candidates.
    """
    replicate = np.arange(transcript.n_replicates)
    levels = np.broadcast_to(candidates.reshape(len(candidates), -1), (len(candidates), len(replicate)))
    above = counts_above(norms, levels)
    low = np.zeros(len(replicate), dtype=int)
    high = np.full(len(replicate), len(candidates) - 1)
    for _ in range(counts_needed(len(candidates))):
        middle = (low + high) // 2
        released = transcript.gaussian(
            above(middle)[None, :],
            l2_sensitivity=count_sensitivity(),
            noise_multiplier=noise_multiplier,
            label=label,
        )[0]
        too_many = released > wanted
        low = np.where(too_many, np.minimum(middle + 1, high), low)
        high = np.where(too_many, high, middle)
    transcript.note(at_the_last_level(label), high == len(candidates) - 1)
    return np.asarray(levels[high, replicate])


N_COUNTS = counts_needed(16)  # of one search of a preconditioned regression
_ROW_LEVELS = np.geomspace(0.5, 8, 16)  # times √(d + 1)
_WHITENED_LEVELS = np.geomspace(0.5, 16, 16)  # times √d
_GRADIENT_LEVELS = np.geomspace(0.15, 24, 16)  # times √d
_REFERENCE_SIZE = 489  # the nμ at which the factors are meant


@dataclass(frozen=True, kw_only=True)
class WantedRows:
    """How many rows a preconditioned regression should clip, as factors c on √d/μ (nμ/489)^(−1/4).

    For moments ``rows``; for ``gradients`` at each of the first ``n_searched_steps`` steps, where the level
    found is multiplied by ``widened``.
    """

    rows: float = 100.0
    gradients: float = 20.0
    n_searched_steps: int = 3
    widened: float = 1.0


def with_response(group: Group) -> FloatArray:
    """Return the rows [x, y] of a group."""
    return np.column_stack([group.X, group.y])


class RegressionLevels:
    """The clip levels of `dpalgos.central.preconditioned_regression`, released as its steps need them.

    A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
    budget, the fewer rows are clipped. Factors and exponents are empirical, found on the California housing
    data.

    Parameters
    ----------
    sample : Sample
    clip : str or pair of float
        ``"private"``: by searches among sixteen levels; ``"rule"``: C_A = 3 x^0.4, C = 3.2 x^0.85; or public
        levels of rows and of gradients.
    mu : float
        μ(ε, δ) of the whole estimate: how few rows may be clipped depends on it.
    wanted : WantedRows
        How many rows should be clipped.
    noise_multiplier : float
        Of each noisy count: ``N_COUNTS`` for each search, one search for the rows, one for whitened rows if
        they are asked for, and ``wanted.n_searched_steps`` for gradients. Looked at for private levels only.
    transcript : Transcript
    """

    def __init__(
        self,
        sample: Sample,
        clip: str | tuple[float, float],
        mu: float,
        wanted: WantedRows,
        noise_multiplier: float,
        transcript: Transcript,
    ) -> None:
        self._sample, self._clip, self._mu, self._transcript = sample, clip, mu, transcript
        self._asked, self._noise_multiplier = wanted, noise_multiplier
        self._scale = sample.n_rows * mu / _REFERENCE_SIZE
        self._gradient_level: FloatArray = np.empty(0)
        self.clipped_share: FloatArray = np.zeros(sample.n_replicates)  # of the rows, about, in a step

    def rows(self, made: Callable[[Group], FloatArray]) -> FloatArray:
        """Return the level C_A for the rows that ``made`` returns of a group, (R,)."""
        sample = self._sample
        if isinstance(self._clip, tuple):
            return np.full(sample.n_replicates, self._clip[0])
        if self._clip == "rule":
            return 3 * self._scale**0.4
        norms = sample.grouped(lambda group: np.linalg.norm(made(group), axis=1)[:, None] * group.weights)
        levels = _ROW_LEVELS * np.sqrt(sample.n_features + 1)
        return self._searched(levels, self._wanted(self._asked.rows), norms, ROWS_ABOVE)

    def whitened_rows(self, rows: WhitenedScores) -> FloatArray:
        """Return the level C_B for whitened rows, (R,)."""
        levels = _WHITENED_LEVELS * np.sqrt(self._sample.n_features)
        return self._searched(levels, self._wanted(20), rows.norms(), "whitened rows above a level")

    def gradients(self, at: ScoresAt, step: int) -> FloatArray:
        """Return the level C for step ``step``, (R,)."""
        if isinstance(self._clip, tuple):
            return np.full(self._sample.n_replicates, self._clip[1])
        if self._clip == "rule":
            return 3.2 * self._scale**0.85
        if step < self._asked.n_searched_steps:
            levels, wanted = _GRADIENT_LEVELS * np.sqrt(self._sample.n_features), self._asked.gradients
            found = self._searched(levels, self._wanted(wanted), at.norms(), "gradients above a level")
            self._gradient_level = found * self._asked.widened
            self.clipped_share = self._wanted(wanted) / self._sample.n_rows
        return self._gradient_level

    def _wanted(self, base: float) -> FloatArray:
        wanted = base * np.sqrt(self._sample.n_features) / self._mu * self._scale**-0.25
        return np.asarray(np.minimum(wanted, 0.9 * self._sample.n_rows))

    def _searched(
        self,
        candidates: FloatArray,
        wanted: FloatArray,
        norms: Grouped[FloatArray],
        label: str,
    ) -> FloatArray:
        multiplier = self._noise_multiplier
        return search_level(
            self._transcript, candidates, wanted, norms, noise_multiplier=multiplier, label=label
        )
