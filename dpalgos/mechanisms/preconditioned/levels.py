"""The norms to which rows and scores are clipped, each found by a search of counts.

A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
budget, the fewer rows are clipped. About k norms lie above a level: c √D/μ (nμ/489)^(−1/4) of D coordinates,
c = 60 for the first rows, which have unknown units, and 20 for white rows and scores.
"""

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.mechanisms.preconditioned.plan import N_LEVELS, FitPlan
from dpalgos.mechanisms.preconditioned.whitening import WholeRows
from dpalgos.models.families import Family
from dpalgos.models.white_rows import ScoresAt
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ROWS_ABOVE
from dpalgos.steps.moments import row_norms
from dpalgos.typing import BoolArray, FloatArray

SCORES_ABOVE, RESPONSES_ABOVE = "scores above a level", "responses above a level"
_ROWS, _WHITE_ROWS = np.geomspace(0.5, 8, N_LEVELS), np.geomspace(0.5, 4, N_LEVELS)  # times √d
_SCORES = np.geomspace(0.15, 24, N_LEVELS)  # times √d and the unit of residuals
_NEAR = np.geomspace(0.5, 1.41, N_LEVELS)  # times the level of the step before
_RESPONSES = 2.0 ** np.arange(32) - 0.5
_CLIPPED_ROWS, _CLIPPED_SCORES, _MOST_ROWS = 60.0, 20.0, 0.9
_REFERENCE_SIZE = 489.0


class Levels:
    """The clip levels of one estimate, released as its steps need them.

    Parameters
    ----------
    mu : float
        μ(ε, δ) of the whole estimate: how few rows may be clipped depends on it.
    noise_multiplier : float
        Of each noisy count.
    """

    def __init__(
        self,
        transcript: Transcript,
        sample: Sample,
        family: Family,
        plan: FitPlan,
        mu: float,
        noise_multiplier: float,
    ) -> None:
        self._transcript, self._sample, self._family, self._plan = transcript, sample, family, plan
        self._mu, self._noise_multiplier = mu, noise_multiplier
        self._score_level = np.full(sample.n_replicates, np.inf)
        bounded = np.isfinite(family.residual_bound)
        self.clipped_share = np.zeros(sample.n_replicates)  # of the rows, about, in a step
        self.least = np.zeros(sample.n_replicates)  # times √d, of scores
        self.unit = np.full(sample.n_replicates, family.residual_bound if bounded else 1.0)  # of residuals

    def rows(self, whole: WholeRows) -> FloatArray:
        """Return the level for the rows z in their coordinates, (R,)."""
        if self._plan.public_levels is not None:
            return np.full(self._sample.n_replicates, self._plan.public_levels[0])

        def norms(group: Group, rows: FloatArray) -> FloatArray:
            within = None if whole.coordinates is None else whole.coordinates[group.replicates]
            return np.asarray(row_norms(rows, within) * group.weights)

        return search_level(
            self._transcript,
            np.sqrt(self._sample.n_features + 1) * _ROWS,
            self._wanted(_CLIPPED_ROWS, _MOST_ROWS),
            whole.rows.then(norms),
            noise_multiplier=self._noise_multiplier,
            label=ROWS_ABOVE,
        )

    def step(self, at: ScoresAt, step: int, whitens: BoolArray) -> FloatArray:
        """Return the level for a step, (R,): of its scores, or of white rows where it ``whitens``.

        A level of scores that is known is searched again nearby.
        """
        if self._plan.public_levels is not None:
            return np.full(self._sample.n_replicates, self._plan.public_levels[1])
        if step >= self._plan.n_searches:
            return self._score_level
        root = np.sqrt(self._sample.n_features)
        is_known = np.isfinite(self._score_level)
        near = _NEAR[:, None] * np.where(is_known, self._score_level, 1.0)
        candidates = np.where(is_known, near, root * _SCORES[:, None] * self.unit)
        n_classes = int(np.prod(self._family.classes))
        wanted = self._wanted(_CLIPPED_SCORES * np.sqrt(n_classes), self._family.most_clipped)
        found = search_level(
            self._transcript,
            np.where(whitens, root * _WHITE_ROWS[:, None], candidates),
            wanted,
            at.norms(whitens),
            noise_multiplier=self._noise_multiplier,
            label=SCORES_ABOVE,
        )
        self.clipped_share = wanted / self._sample.n_rows
        found = np.where(whitens, found, np.maximum(found, root * self.least))
        self._score_level = np.where(whitens, self._score_level, found)
        return found

    def typical_response(self, budget: SplitBudget) -> FloatArray:
        """Return the power of two below the upper quartile of the responses, at least 1, (R,)."""

        def responses(group: Group) -> FloatArray:
            return np.asarray(group.y[:, None] * group.weights)

        found = search_level(
            self._transcript,
            _RESPONSES,
            0.25 * self._sample.n_rows,
            self._sample.grouped(responses),
            noise_multiplier=budget.gaussian_multiplier("start", counts_needed(len(_RESPONSES))),
            label=RESPONSES_ABOVE,
        )
        return np.maximum((found + 0.5) / 2, 1.0)

    def _wanted(self, base: float, most: float) -> FloatArray:
        """Return about how many rows are to be clipped, at most a share ``most`` of them."""
        scale = (self._sample.n_rows * self._mu / _REFERENCE_SIZE) ** -0.25
        wanted = base * np.sqrt(self._sample.n_features) / self._mu * scale
        return np.asarray(np.minimum(wanted, most * self._sample.n_rows))
