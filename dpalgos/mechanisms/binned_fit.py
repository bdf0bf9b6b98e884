"""How well a released model fits: counts and sums by bins of its linear predictor, all released with noise.

    rows by predictor   counts of rows in bins of η = x'β̂, β̂ the answer; twice, the second time finer
    binned fit          in each of ten bins Σ (1, f, t, t², c), f and t in [−1, 1], c 0 or 1

f is η, scaled; t is the residual y − ψ'(η) over Λ, or of two labels 2y − 1; c says whether the row's score is
clipped in the last step (of two labels, with the less likely one). The bins split the released counts into
tenths. Λ is the clip level of scores over √d. All edges and scales follow from released numbers.

Both are Gaussian (:func:`bins_sensitivity`, :func:`fit_sensitivity`), and take the share ``diagnostics`` of
μ². What follows from them is calibration by predicted decile, the spread of residuals, and the share of rows
clipped.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Witnesses, pair
from dpalgos.errors import InputError
from dpalgos.models.families import Family
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.params import PrivateParams, checked
from dpalgos.release.checks import check_positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.typing import FloatArray

BY_PREDICTOR, BINNED_FIT, NOTED = "rows by predictor", "binned fit", "binned_fit"
BINNED_EXAMPLE = {"diagnostics": 0.1}

_N_BINS, _N_FINE, _N_SEARCHES = 10, 32, 2
_SEARCH_PART = 0.4  # of the share
_LARGEST_SHARE = 0.9  # of μ² that diagnostics and intervals may take from the answer
_LEAST = 3.0  # standard deviations of its noise that a bin's count must exceed


def _share(name: str, value: object) -> float:
    if not check_positive(name, value) <= 0.5:
        raise InputError(f"{name} must be at most 0.5, got {value!r}; pass e.g. {name}=0.05")
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class BinnedFitParams(PrivateParams):
    """The keyword of estimators that can release how well they fit."""

    diagnostics: float | None = checked(
        "share of μ² for binned counts of the fit, e.g. 0.05; None: none", _share, default=None, optional=True
    )

    def binned_shares(self, family: Family, taken: float) -> dict[str, float]:
        """Return the shares of μ² that the counts take, next to what intervals have taken."""
        if self.diagnostics is None:
            return {}
        if family.needs_classes:
            raise InputError(f"diagnostics must be None for family={family.name!r}, got {self.diagnostics!r}")
        if self.diagnostics + taken > _LARGEST_SHARE:
            raise InputError(
                f"diagnostics must be at most {_LARGEST_SHARE - taken:.2f} next to these intervals, which "
                f"take {taken:.2f} of the budget, got {self.diagnostics!r}; pass less, or interval=None"
            )
        parts = {BY_PREDICTOR: _SEARCH_PART, BINNED_FIT: 1 - _SEARCH_PART}
        return {part: share * self.diagnostics for part, share in parts.items()}

    def binned_witnesses(self, d: int) -> Witnesses:
        """Return, for each release, neighbors that differ by its sensitivity: at the ends of η, clipped."""
        row, far = 1e6 * np.eye(d)[0], 1e15
        return {BY_PREDICTOR: pair(row, -row), BINNED_FIT: pair(row, -row, far, far)}


def bins_sensitivity() -> float:
    """Return √2: a row that is replaced leaves one bin for another, and their counts change by one each."""
    return float(np.sqrt(2))


def fit_sensitivity() -> float:
    """Return √10: a row adds (1, f, t, t², c) to its bin, of squared norm at most 5.

    A row that is replaced by one in another bin changes both by at most that. In the same bin f and t change
    by at most 2, t² and c by at most 1: 4 + 4 + 1 + 1. Attained by the first, |f| = |t| = c = 1.
    """
    return float(np.sqrt(10))


def release_binned_fit(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhitenedScores,
    theta: FloatArray,
    level: FloatArray,
) -> None:
    """Release how well white coefficients θ (d, R) fit, and note it by bin; scores are clipped to ``level``.

    The note ``binned_fit`` is (6, 10, R), as in
    :data:`dpalgos.goodness.BINNED`: NaN in bins with next to no rows.
    """
    coef, middle = scores.coef(theta), np.broadcast_to(scores.origin, theta.shape)[-1]
    reach, (least, most) = 3 * np.linalg.norm(theta, axis=0), scores.sample.offset_bounds or (0.0, 0.0)
    ends = middle + least - reach, middle + most + reach
    edges = _searched_edges(transcript, budget, scores, coef, *ends)
    low, high = edges[0], edges[-1]
    middle, half = (low + high) / 2, np.maximum(high - low, np.finfo(float).tiny)
    is_bounded = bool(np.isfinite(scores.family.residual_bound))
    scale = np.ones_like(level) if is_bounded else level / np.sqrt(len(coef))

    def cells(group: Group, norms: FloatArray, eta: FloatArray) -> list[FloatArray]:
        own, y = group.replicates, scores.family.encode(group.y)
        mean = scores.family.mean(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            f = np.clip((eta - middle[own]) / half[own], -1, 1)
            t = np.broadcast_to(2 * y - 1, eta.shape) if is_bounded else (y - mean) / scale[own]
            t = np.clip(np.nan_to_num(t), -1, 1)
            size = np.maximum(mean, 1 - mean) if is_bounded else np.abs(y - mean)
            clipped = size * norms > level[own]
        return [np.ones_like(f), np.nan_to_num(f), t, t**2, clipped.astype(float)]

    value = _by_bin(scores, coef, edges, 5, cells)
    multiplier = budget.gaussian_multiplier(BINNED_FIT)
    released = transcript.gaussian(
        value, l2_sensitivity=fit_sensitivity(), noise_multiplier=multiplier, label=BINNED_FIT
    )
    std = transcript.noise_std(fit_sensitivity(), multiplier, len(value))
    rows, f, t, squares, clipped = released.reshape(5, _N_BINS, -1)
    known = np.where(rows > _LEAST * std, rows, np.nan)
    predicted = scores.family.mean(middle + half * f / known)
    mean, square = t / known, np.clip(squares / known, 0, 1)
    variance = np.maximum(square - mean**2, 0)
    # Of two labels t is 2y − 1.
    unit = scale / 2 if is_bounded else scale
    error = unit * np.sqrt(variance / known + (std / known) ** 2 * (1 + mean**2))
    spread = unit * np.sqrt(np.where(variance > _LEAST * std / known, variance, np.nan))
    observed = (1 + mean) / 2 if is_bounded else predicted + scale * mean
    share = np.clip(clipped / known, 0, 1)
    transcript.note(NOTED, np.stack([rows, predicted, observed, error, spread, share]))


def _searched_edges(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhitenedScores,
    coef: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Release counts of rows by η between two ends (R,), then within where they lie; return 9 edges."""
    multiplier = budget.gaussian_multiplier(BY_PREDICTOR, _N_SEARCHES)
    for _ in range(_N_SEARCHES):
        fine = np.linspace(low, high, _N_FINE - 1)
        counts = transcript.gaussian(
            _by_bin(scores, coef, fine, 1, lambda group, norms, eta: [np.ones_like(eta)]),
            l2_sensitivity=bins_sensitivity(),
            noise_multiplier=multiplier,
            label=BY_PREDICTOR,
        )
        below = np.maximum.accumulate(np.cumsum(counts[:-1], axis=0), axis=0) / scores.sample.n_rows
        width = fine[1] - fine[0]
        low, high = _at_shares(np.array([0.01]), below, fine), _at_shares(np.array([0.99]), below, fine)
        low, high = low[0] - width, high[0] + width
    return _at_shares(np.arange(1, _N_BINS) / _N_BINS, below, fine)


def _at_shares(shares: FloatArray, below: FloatArray, edges: FloatArray) -> FloatArray:
    """Return where shares of the rows lie below, (k, R), between edges (m, R) below which (m, R) lie."""
    columns = zip(below.T, edges.T, strict=True)
    return np.stack([np.interp(shares, own, its) for own, its in columns], axis=1)


_Cells = Callable[[Group, FloatArray, FloatArray], list[FloatArray]]


def _by_bin(
    scores: WhitenedScores, coef: FloatArray, edges: FloatArray, n_cells: int, cells: _Cells
) -> FloatArray:
    """Return the sums of cells (n, R) over rows by bin of η, one after the other, (k (m + 1), R)."""
    n_bins = len(edges) + 1

    def made(group: Group, norms: FloatArray) -> FloatArray:
        own = group.replicates
        eta = group.shifted(group.X @ coef[:, own])
        weights = np.broadcast_to(group.weights, eta.shape)
        found = cells(group, norms, eta)
        bins = [np.searchsorted(its, e, side="right") for its, e in zip(edges.T[own], eta.T, strict=True)]
        return np.stack(
            [
                np.concatenate([np.bincount(b, w * each[:, r], n_bins) for each in found])
                for r, (b, w) in enumerate(zip(bins, weights.T, strict=True))
            ],
            axis=1,
        )

    shape = n_cells * n_bins, scores.sample.n_replicates
    return scores.norms().then(made).total(shape, lambda group, sums: sums)
