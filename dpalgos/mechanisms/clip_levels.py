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
from dpalgos.models.whitened_scores import ScoresAt
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import ROWS_ABOVE, at_the_last_level, counts_above
from dpalgos.steps.moments import row_norms
from dpalgos.typing import BoolArray, FloatArray, IntArray


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
_WHITENED_RANGE = 0.5, 16.0  # times √d
_WHITENED_LEVELS = np.geomspace(*_WHITENED_RANGE, 16)
_GRADIENT_LEVELS = np.geomspace(0.15, 24, 16)  # times √d
_GLM_ROW_LEVELS = np.geomspace(0.75, 8, 16)  # times √(d + 1)
_BOUNDED_LEVELS = np.geomspace(0.2, 3.2, 16)  # times √d and the largest residual
_UNBOUNDED_LEVELS = 1e-3 * 2.0 ** (np.arange(64) / 2)  # times √d
_HIGHEST_RISE = 1.41  # times the level of the gradients before: by one candidate
_NEAR, N_SCORE_SEARCHES = (0.25, 2.0), 5  # times the last step's
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
    """Clip levels of one estimate, by private searches.

    A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
    budget, the fewer rows are clipped. Factors and exponents are empirical, found on the California housing
    data.
    """

    def __init__(self, sample: Sample, mu: float, transcript: Transcript) -> None:
        self._sample, self._transcript, self.mu = sample, transcript, mu
        self._scale = sample.n_rows * mu / _REFERENCE_SIZE
        self._root = float(np.sqrt(sample.n_features))
        self._step_level = np.full(sample.n_replicates, np.inf)

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
    mu : float
        μ(ε, δ) of the whole estimate: how few rows may be clipped depends on it.
    wanted : WantedRows
        How many rows should be clipped.
    noise_multiplier : float
        Of each noisy count: ``N_COUNTS`` for each search, one search for the rows, and
        ``wanted.n_searched_steps`` for gradients.
    transcript : Transcript
    public : pair of float, optional
        Levels of rows and of gradients, in the place of searches.
    """

    def __init__(
        self,
        sample: Sample,
        mu: float,
        wanted: WantedRows,
        noise_multiplier: float,
        transcript: Transcript,
        public: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(sample, mu, transcript)
        self._asked, self._noise_multiplier, self._public = wanted, noise_multiplier, public
        self.response_unit: FloatArray = np.ones(sample.n_replicates)
        self.clipped_share: FloatArray = np.zeros(sample.n_replicates)  # of the rows, about, in a step

    def rows(self, made: Callable[[Group], FloatArray], coordinates: FloatArray | None = None) -> FloatArray:
        """Return the level C_A for the rows that ``made`` returns of a group, in coordinates if any, (R,)."""
        if self._public is not None:
            return np.full(self._sample.n_replicates, self._public[0])
        levels = _ROW_LEVELS * np.sqrt(self._sample.n_features + 1)
        return self._searched(levels, self._asked.rows, self._norms(made, coordinates), ROWS_ABOVE)

    def steps(self, at: ScoresAt, step: int, whitens: BoolArray) -> FloatArray:
        """Return the level C for step ``step``, (R,): of gradients, or of rows where it ``whitens``.

        Residuals fall from step to step, and noise leads a search far up only, never down: so a level rises
        by one candidate at most.
        """
        if self._public is not None:
            return np.full(self._sample.n_replicates, self._public[1])
        if step >= self._asked.n_searched_steps:
            return self._step_level
        wanted = self._asked.gradients
        of_gradients = _GRADIENT_LEVELS[:, None] * self._root * self.response_unit
        candidates = np.where(whitens, _WHITENED_LEVELS[:, None] * self._root, of_gradients)
        found = self._searched(candidates, wanted, at.norms(whitens), "gradients above a level")
        risen = np.minimum(found * self._asked.widened, _HIGHEST_RISE * self._step_level)
        self._step_level = np.where(whitens, self._step_level, risen)
        self.clipped_share = self._wanted(wanted, 0.9) / self._sample.n_rows
        return np.where(whitens, found, self._step_level)

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
    first ``n_searches`` steps together), "start".
    """

    def __init__(
        self,
        sample: Sample,
        family: Family,
        budget: SplitBudget,
        transcript: Transcript,
        n_searches: int = N_SCORE_SEARCHES,
    ) -> None:
        super().__init__(sample, gaussian_mu(budget.epsilon, budget.delta), transcript)
        self._n_searches = n_searches
        self._family, self._budget = family, budget

    def rows(self, coordinates: FloatArray | None = None) -> FloatArray:
        """Return the level C_A for the rows [x, 1], in coordinates if there are any, (R,)."""
        root = np.sqrt(self._sample.n_features + 1)
        norms = self._norms(with_one, coordinates)
        return self._searched(root * _GLM_ROW_LEVELS, self._target_clipped_rows(), norms, "rows", ROWS_ABOVE)

    def _target_clipped_rows(self) -> FloatArray:
        """Return how many rows to clip: fewer the more budget, but as many as their noisy count can tell."""
        detectable = _DETECTABLE_COUNT * self._budget.gaussian_multiplier(
            "rows", counts_needed(len(_GLM_ROW_LEVELS))
        )
        wanted = 100 * self._root / self.mu * self._scale**-0.9
        return np.asarray(np.minimum(np.maximum(wanted, detectable), 0.5 * self._sample.n_rows))

    def scores(self, at: ScoresAt, step: int, whitens: BoolArray) -> FloatArray:
        """Return the level C for step ``step``, (R,): of scores, or of rows where it ``whitens``.

        A level that is known is searched again nearby.
        """
        if step >= self._n_searches:
            return self._step_level
        family, root = self._family, self._root
        bound = family.residual_bound
        first = root * (bound * _BOUNDED_LEVELS if np.isfinite(bound) else _UNBOUNDED_LEVELS)
        is_known, near = np.isfinite(self._step_level), np.geomspace(*_NEAR, len(first))
        known = np.where(is_known, self._step_level, 1.0)
        candidates = np.where(is_known, near[:, None] * known, first[:, None])
        of_rows = root * np.geomspace(*_WHITENED_RANGE, len(first))
        candidates = np.where(whitens, of_rows[:, None], candidates)
        n_coordinates = self._sample.n_features * int(np.prod(family.classes))
        wanted = np.minimum(16 * np.sqrt(n_coordinates) / self.mu, 0.25 * self._sample.n_rows)
        in_all = self._n_searches * counts_needed(len(first))
        norms = at.norms(whitens)
        found = self._searched(candidates, wanted, norms, "scores", "scores above a level", in_all)
        self._step_level = np.where(whitens, self._step_level, found)
        return found

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
