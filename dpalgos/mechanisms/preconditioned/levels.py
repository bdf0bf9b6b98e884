"""The norms to which rows and scores are clipped, each found by a search of counts.

A row beyond the level biases what is averaged by about C/n, noise moves it by about 2C√d/(nμ): the more
budget, the fewer rows are clipped. About k norms lie above a level: c √D/μ (nμ/489)^(−1/4) of D coordinates,
c = 60 for the first rows, which have unknown units, and 20 for white rows and scores.
"""

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.mechanisms.preconditioned.plan import FitPlan
from dpalgos.mechanisms.preconditioned.whitening import WholeRows
from dpalgos.models.families import Family
from dpalgos.models.white_rows import ScoresAt
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ROWS_ABOVE, SCORES_ABOVE
from dpalgos.steps.moments import row_norms
from dpalgos.typing import BoolArray, FloatArray

RESPONSES_ABOVE = "responses above a level"
N_LEVELS, N_UNKNOWN = 16, 64  # candidates of a search; of scores whose unit is not known
_ROWS = np.concatenate([np.geomspace(0.5, 8, N_LEVELS), 8 * np.sqrt(2.0) ** np.arange(1, 17)])  # times √d
_WHITE_ROWS = {n: np.geomspace(0.5, 4, n) for n in (N_LEVELS, N_UNKNOWN)}  # times √d
_SCORES = np.geomspace(0.15, 24, N_LEVELS)  # times √d and the unit of residuals
_UNKNOWN = 1e-3 * 2.0 ** (np.arange(N_UNKNOWN) / 2)  # times √d, where that is not known
_NEAR = np.geomspace(0.5, 1.41, N_LEVELS)  # times the level of the step before
_LESS_NEAR = np.geomspace(0.25, 2, N_UNKNOWN)  # the same, after a search of all units
_RESPONSES = 2.0 ** np.arange(32) - 0.5
_CLIPPED_ROWS, _CLIPPED_SCORES = 60.0, 20.0
_MOST_ROWS, _MOST_OF_UNKNOWN = 0.9, 0.25  # of the rows; of scores whose unit is not known
_DETECTABLE = 4.0  # times the noise of a count: so many rows are told from none, which would lead far up
_REFERENCE_SIZE = 489.0


class Levels:
    """The clip levels of one estimate, released as its steps need them.

    How few rows may be clipped depends on μ(ε, δ) of the whole budget. ``unit`` (R,) is that of residuals,
    ``least`` (R,) a public or released floor under levels of scores, times √d.
    """

    def __init__(
        self,
        transcript: Transcript,
        sample: Sample,
        family: Family,
        plan: FitPlan,
        budget: SplitBudget,
    ) -> None:
        self._transcript, self._sample, self._family, self._plan = transcript, sample, family, plan
        self._budget, self._mu = budget, gaussian_mu(budget.epsilon, budget.delta)
        self._score_level = np.full(sample.n_replicates, np.inf)
        bounded = np.isfinite(family.residual_bound)
        self.clipped_share = np.zeros(sample.n_replicates)  # of the rows, about, in a step
        self.least = np.zeros(sample.n_replicates)
        self.unit = np.full(sample.n_replicates, family.residual_bound if bounded else 1.0)

    def rows(self, whole: WholeRows) -> FloatArray:
        """Return the level for the rows z in their coordinates, (R,)."""
        if self._plan.public_levels is not None:
            return np.full(self._sample.n_replicates, self._plan.public_levels[0])

        def norms(group: Group, rows: FloatArray) -> FloatArray:
            within = None if whole.coordinates is None else whole.coordinates[group.replicates]
            return np.asarray(row_norms(rows, within) * group.weights)

        multiplier = self._budget.gaussian_multiplier("rows", counts_needed(len(_ROWS)))
        return search_level(
            self._transcript,
            np.sqrt(self._sample.n_features + 1) * _ROWS,
            self._wanted(_CLIPPED_ROWS, _MOST_ROWS, _DETECTABLE * multiplier),
            whole.rows.then(norms),
            noise_multiplier=multiplier,
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
        first, near, most, least = _SCORES[:, None] * self.unit, _NEAR, self._family.most_clipped, 0.0
        if not self._plan.knows_unit:
            first = np.broadcast_to(_UNKNOWN[:, None], (len(_UNKNOWN), len(self.unit)))
            near, most, least = _LESS_NEAR, _MOST_OF_UNKNOWN, _DETECTABLE
        multiplier = self._budget.gaussian_multiplier(
            "scores", self._plan.n_searches * counts_needed(len(first))
        )
        known = near[:, None] * np.where(is_known, self._score_level, 1.0)
        candidates = np.where(is_known, known, root * first)
        white = root * _WHITE_ROWS[len(first)][:, None]
        base = _CLIPPED_SCORES * float(np.sqrt(np.prod(self._family.classes)))
        wanted = self._wanted(base, most, least * multiplier)
        found = search_level(
            self._transcript,
            np.where(whitens, white, candidates),
            wanted,
            at.norms(whitens),
            noise_multiplier=multiplier,
            label=SCORES_ABOVE,
        )
        self.clipped_share = wanted / self._sample.n_rows
        found = np.where(whitens, found, np.maximum(found, root * self.least))
        self._score_level = np.where(whitens, self._score_level, found)
        return found

    def typical_response(self) -> FloatArray:
        """Return the power of two below the upper quartile of the responses, at least 1, (R,)."""

        def responses(group: Group) -> FloatArray:
            return np.asarray(group.y[:, None] * group.weights)

        found = search_level(
            self._transcript,
            _RESPONSES,
            0.25 * self._sample.n_rows,
            self._sample.grouped(responses),
            noise_multiplier=self._budget.gaussian_multiplier("start", counts_needed(len(_RESPONSES))),
            label=RESPONSES_ABOVE,
        )
        return np.maximum((found + 0.5) / 2, 1.0)

    def _wanted(self, base: float, most: float, least: float = 0.0) -> FloatArray:
        """Return about how many rows are to be clipped: ``least`` or more, at most a share ``most``."""
        scale = (self._sample.n_rows * self._mu / _REFERENCE_SIZE) ** -0.25
        wanted = base * np.sqrt(self._sample.n_features) / self._mu * scale
        return np.asarray(np.minimum(np.maximum(wanted, least), most * self._sample.n_rows))
