"""Levels at which to clip, by a private binary search: about a wanted number of norms lies above the level.

A count of rows above a public level moves by 1 when a row is replaced; each halving of m candidate levels is
one Gaussian release of a count, ⌈log₂ m⌉ of them whatever the data. The answer errs by about the noise of one
count, so that the wanted number should exceed it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.models.families import Family
from dpalgos.models.whitened_scores import ScoresAt, WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import ROWS_ABOVE, at_the_last_level, counts_above
from dpalgos.steps.moments import row_norms
from dpalgos.typing import FloatArray, IntArray


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
    found = search_by_counts(
        transcript,
        lambda middle: above(middle[0])[None],
        (len(candidates), 1, len(replicate)),
        wanted,
        l2_sensitivity=count_sensitivity(),
        noise_multiplier=noise_multiplier,
        label=label,
    )[0]
    transcript.note(at_the_last_level(label), found == len(candidates) - 1)
    return np.asarray(levels[found, replicate])


def search_by_counts(
    transcript: Transcript,
    above: Callable[[IntArray], FloatArray],
    shape: tuple[int, int, int],
    wanted: FloatArray,
    *,
    l2_sensitivity: float,
    noise_multiplier: float,
    label: str,
) -> IntArray:
    """Release which is the lowest candidate that at most about ``wanted`` (R,) rows exceed, by bisection.

    ``shape`` is (m, p, R), for m candidates and p searches at once; ``above`` brings numbers of candidates
    (p, R), which are returned at the end, to counts of rows (p, R), which replacing a row moves by
    ``l2_sensitivity``.
    """
    m, *searches = shape
    low, high = np.zeros(searches, dtype=int), np.full(searches, m - 1)
    for _ in range(counts_needed(m)):
        middle = (low + high) // 2
        released = transcript.gaussian(
            above(middle), l2_sensitivity=l2_sensitivity, noise_multiplier=noise_multiplier, label=label
        )
        too_many = released > wanted
        low = np.where(too_many, np.minimum(middle + 1, high), low)
        high = np.where(too_many, high, middle)
    return high


N_COUNTS = counts_needed(16)  # of one search of a preconditioned regression
_ROW_LEVELS = np.geomspace(0.5, 8, 16)  # times √(d + 1)
_WHITENED_LEVELS = np.geomspace(0.5, 16, 16)  # times √d
_GRADIENT_LEVELS = np.geomspace(0.15, 24, 16)  # times √d
_GLM_ROW_LEVELS = np.geomspace(0.75, 8, 16)  # times √(d + 1)
_BOUNDED_LEVELS = np.geomspace(0.2, 3.2, 16)  # times √d and the largest residual
_UNBOUNDED_LEVELS = 1e-3 * 2.0 ** (np.arange(64) / 2)  # times √d
_HIGHEST_RISE = 1.41  # times the level of the gradients before: by one candidate
_FINE_LEVELS = np.geomspace(0.25, 2, 8)  # times the first step's
_RESPONSE_LEVELS = 2.0 ** np.arange(32) - 0.5
_DETECTABLE_COUNT = 4.0  # times the noise of a count: so many rows are told from none
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


def few_rows_levels(size: float, n_features: int) -> tuple[float, float]:
    """Return public levels of rows [x, y] and of gradients where ``size``, nμ, is too small for a search.

    Noise moves a mean of d columns by about √d C/(nμ), so that C falls with nμ, down to a small part of √d.
    """
    root = float(np.sqrt(n_features))
    return float(np.sqrt(n_features + 1)), root * max(0.07, size / 200)


def with_response(group: Group) -> FloatArray:
    """Return the rows [x, y] of a group."""
    return np.column_stack([group.X, group.y])


def with_one(group: Group) -> FloatArray:
    """Return the rows [x, 1]."""
    return np.column_stack([group.X, np.ones(len(group.X))])


class _Levels:
    """Clip levels of one estimate: public, by a rule in nμ, or by private search.

    A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
    budget, the fewer rows are clipped. Factors and exponents are empirical, found on the California housing
    data.
    """

    def __init__(
        self, sample: Sample, clip: str | tuple[float, float], mu: float, transcript: Transcript
    ) -> None:
        self._sample, self._clip, self._transcript, self.mu = sample, clip, transcript, mu
        self._scale = sample.n_rows * mu / _REFERENCE_SIZE
        self._root = float(np.sqrt(sample.n_features))
        self._step_level: FloatArray = np.empty(0)

    def _public(self, level: float) -> FloatArray:
        return np.full(self._sample.n_replicates, level)

    def _norms(
        self, made: Callable[[Group], FloatArray], coordinates: FloatArray | None
    ) -> Grouped[FloatArray]:
        def norms(group: Group) -> FloatArray:
            within = None if coordinates is None else coordinates[group.replicates]
            return np.asarray(row_norms(made(group), within) * group.weights)

        return self._sample.grouped(norms)

    def _wanted(self, base: float, most: float) -> FloatArray:
        """Return about how many rows are to be clipped, at most a share ``most`` of them."""
        wanted = base * self._root / self.mu * self._scale**-0.25
        return np.asarray(np.minimum(wanted, most * self._sample.n_rows))


class RegressionLevels(_Levels):
    """The clip levels of `dpalgos.central.preconditioned_regression`, released as its steps need them.

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
        they are requested, and ``wanted.n_searched_steps`` for gradients. Used with private levels only.
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
        super().__init__(sample, clip, mu, transcript)
        self._asked, self._noise_multiplier = wanted, noise_multiplier
        self.response_unit: FloatArray = np.ones(sample.n_replicates)
        self.clipped_share: FloatArray = np.zeros(sample.n_replicates)  # of the rows, about, in a step

    def rows(self, made: Callable[[Group], FloatArray], coordinates: FloatArray | None = None) -> FloatArray:
        """Return the level C_A for the rows that ``made`` returns of a group, in coordinates if any, (R,)."""
        if isinstance(self._clip, tuple):
            return self._public(self._clip[0])
        if self._clip == "rule":
            return 3 * self._scale**0.4
        levels = _ROW_LEVELS * np.sqrt(self._sample.n_features + 1)
        return self._searched(levels, self._asked.rows, self._norms(made, coordinates), ROWS_ABOVE)

    def whitened_rows(self, rows: WhitenedScores) -> FloatArray:
        """Return the level C_B for whitened rows, (R,)."""
        return self._searched(_WHITENED_LEVELS * self._root, 20, rows.norms(), "whitened rows above a level")

    def gradients(self, at: ScoresAt, step: int) -> FloatArray:
        """Return the level C for step ``step``, (R,).

        Residuals fall from step to step, and noise leads a search far up only, never down: so a level rises
        by one candidate at most.
        """
        if isinstance(self._clip, tuple):
            return self._public(self._clip[1])
        if self._clip == "rule":
            return 3.2 * self._scale**0.85
        if step < self._asked.n_searched_steps:
            wanted = self._asked.gradients
            candidates = _GRADIENT_LEVELS[:, None] * self._root * self.response_unit
            found = self._searched(candidates, wanted, at.norms(), "gradients above a level")
            highest = _HIGHEST_RISE * self._step_level if step else np.inf
            self._step_level = np.minimum(found * self._asked.widened, highest)
            self.clipped_share = self._wanted(wanted, 0.9) / self._sample.n_rows
        return self._step_level

    def _searched(
        self, candidates: FloatArray, base: float, norms: Grouped[FloatArray], label: str
    ) -> FloatArray:
        return search_level(
            self._transcript,
            candidates,
            self._wanted(base, 0.9),
            norms,
            noise_multiplier=self._noise_multiplier,
            label=label,
        )


class GLMLevels(_Levels):
    """The clip levels of `dpalgos.central.preconditioned_glm`, and the size of responses.

    Each count is released with the noise of its part of the budget: "rows", "scores" (the searches at the
    first two steps together), "start".
    """

    def __init__(
        self,
        sample: Sample,
        clip: str | tuple[float, float],
        family: Family,
        budget: SplitBudget,
        transcript: Transcript,
    ) -> None:
        super().__init__(sample, clip, gaussian_mu(budget.epsilon, budget.delta), transcript)
        self._family, self._budget = family, budget

    def rows(self, coordinates: FloatArray | None = None) -> FloatArray:
        """Return the level C_A for the rows [x, 1], in coordinates if there are any, (R,)."""
        clip, root = self._clip, np.sqrt(self._sample.n_features + 1)
        if clip != "private":
            return self._public(clip[0] if isinstance(clip, tuple) else 2 * root)
        norms = self._norms(with_one, coordinates)
        return self._searched(root * _GLM_ROW_LEVELS, self._target_clipped_rows(), norms, "rows", ROWS_ABOVE)

    def _target_clipped_rows(self) -> FloatArray:
        """Return how many rows to clip: fewer the more budget, but as many as their noisy count can tell."""
        detectable = _DETECTABLE_COUNT * self._budget.gaussian_multiplier(
            "rows", counts_needed(len(_GLM_ROW_LEVELS))
        )
        wanted = 100 * self._root / self.mu * self._scale**-0.9
        return np.asarray(np.minimum(np.maximum(wanted, detectable), 0.5 * self._sample.n_rows))

    def scores(self, at: ScoresAt, step: int) -> FloatArray:
        """Return the level C for step ``step``, (R,)."""
        clip, family, root = self._clip, self._family, self._root
        if isinstance(clip, tuple):
            return self._public(clip[1])
        if clip == "rule":
            zero = np.zeros((1, *family.classes, 1))
            variance = np.trace(family.second_derivative(zero).reshape(zero.size, zero.size))
            return np.asarray(1.5 * root * np.sqrt(variance) * self._scale**0.25)
        if step > 1:
            return self._step_level
        bound = family.residual_bound
        first = root * (bound * _BOUNDED_LEVELS if np.isfinite(bound) else _UNBOUNDED_LEVELS)
        candidates = first if step == 0 else self._step_level * _FINE_LEVELS[:, None]
        n_coordinates = self._sample.n_features * int(np.prod(family.classes))
        wanted = np.minimum(16 * np.sqrt(n_coordinates) / self.mu, 0.25 * self._sample.n_rows)
        in_all = counts_needed(len(first)) + counts_needed(len(_FINE_LEVELS))
        self._step_level = self._searched(
            candidates, wanted, at.norms(), "scores", "scores above a level", in_all
        )
        return self._step_level

    def typical_response(self) -> FloatArray:
        """Return the power of two below the upper quartile of the responses, at least 1, (R,)."""

        def responses(group: Group) -> FloatArray:
            return np.asarray(group.y[:, None] * group.weights)

        quarter = 0.25 * self._sample.n_rows
        norms = self._sample.grouped(responses)
        found = self._searched(_RESPONSE_LEVELS, quarter, norms, "start", "responses above a level")
        return np.maximum((found + 0.5) / 2, 1.0)

    def _searched(
        self,
        candidates: FloatArray,
        wanted: FloatArray,
        norms: Grouped[FloatArray],
        part: str,
        label: str,
        counts_in_all: int | None = None,
    ) -> FloatArray:
        releases = counts_in_all or counts_needed(len(candidates))
        multiplier = self._budget.gaussian_multiplier(part, releases)
        return search_level(
            self._transcript, candidates, wanted, norms, noise_multiplier=multiplier, label=label
        )
