"""Clip levels of a preconditioned regression: public, by rule, or by private binary search.

    ``"private"``: about k norms lie above the level, k = c (√d/μ) x^(−1/4), x = nμ/489, with c = 100 or 120
    for the rows (a part of them, if more), 20 for whitened rows and 18 or 20 for gradients; each found by a
    binary search of four noisy counts over sixteen public levels (`dpalgos.mechanisms.level_search`). A row
    changes a count by at most 1. The gradients' level is found anew at each of the first three steps.
    ``"rule"``: C_A = 3 x^0.4, C = 3.2 x^0.85.
    a pair of public levels.

A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
budget, the fewer rows are clipped. Factors and exponents are empirical, found on the California housing data,
whose cell of n = 2,000 rows at ε = 0.5, δ = 10/n^1.1 has nμ = 489. There, clipping twice as many gradients
with .3 of the budget for moments makes .16 of an error of .20, and nearly doubles it on a table of light
tails.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.mechanisms.level_search import counts_needed, search_level
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.steps.clipping import counts_above
from dpalgos.steps.whitened_rows import WhitenedRows
from dpalgos.typing import FloatArray

N_COUNTS = counts_needed(16)  # of one search
_ROW_LEVELS = np.geomspace(0.5, 8, 16)  # times √(d + 1)
_WHITENED_LEVELS = np.geomspace(0.5, 16, 16)  # times √d
_GRADIENT_LEVELS = np.geomspace(0.15, 24, 16)  # times √d
_REFERENCE_SIZE = 489  # the nμ at which the factors are meant


@dataclass(frozen=True, kw_only=True)
class WantedRows:
    """How many rows to clip: factors on √d/μ x^(−1/4).

    For moments ``rows``, or a ``part`` of all if that is more; for ``gradients`` at each of the first
    ``n_searched_steps`` steps, where C is the level found, ``widened``.
    """

    rows: float = 100.0
    part: float = 0.0
    gradients: float = 20.0
    n_searched_steps: int = 3
    widened: float = 1.0


def with_response(group: Group) -> FloatArray:
    """Return the rows [x, y] of a group."""
    return np.column_stack([group.X, group.y])


class RegressionLevels:
    """The levels of `dpalgos.central.preconditioned_regression`, each released when it is asked for.

    Parameters
    ----------
    sample : Sample
    clip : str or pair of float
        ``"private"``, ``"rule"``, or public levels of rows and of gradients.
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

    def rows(self) -> FloatArray:
        """Return the level C_A for the rows [x, y], (R,)."""
        sample, asked = self._sample, self._asked
        if isinstance(self._clip, tuple):
            return np.full(sample.n_replicates, self._clip[0])
        if self._clip == "rule":
            return 3 * self._scale**0.4
        norms = sample.grouped(
            lambda group: np.linalg.norm(with_response(group), axis=1)[:, None] * group.weights
        )
        wanted = np.maximum(self._wanted(asked.rows), asked.part * sample.n_rows)
        candidates = _ROW_LEVELS * np.sqrt(sample.n_features + 1)
        return self._searched(candidates, wanted, norms, "rows above a level")

    def whitened_rows(self, rows: WhitenedRows) -> FloatArray:
        """Return the level C_B for whitened rows, (R,)."""
        candidates = _WHITENED_LEVELS * np.sqrt(self._sample.n_features)
        label = "whitened rows above a level"
        return self._searched(candidates, self._wanted(20), rows.norms(), label)

    def gradients(self, rows: WhitenedRows, theta: FloatArray, step: int) -> FloatArray:
        """Return the level C for step ``step``, (R,)."""
        if isinstance(self._clip, tuple):
            return np.full(self._sample.n_replicates, self._clip[1])
        if self._clip == "rule":
            return 3.2 * self._scale**0.85
        if step < self._asked.n_searched_steps:
            found = self._searched(
                _GRADIENT_LEVELS * np.sqrt(self._sample.n_features),
                self._wanted(self._asked.gradients),
                rows.gradient_norms(theta),
                "gradients above a level",
            )
            self._gradient_level = found * self._asked.widened
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
        return search_level(
            self._transcript,
            candidates,
            wanted,
            lambda level: counts_above(norms, level),
            noise_multiplier=self._noise_multiplier,
            label=label,
        )
