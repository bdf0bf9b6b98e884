"""The fit of a released model to rows: calibration and residuals by tenths of its predictions (ours).

    rows by predictor   counts of rows in bins of η = x'β̂; twice, the second time finer
    binned fit          in each of ten bins Σ (1, f, t, t²), f and t in [−1, 1]

    release             sensitivity (ℓ2)    share of μ²
    rows by predictor   √2                  0.4, for two of them
    binned fit          √8                  0.6

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
from typing import Any, ClassVar

import numpy as np

from dpalgos.catalog import Form, register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import Lemmas, histogram_sum, lemma
from dpalgos.models.families import Family, check_labels, get_family
from dpalgos.models.offsets import OffsetEstimator
from dpalgos.params import check_for_columns, checked, choice, for_columns, positive
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

NOTED = "binned_fit"
ROWS_BY_PREDICTOR, SUMS_BY_BIN = "rows by predictor", "binned fit"
_N_BINS, _N_FINE, _N_SEARCHES = 10, 32, 2
_LARGEST = 2.0  # absolute value of a column's entries: bounds lie two units from their middle
_LEAST = 3.0  # standard deviations of its noise that a bin's count must exceed


@lemma("√8")
def fit_sensitivity() -> FloatArray:
    """Return √8: a row adds (1, f, t, t²) to its bin, of squared norm at most 4.

    A row that is replaced by one in another bin changes both by at most that. In the same bin f changes by at
    most 2, and (t, t²) by at most 2: δ = t − t' moves them by δ²(1 + (t + t')²), at most 4.
    """
    return np.asarray(np.sqrt(np.float64(8)))


def check_rows(sample: Sample, params: Any) -> None:
    """Refuse coefficients of other columns, and labels outside the family."""
    for_columns("coef", params.coef, sample.n_features)
    check_labels(sample, params)


@register(
    name="binned_fit",
    title="Fit by tenths of the predictions",
    order=84,
    task="calibration",
    reference="ours",
    summary="Calibration and residuals of public coefficients, by tenths of what they predict.",
    calibrations=("tight",),
    example={"coef": 0.5, "residual_bound": 2.0},
    public="coefficients from another release",
    no_interval="its numbers have standard errors",
    check_data=check_rows,
    forms={
        "events": Form(keywords={"family": "logistic", "residual_bound": None}),
        "counts": Form(keywords={"family": "poisson", "offset_bounds": (-1.0, 0.5)}),
    },
)
@dataclass(frozen=True, kw_only=True)
class BinnedFit(OffsetEstimator, PrivateEstimator):
    """The coefficients as they came, with a note of their fit by bin, (…, 5, 10).

    The rows of ``diagnostics["binned_fit"]`` are :data:`dpalgos.goodness.BINNED`, NaN in bins with next to no
    rows.
    """

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

    batch = True
    lemmas: ClassVar[Lemmas] = {ROWS_BY_PREDICTOR: histogram_sum, SUMS_BY_BIN: fit_sensitivity}

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

    def plan(self, n: float, d: int) -> Plan:
        for_columns("coef", self.coef, d)
        shares = {ROWS_BY_PREDICTOR: Share(0.4, _N_SEARCHES), SUMS_BY_BIN: Share(0.6)}
        return gaussian_plan(self.epsilon, self.delta, shares)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        rows.sample.check_response()
        whole = for_columns("coef", self.coef, rows.d)[:, 0]
        sample, family = self.covariates(rows.sample), self.family_object()
        coef = whole[whole.size - sample.n_features :]
        rows = predicted_rows(Rows.of_sample(sample, is_batch=rows.is_batch), coef)
        edges = bin_edges(spend, rows, predictor_bounds(sample, coef))
        width = (edges[..., -1] - edges[..., 0]) / 2
        low, high = family.mean(edges[..., 0] - width), family.mean(edges[..., -1] + width)
        middle, half = (low + high) / 2, np.maximum((high - low) / 2, np.finfo(float).tiny)
        of_labels, scale = self.residual_bound is None, self.residual_bound or 1.0

        def sums(block: Block) -> FloatArray:
            eta, y = block.derived, family.encode(block.y.ravel())[:, 0].reshape(block.y.shape)
            with np.errstate(over="ignore", invalid="ignore"):
                mean = family.mean(eta)
                f = np.clip(np.nan_to_num((mean - middle[..., None]) / half[..., None]), -1, 1)
                t = np.clip(np.nan_to_num(2 * y - 1 if of_labels else (y - mean) / scale), -1, 1)
            places = places_of(eta, edges)
            parts = [block.histogram(places, _N_BINS, cell) for cell in (None, f, t, t**2)]
            return np.concatenate(parts, axis=-1)

        released, std = spend(SUMS_BY_BIN, fit_sensitivity.of(rows.sum(sums)))
        counts, f, t, squares = np.moveaxis(released.reshape(*released.shape[:-1], 4, _N_BINS), -2, 0)
        known = np.where(counts > _LEAST * std, counts, np.nan)
        predicted = middle[..., None] + half[..., None] * f / known
        mean, square = t / known, np.clip(squares / known, 0, 1)
        variance = np.maximum(square - mean**2, 0)
        unit = 0.5 if of_labels else scale  # of two labels t is 2y − 1
        error = unit * np.sqrt(variance / known + (std / known) ** 2 * (1 + mean**2))
        spread = unit * np.sqrt(np.where(variance > _LEAST * std / known, variance, np.nan))
        observed = (1 + mean) / 2 if of_labels else predicted + scale * mean
        spend.note(NOTED, np.stack([counts, predicted, observed, error, spread], axis=-2))
        return rows.zeros(whole.size) + whole


def predictor_bounds(sample: Sample, coef: FloatArray) -> tuple[float, float]:
    """Return public bounds of predictors if columns are of order one."""
    half_width, (least, most) = _LARGEST * float(np.abs(coef).sum()), sample.offset_bounds or (0.0, 0.0)
    return least - half_width, most + half_width


def predicted_rows(rows: Rows, coef: FloatArray) -> Rows:
    """Return rows whose blocks have their predictors x'β̂ (n,), for public coefficients (d,)."""

    def predictors(block: Block) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(block.X @ coef + block.offset)

    return rows.map(predictors)


def places_of(eta: FloatArray, edges: FloatArray) -> IntArray:
    """Return the bin of each of n numbers (…, n) between edges (…, m), (…, n)."""
    if edges.ndim == 1:
        return np.searchsorted(edges, eta, side="right")
    n_replicates = max(len(edges), eta.size // eta.shape[-1])
    pairs = zip(
        *(np.broadcast_to(each, (n_replicates, each.shape[-1])) for each in (edges, eta)), strict=True
    )
    return np.stack([np.searchsorted(own, its, side="right") for own, its in pairs])


def bin_edges(spend: Spend, rows: Rows, bounds: tuple[float, float]) -> FloatArray:
    """Release counts of rows by predictor between public limits, then more finely; return 9 edges, (…, 9)."""
    low, high = (rows.zeros() + bound for bound in bounds)
    for _ in range(_N_SEARCHES):
        fine = np.linspace(low, high, _N_FINE - 1, axis=-1)
        counts = spend(ROWS_BY_PREDICTOR, histogram_sum.of(rows.sum(counts_between(fine)))).value
        below = np.maximum.accumulate(np.cumsum(counts[..., :-1], axis=-1), axis=-1) / rows.n
        width, ends = fine[..., 1] - fine[..., 0], _at_shares(np.array([0.01, 0.99]), below, fine)
        low, high = ends[..., 0] - width, ends[..., 1] + width
    return _at_shares(np.arange(1, _N_BINS) / _N_BINS, below, fine)


def counts_between(edges: FloatArray) -> Callable[[Block], FloatArray]:
    """Return the query of the number of rows between edges (…, m), (…, m + 1)."""
    n_bins = edges.shape[-1] + 1
    return lambda block: block.histogram(places_of(block.derived, edges), n_bins)


def _at_shares(shares: FloatArray, below: FloatArray, edges: FloatArray) -> FloatArray:
    """Return where shares of the rows lie below, (…, k), between edges (…, m) below which (…, m) lie."""
    if below.ndim == 1:
        return np.interp(shares, below, edges)
    columns = zip(below, np.broadcast_to(edges, below.shape), strict=True)
    return np.stack([np.interp(shares, own, its) for own, its in columns])
