"""The fit of a released model to rows: calibration and residuals by tenths of its predictions (ours).

    rows by predictor   counts of rows in bins of η = x'β̂; twice, the second time finer
    binned fit          in each of ten bins Σ (1, f, t, t²), f and t in [−1, 1]

f is the prediction ψ'(η), scaled by its values at the outermost bin edges. t is the residual y − ψ'(η) over
Λ, or 2y − 1 with two labels. The bins split the released counts into tenths. From the sums follow, by bin,
the mean response with its error, the mean prediction, and the spread of residuals.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``coef`` β̂, from another release or
from elsewhere; ``residual_bound`` Λ, of responses that are not two labels. The estimate is β̂, unchanged.
``diagnostics["binned_fit"]`` has the released fit, and :meth:`dpalgos.Result.binned_fit` shows it.

All noise is Gaussian. The first bins cover η if columns are of order one: that affects accuracy only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError, shown
from dpalgos.intervals.offsets import OffsetParams
from dpalgos.mechanisms.sensitivity import histogram
from dpalgos.models.families import Family, check_labels, get_family
from dpalgos.params import PrivateParams, checked, choice, positive
from dpalgos.release.checks import check_for_columns, for_columns
from dpalgos.release.declared import lemma
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

NOTED = "binned_fit"
_N_BINS, _N_FINE, _N_SEARCHES = 10, 32, 2
_LARGEST = 2.0  # absolute value of a column's entries: bounds lie two units from their middle
_LEAST = 3.0  # standard deviations of its noise that a bin's count must exceed


@dataclass(frozen=True, kw_only=True)
class BinnedFitParams(PrivateParams, OffsetParams):
    """Keywords of :func:`binned_fit`."""

    coef: tuple[float, ...] = checked(
        "β̂: the public coefficients, e.g. released ones; a number or one per column", check_for_columns
    )
    family: str = choice(
        "distribution of the responses given their mean",
        ("gaussian", "logistic", "poisson"),
        default="gaussian",
    )
    residual_bound: float | None = positive(
        "Λ: residuals are clipped to ±Λ; None for family='logistic'", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.residual_bound is None) != (self.family == "logistic"):
            instead = (
                "left out" if self.family == "logistic" else "a public bound, e.g. the response's range,"
            )
            raise InputError(
                f"residual_bound must be {instead} for family={self.family!r}, "
                f"got {shown(self.residual_bound)}"
            )

    def family_object(self) -> Family:
        """Return the family."""
        return get_family(self.family)


@lemma("√8")
def fit_sensitivity() -> FloatArray:
    """Return √8: a row adds (1, f, t, t²) to its bin, of squared norm at most 4.

    A row that is replaced by one in another bin changes both by at most that. In the same bin f changes by at
    most 2, and (t, t²) by at most 2: δ = t − t' moves them by δ²(1 + (t + t')²), at most 4.
    """
    return np.asarray(np.sqrt(np.float64(8)))


def check_rows(sample: Sample, params: BinnedFitParams) -> None:
    """Refuse coefficients of other columns, and labels outside the family."""
    for_columns("coef", params.coef, sample.n_features)
    check_labels(sample, params)


ROWS_BY_PREDICTOR = Release("rows by predictor", histogram)
SUMS_BY_BIN = Release("binned fit", fit_sensitivity)
PLAN = {ROWS_BY_PREDICTOR: Planned(0.4, _N_SEARCHES), SUMS_BY_BIN: Planned(0.6)}


@register(
    title="Fit by tenths of the predictions",
    order=84,
    task="calibration",
    reference="ours",
    summary="Calibration and residuals of public coefficients, by tenths of what they predict.",
    calibrations=("tight",),
    example={"coef": 0.5, "residual_bound": 2.0},
    public="coefficients from another release",
    no_interval="its numbers have standard errors",
    releases=tuple(PLAN),
    check_data=check_rows,
    forms={
        "events": Form(keywords={"family": "logistic", "residual_bound": None}),
        "counts": Form(keywords={"family": "poisson", "offset_bounds": (-1.0, 0.5)}),
    },
)
def binned_fit(sample: Sample, params: BinnedFitParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients as they came, (d, R), and note their fit by bin, (5, 10, R).

    The rows of ``diagnostics["binned_fit"]`` are :data:`dpalgos.goodness.BINNED`, NaN in bins with next to no
    rows.
    """
    sample.check_response()
    coef = for_columns("coef", params.coef, sample.n_features)
    sample, family = params.covariates(sample), params.family_object()
    bins = Bins(sample, coef[coef.size - sample.n_features :, 0])
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, PLAN)
    edges = bin_edges(spend, bins)
    width = (edges[-1] - edges[0]) / 2
    low, high = family.mean(edges[0] - width), family.mean(edges[-1] + width)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, np.finfo(float).tiny)
    of_labels, scale = params.residual_bound is None, params.residual_bound or 1.0

    def cells(group: Group, eta: FloatArray) -> list[FloatArray]:
        y = family.encode(group.y)[:, 0]
        mean = family.mean(eta)
        f = (mean - middle[group.replicates][:, None]) / half[group.replicates][:, None]
        t = 2 * y - 1 if of_labels else (y - mean) / scale
        t = np.broadcast_to(np.clip(np.nan_to_num(t), -1, 1), f.shape)
        return [np.ones_like(f), np.clip(np.nan_to_num(f), -1, 1), t, t**2]

    released, std = spend(SUMS_BY_BIN, fit_sensitivity.of(bins.sums(edges, 4, cells)))
    spend.check_complete()
    rows, f, t, squares = released.reshape(4, _N_BINS, -1)
    known = np.where(rows > _LEAST * std, rows, np.nan)
    predicted = middle + half * f / known
    mean, square = t / known, np.clip(squares / known, 0, 1)
    variance = np.maximum(square - mean**2, 0)
    unit = 0.5 if of_labels else scale  # of two labels t is 2y − 1
    error = unit * np.sqrt(variance / known + (std / known) ** 2 * (1 + mean**2))
    spread = unit * np.sqrt(np.where(variance > _LEAST * std / known, variance, np.nan))
    observed = (1 + mean) / 2 if of_labels else predicted + scale * mean
    transcript.note(NOTED, np.stack([rows, predicted, observed, error, spread]))
    return np.repeat(coef, sample.n_replicates, axis=1)


class Bins:
    """The rows of a sample by their predictor x'β̂, for public coefficients (d,)."""

    def __init__(self, sample: Sample, coef: FloatArray) -> None:
        self.sample = sample
        reach, (least, most) = _LARGEST * np.abs(coef).sum(), sample.offset_bounds or (0.0, 0.0)
        self.bounds = least - reach, most + reach

        def predictor(group: Group) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(group.shifted((group.X @ coef)[:, None])[:, 0])

        self._predictors = map_groups(sample, predictor)

    def sums(
        self, edges: FloatArray, n_cells: int, cells: Callable[[Group, FloatArray], list[FloatArray]]
    ) -> FloatArray:
        """Return sums over rows by bin of cells (R, n), one after the other; edges are (m, R)."""
        n_bins = len(edges) + 1

        def part(group: Group, eta: FloatArray) -> FloatArray:
            own = edges.T[group.replicates]
            eta, weights = (
                np.broadcast_to(each, (len(own), len(group.X))) for each in (eta, group.weights.T)
            )
            with np.errstate(over="ignore", invalid="ignore"):
                sums = cells(group, eta)
            places = [np.searchsorted(its, e, side="right") for its, e in zip(own, eta, strict=True)]
            return np.stack(
                [
                    np.concatenate([np.bincount(b, w * each[r], n_bins) for each in sums])
                    for r, (b, w) in enumerate(zip(places, weights, strict=True))
                ],
                axis=1,
            )

        return self._predictors.total((n_cells * n_bins, self.sample.n_replicates), part)


def bin_edges(spend: Spend, bins: Bins) -> FloatArray:
    """Release counts of rows by predictor between public limits, then more finely; return 9 edges."""
    low, high = (np.full(bins.sample.n_replicates, bound) for bound in bins.bounds)
    for _ in range(_N_SEARCHES):
        fine = np.linspace(low, high, _N_FINE - 1)
        counts, _ = spend(
            ROWS_BY_PREDICTOR, histogram.of(bins.sums(fine, 1, lambda group, eta: [np.ones_like(eta)]))
        )
        below = np.maximum.accumulate(np.cumsum(counts[:-1], axis=0), axis=0) / bins.sample.n_rows
        width = fine[1] - fine[0]
        low, high = (_at_shares(np.array([share]), below, fine)[0] for share in (0.01, 0.99))
        low, high = low - width, high + width
    return _at_shares(np.arange(1, _N_BINS) / _N_BINS, below, fine)


def _at_shares(shares: FloatArray, below: FloatArray, edges: FloatArray) -> FloatArray:
    """Return where shares of the rows lie below, (k, R), between edges (m, R) below which (m, R) lie."""
    columns = zip(below.T, edges.T, strict=True)
    return np.stack([np.interp(shares, own, its) for own, its in columns], axis=1)
