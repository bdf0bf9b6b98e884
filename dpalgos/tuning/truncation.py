"""The truncation of values: at public bounds, between private quantiles, or none.

- ``"bound"`` (default): at the public bounds ± R, from whatever rule in n and d.
- ``"private_quantiles"``: between the 2.5% and 97.5% quantiles, released within the bounds and charged.
- ``"none"``: no truncation, with the noise for ± R; not private, for any R.

**Quantiles.** The exponential mechanism draws each quantile on a public range [l, u]: one event of bounded
range. Truncation at released quantiles is post-processing. One share of ρ
covers all quantiles. Quantiles in reversed order are swapped. The interval is widened to a public minimum.

**None.** A single row can move the sum without limit, and no noise covers it. The run records an unprotected
event, which certifies ε = ∞. It exists for ``calibration="paper"`` only.

**The draw of a quantile.** The density of a draw is ∝ exp(−(ε/2) |#{x_i < z} − qn|) on [l, u], with x
truncated to this range. Replacing one row moves the count at any z by at most 1: a row that jumps over z is a
witness. The score rises at some z and falls at others if a row jumps over the quantile. Therefore the
log-density ratio spans at most 2 · ε/2 = ε. Each quantile is one bounded-range event and costs ε²/8 of zCDP.

The density is constant between neighboring data points. Therefore a draw inverts a cumulative sum. An
interval of length 0 (ties) has no mass. The error of the rank is about (2/ε) max(1, log(εnf(u − l)/4)), where
f is the density of the data there.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, section 5.1 (which takes the quantiles by Lei 2011, Algorithm 1', and
does not count them).
Smith (2011), Privacy-preserving statistical estimation with optimal convergence rates, Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from dpalgos.accounting.other_events import Selection
from dpalgos.catalog import Release
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import count, lemma
from dpalgos.params import choice
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_PROBES = np.arange(1, 8) / 8


def exponential_quantiles(
    spend: Spend,
    label: str,
    values: FloatArray,
    *,
    levels: Sequence[float],
    lower: float,
    upper: float,
    row_mask: BoolArray | None = None,
    columns: IntArray | None = None,
) -> FloatArray:
    """Release quantiles of columns on a public range, (m, Q, R).

    Parameters
    ----------
    label : str
        The label of a density for each quantile of each column: an event of bounded range ε.
    values : (n, m) array
        Private values, truncated to the range.
    levels : sequence of float
        Levels of the quantiles, in (0, 1).
    row_mask : (n, R) bool array
        The rows that each replicate uses.
    columns : (k, R) int array, optional
        Released indices of the columns that each replicate needs; then m is k.

    Quantiles are drawn independently. Therefore two of them may be in reversed order.
    """
    n_replicates, slot = spend.noise.n_replicates, spend.slot(label, Selection)
    weights = np.ones((len(values), 1)) if row_mask is None else row_mask.astype(float)
    if columns is None:
        columns = np.asarray(np.repeat(np.arange(values.shape[1])[:, None], n_replicates, axis=1))
    m = len(columns)
    if (slot.count, slot.support) != (m * len(levels), (lower, upper)):
        raise RuntimeError(f"{label!r} is planned as {slot}, got {m * len(levels)} in {(lower, upper)}")
    ranked: list[tuple[_Ranks, IntArray, IntArray]] = []  # a column, with its positions and replicates
    for j in np.unique(columns):
        place, replicate = np.nonzero(columns == j)
        used = weights if weights.shape[1] == 1 else weights[:, replicate]
        ranked.append((_Ranks(values[:, j], used, lower, upper), place, replicate))

    def draw() -> FloatArray:
        uniforms = scipy.special.ndtr(spend.noise.normal(m, len(levels)))
        drawn = np.empty_like(uniforms)
        for ranks, places, replicates in ranked:
            for q, level in enumerate(levels):
                drawn[places, q, replicates] = ranks.draw(
                    level, slot.epsilon, uniforms[places, q, replicates]
                )
        return drawn

    # The record keeps the scores at a few public points, in place of the score function.
    probes = np.empty((m, len(levels), len(_PROBES), n_replicates))
    for ranks, places, replicates in ranked:
        for q, level in enumerate(levels):
            probes[places, q, :, replicates] = ranks.scores_at_probes(level).T
    flat = probes.reshape(-1, n_replicates)
    return spend.release(label, flat, draw, sensitivity=count())


class _Ranks:
    """One sorted column: the number of rows below is constant between neighboring points."""

    def __init__(self, column: FloatArray, weights: FloatArray, lower: float, upper: float) -> None:
        truncated = np.clip(column, lower, upper)
        if weights.shape[1] == 1 and weights.all():  # ten times faster than argsort
            ordered = np.sort(truncated)
            self._below = np.arange(len(ordered) + 1.0)[:, None]
        else:
            order = np.argsort(truncated, kind="stable")
            ordered = truncated[order]
            # A row that a replicate does not use splits an interval into two of equal score.
            below = np.cumsum(weights[order], axis=0)
            self._below = np.concatenate([np.zeros((1, below.shape[1])), below])
        self._edges = np.concatenate([[lower], ordered, [upper]])
        self._lengths = np.diff(self._edges)

    def draw(self, level: float, epsilon: float, uniforms: FloatArray) -> FloatArray:
        """Return the inverse of the distribution function at ``uniforms`` (R,)."""
        score = self._scores(level)
        score -= score[self._lengths > 0].max(axis=0)
        mass = self._lengths[:, None] * np.exp(epsilon / 2 * np.minimum(score, 0.0))
        cumulative = np.cumsum(mass, axis=0)
        target = uniforms * cumulative[-1]
        interval = (cumulative < target).sum(axis=0)
        replicate = np.arange(len(uniforms)) if mass.shape[1] > 1 else 0
        within = mass[interval, replicate]
        beyond = (cumulative[interval, replicate] - target) / np.maximum(within, np.finfo(float).tiny)
        drawn = self._edges[interval + 1] - self._lengths[interval] * np.minimum(beyond, 1.0)
        return np.asarray(np.clip(drawn, self._edges[0], self._edges[-1]))

    def scores_at_probes(self, level: float) -> FloatArray:
        """Return the score at public points of the range, (P, R) or (P, 1)."""
        points = self._edges[0] + _PROBES * (self._edges[-1] - self._edges[0])
        return np.asarray(self._scores(level)[np.searchsorted(self._edges[1:-1], points)])

    def _scores(self, level: float) -> FloatArray:
        return np.asarray(-np.abs(self._below - level * self._below[-1]))


LEVELS = (0.025, 0.975)
LABEL = "quantiles"
RESPONSE_SHARE, COLUMNS_SHARE = 0.05, 0.1  # of ρ, for the quantiles of a response, of all columns together

_CHOICES = ("bound", "private_quantiles", "none")
_NARROWEST = 1e-3  # of the public range


def truncation_choice() -> Any:
    return choice(
        "'bound': at the public bound; 'private_quantiles': between released 2.5% and 97.5% quantiles; "
        "'none': no truncation, which is not private (calibration='paper' only)",
        _CHOICES,
        default="bound",
    )


def check_truncation(truncation: str, calibration: str, *, prints_quantiles: bool = True) -> None:
    """Refuse to leave out truncation, except for an algorithm as printed, which may have no quantiles."""
    if not prints_quantiles and truncation == "private_quantiles" and calibration == "paper":
        raise InputError(
            "truncation must be 'bound' or 'none' for calibration='paper', got 'private_quantiles'; use "
            "calibration='tight'"
        )
    if truncation == "none" and calibration != "paper":
        raise InputError(
            "truncation must be 'bound' or 'private_quantiles' for calibration='tight', got 'none', which "
            "no noise covers; calibration='paper' runs it, and certifies nothing"
        )


def check_response_truncation(truncation: str, calibration: str, residual_bound: float | None) -> None:
    """Refuse as above; also clipped residuals in a printed algorithm, and both options together."""
    if residual_bound is not None and calibration == "paper":
        raise InputError(
            "residual_bound must be left out for calibration='paper', which clips no residuals, "
            f"got {shown(residual_bound)}; use calibration='tight'"
        )
    check_truncation(truncation, calibration)
    if truncation != "bound" and residual_bound is not None:
        raise InputError(
            f"truncation must be 'bound' where residuals are clipped, got {shown(truncation)}; leave out one "
            "of truncation and residual_bound"
        )


def private_interval(
    spend: Spend, sample: Sample, bound: float, *, columns: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Release the quantiles (m, R) between which columns are truncated, first truncated to ± ``bound``.

    ``columns`` (m, R) are released indices of the columns that each replicate needs, by default all.
    """
    return truncation_interval(_quantiles(spend, sample, sample.X, bound, columns), bound)


def _quantiles(
    spend: Spend,
    sample: Sample,
    values: FloatArray,
    bound: float,
    columns: IntArray | None = None,
) -> FloatArray:
    return exponential_quantiles(
        spend,
        LABEL,
        values,
        levels=LEVELS,
        lower=-bound,
        upper=bound,
        row_mask=sample.row_mask,
        columns=columns,
    )


def truncation_interval(released: FloatArray, bound: float) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper bounds (m, R) of an interval from released quantiles (m, 2, R).

    Reversed quantiles are swapped. The interval is widened about its midpoint to a public minimum.
    """
    first, second = released[:, 0], released[:, 1]
    middle, half = (first + second) / 2, np.maximum(np.abs(second - first), 2 * _NARROWEST * bound) / 2
    return np.maximum(middle - half, -bound), np.minimum(middle + half, bound)


def symmetric_bound(released: FloatArray, bound: float) -> FloatArray:
    """Return the symmetric truncation bound of a response, (R,), from released quantiles (1, 2, R)."""
    return np.asarray(np.abs(truncation_interval(released, bound)).max(axis=0)[0])


def released_levels(
    rows: Rows, spend: Spend, bound: float, truncation: str
) -> tuple[float | FloatArray, float | FloatArray]:
    """Return the truncation bound of responses, and the bound that the noise is for, both symmetric.

    ``bound`` is the public one. Both values are the same, () or (R,), except for ``"none"``: there the first
    one is infinite.
    """
    if truncation == "none":
        spend.charge(RESPONSE_RELEASES[1].label)
        return np.inf, bound
    if truncation == "bound":
        return bound, bound
    released = _quantiles(spend, rows.sample, rows.sample.response()[:, None], bound)
    level = rows.by_replicate(symmetric_bound(released, bound))
    return level, level


def truncated_means(
    rows: Rows, lower: FloatArray, upper: FloatArray, columns: IntArray | None = None
) -> FloatArray:
    """Return the means over each replicate's rows of columns truncated to intervals, (m, R).

    The intervals (m, R) are those of the columns (m, R) that each replicate needs, or of all columns.
    """

    def part(block: Block) -> FloatArray:
        totals = np.empty_like(lower)
        for r, own in enumerate(block.replicates(lower.shape[1])):
            values = own.X if columns is None else own.X[:, columns[:, r]]
            totals[:, r] = own.total(np.clip(values, lower[:, r], upper[:, r]))
        return totals

    return rows.mean(part)


@lemma("∞")
def unbounded_sensitivity() -> FloatArray:
    """Return ∞, for a release without clipping: no noise makes it private."""
    return np.asarray(np.inf)


_QUANTILES = Release(LABEL, count)
_NONE = Release("untruncated entries", unbounded_sensitivity)
COLUMN_RELEASES = _QUANTILES, _NONE
RESPONSE_RELEASES = _QUANTILES, replace(_NONE, label="untruncated responses")
