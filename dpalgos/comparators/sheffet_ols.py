"""Least squares on a private Johnson–Lindenstrauss sketch (Sheffet 2017, Algorithm 1).

With A = [X, y], rows clipped to ‖(x, y)‖₂ ≤ B, and Ω an r × n matrix of independent N(0, 1):

    w² = (8B²/ε) (√(2r log(8/δ)) + 2 log(8/δ)),   Z ~ Laplace(4B²/ε)
    if σ_min(A)² > w² + Z + 4B² log(1/δ)/ε:   release Ω A              ("unaltered")
    else:                                     release Ω [A; w I]       ("altered": a ridge)
    β̂ = least squares of the last sketched column on the others

The rows of ΩA are independent N(0, A'A). The sketch is therefore drawn from the Gram matrix, without Ω.

    release                        sensitivity    cost
    smallest eigenvalue (paper)    B²             ε/4
    failure of the test (paper)    0              δ e^{ε/4}/2
    sketch                         B²             its Rényi curve

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound``, ``response_bound``
(B² is the sum of their squares), ``n_sketch_rows`` r.

Why it is private. In both branches the sketched Gram matrix is ⪰ w² I, unless the test passes a matrix with
σ_min² < w². The probability of this is at most δ/2, the Laplace tail above its margin, times e^{ε/4} for the
neighbor. Given G ⪰ w² I, replacing a row changes G by bb' − aa'. The privacy loss of r draws of N(0, G) is
the Rényi curve of a :class:`~dpalgos.accounting.other_events.Sketch`. The test is ε/4-DP because
σ_min² moves by at most B².

Calibrations
    ``paper``: as printed above. The certificate composes the test, its failure probability and the sketch.
    ``tight``: two departures from the paper. There is no test: the sketch is always altered, with the
    smallest w² at which it is (ε, δ)-DP by that curve. y is scaled by covariate_bound / response_bound
    before sketching, and the estimate is scaled back. This reduces B² and the ridge.

Number of sketch rows: the reference leaves r open. A sketch of few rows has a large error of its own, and one
of many rows needs a large ridge. :func:`best_sketch_rows` takes the r with the smallest forecast error. In
studies with ``"by forecast"``, it uses synthetic tables from public guesses. If ``n_sketch_rows`` is None, it
uses a typical table. No row of the data is read.

Reference: Sheffet (2017), Differentially private ordinary least squares, Algorithm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import Laplace, Sketch, failure
from dpalgos.catalog import Neighbors, register
from dpalgos.comparators.gram import eigenvalue_sensitivity, failure_sensitivity, release_sketch
from dpalgos.core.estimator import PrivateEstimator, Witnesses
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows, clipped_moments
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.params import count, positive
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.tuning.descent import SyntheticTable
from dpalgos.typing import BoolArray, FloatArray

_LARGEST_LOG_RATIO = 300.0  # of a ridge and the squared bound of a row


SMALLEST_EIGENVALUE, FALSE_PASS, SKETCH = "smallest eigenvalue", "test passes wrongly", "sketch"


def _direction_left_empty(estimator: "SheffetOLS", d: int) -> Neighbors:
    """Return neighbors of which one lacks the only row in a direction: σ_min² falls from B² to 0."""
    row = np.array([estimator.covariate_bound, *[0.0] * (d - 1), estimator.response_bound])
    others = np.linalg.svd(row[None, :])[2][1:]
    axes = np.repeat(others * np.linalg.norm(row) / 8, 64, axis=0)  # many short rows that nothing clips
    full, lacking = np.vstack([axes, row]), np.vstack([axes, 0 * row])
    return full[:, :-1], full[:, -1], lacking[:, :-1], lacking[:, -1]


@register(
    name="sheffet_ols",
    title="Sketched least squares",
    order=4,
    task="linear_regression",
    reference="Sheffet (2017), Algorithm 1",
    summary="Least squares on a Gaussian sketch, which a ridge makes private.",
    no_interval="how its ridge and its sketch move the estimate is not known; use preconditioned_regression",
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_sketch_rows": 200},
)
@dataclass(frozen=True, kw_only=True)
class SheffetOLS(PrivateEstimator):
    """Least squares of the sketched responses on the sketched covariates."""

    covariate_bound: float = positive("rows of X are clipped to this ℓ2 norm")
    response_bound: float = positive("responses are truncated to ± this bound")
    n_sketch_rows: int | None = count(
        "r, rows of the sketch; at least the number of columns of [X, y]; None: by n, d, ε and δ",
        default=None,
    )

    batch = True
    by_forecast = ("n_sketch_rows",)
    lemmas: ClassVar[Lemmas] = {
        SMALLEST_EIGENVALUE: eigenvalue_sensitivity,
        FALSE_PASS: failure_sensitivity,
        SKETCH: eigenvalue_sensitivity,
    }
    witnesses: ClassVar[Witnesses] = {SMALLEST_EIGENVALUE: _direction_left_empty}

    def plan(self, n: float, d: int) -> Plan:
        sketch = self.slot(self.sketch_rows(n, d))
        if self.calibration == "tight":
            return {SKETCH: sketch}
        missed = min(1.0, float(np.exp(min(self.epsilon / 4, 700.0))) * self.delta / 2)
        return {
            SMALLEST_EIGENVALUE: Laplace(self.epsilon / 4),
            FALSE_PASS: failure(missed),
            SKETCH: sketch,
        }

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, scale, slot = rows.d, self.response_scale, self.slot(self.sketch_rows(rows.n, rows.d))
        gram = clipped_moments(rows, self.covariate_bound, self.response_bound, scale)
        ridge = slot.ridge * self.row_bound_squared
        is_altered = np.ones(gram.shape[:-2], dtype=bool)
        if self.calibration == "paper":
            is_altered = ~self.passes_test(gram, ridge, spend)
        sketch = release_sketch(spend, SKETCH, gram, self.row_bound_squared, added=ridge * is_altered)
        triangle = np.asarray(
            np.linalg.qr(sketch, mode="r")
        )  # of few rows, with the same least-squares solution
        coef = np.linalg.pinv(triangle[..., :d]) @ triangle[..., d:]
        return np.asarray(coef[..., 0] / scale)

    def passes_test(self, gram: FloatArray, ridge: float, spend: Spend) -> BoolArray:
        """Release whether the noisy smallest eigenvalue exceeds the ridge by its margin, (…,)."""
        row_bound = float(np.sqrt(self.row_bound_squared))
        smallest = np.linalg.eigvalsh(gram)[..., 0]
        noisy = spend(SMALLEST_EIGENVALUE, eigenvalue_sensitivity.of(smallest, row_bound)).value
        passed = noisy > ridge + 4 * self.row_bound_squared * np.log(1 / self.delta) / self.epsilon
        spend.charge(FALSE_PASS)
        spend.note("unaltered", passed.astype(float))
        return np.asarray(passed)

    @property
    def response_scale(self) -> float:
        """The factor of y before sketching."""
        return self.covariate_bound / self.response_bound if self.calibration == "tight" else 1.0

    @property
    def row_bound_squared(self) -> float:
        """B² of the rows that are sketched."""
        row_bound = float(np.hypot(self.covariate_bound, self.response_scale * self.response_bound))
        return float(eigenvalue_sensitivity(row_bound))

    def sketch_rows(self, n: float, d: int) -> int:
        """Return r; refuse fewer than the columns of [X, y]."""
        n_rows = self.n_sketch_rows or best_sketch_rows(self, [_typical_table(self, d)], int(n))
        if n_rows < d + 1:
            raise InputError(
                f"n_sketch_rows must be at least the columns of [X, y], {d + 1}, got {n_rows}; raise it"
            )
        return n_rows

    def slot(self, n_rows: int) -> Sketch:
        """Return the slot of a sketch of r rows, with its ridge w²/B²."""
        if self.calibration == "paper":
            return Sketch(n_rows, printed_ridge(self, 1.0, n_rows))
        return Sketch(n_rows, least_ridge(self.epsilon, self.delta, n_rows))

    def forecast_settings(self, tables: Sequence[SyntheticTable], n_rows: int) -> dict[str, int]:
        return {"n_sketch_rows": best_sketch_rows(self, tables, n_rows)}


def printed_ridge(estimator: SheffetOLS, row_bound_squared: float, rows: float) -> float:
    """Return w² as Algorithm 1 prints it."""
    log_term = np.log(8 / estimator.delta)
    spread = np.sqrt(2 * rows * log_term) + 2 * log_term
    return float(8 * row_bound_squared / estimator.epsilon * spread)


def best_sketch_rows(estimator: SheffetOLS, tables: Sequence[SyntheticTable], n_rows: int) -> int:
    """Return the number of sketch rows with the smallest forecast error, a geometric mean over tables.

    With second moments G of a clipped row and w = w²/n, the estimate has the mean β_w = (G_xx + w)⁻¹ G_xy and
    the covariance s² (G_xx + w)⁻¹ / (r − d − 1), where s² = G_yy + w − G_yx β_w. Tight noise has about
    w² = B² √r/μ: replacing a row is then a Gaussian release with parameter μ.
    """
    d = tables[0].X.shape[1]
    rows = np.unique(np.geomspace(d + 3, max(n_rows, d + 4), 40).astype(int))
    ridge = np.sqrt(rows) / gaussian_mu(estimator.epsilon, estimator.delta)
    if estimator.calibration == "paper":
        ridge = np.array([printed_ridge(estimator, 1.0, r) for r in rows])
    scale = estimator.response_scale
    ridge = ridge * (estimator.covariate_bound**2 + (scale * estimator.response_bound) ** 2) / n_rows
    logs = []
    for table in tables:
        X, y = (
            clip_rows_l2(table.X, estimator.covariate_bound),
            scale * truncate(table.y, estimator.response_bound),
        )
        gram, cross, square = X.T @ X / len(X), X.T @ y / len(X), y @ y / len(X)
        values, basis = np.linalg.eigh(gram)
        inverse, cross, target = 1 / (values + ridge[:, None]), basis.T @ cross, table.to_target @ basis
        bias = (inverse * cross) @ target.T / scale - table.target
        left = square + ridge - (inverse * cross**2).sum(axis=1)
        variance = left * (inverse @ (target**2).sum(axis=0)) / (rows - d - 1) / scale**2
        logs.append(np.log((bias**2).sum(axis=1) + variance))
    return int(rows[np.mean(logs, axis=0).argmin()])


def _typical_table(estimator: SheffetOLS, d: int) -> SyntheticTable:
    """Return rows at their bound in evenly spread directions, and responses of half their bound.

    Signs of columns alternate. Therefore no column correlates with another. The first half of the squares of
    y is along the sum of the columns, the rest is orthogonal to them.
    """
    signs = scipy.linalg.hadamard(1 << d.bit_length())
    X = estimator.covariate_bound / np.sqrt(d) * signs[:, :d]
    coef = np.full(d, estimator.response_bound / np.sqrt(8) / estimator.covariate_bound)
    y = X @ coef + estimator.response_bound / np.sqrt(8) * signs[:, d]
    return SyntheticTable(X, y, np.eye(d), coef)


@lru_cache(maxsize=4096)
def least_ridge(epsilon: float, delta: float, n_rows: int) -> float:
    """Return the smallest w²/B² at which an always-altered sketch of ``n_rows`` rows is (ε, δ)-DP."""

    def excess(log_ratio: float) -> float:
        event = Sketch(n_rows, float(np.exp(log_ratio)))
        return float(np.log(max(certified_epsilon([event], delta), 1e-300) / epsilon))

    low, high = 1e-6, 1.0
    while excess(low) <= 0:
        low, high = low - 2 * high, low
        if low < -_LARGEST_LOG_RATIO:
            return float(np.exp(low))
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > _LARGEST_LOG_RATIO:
            raise InputError(
                f"no ridge makes a sketch of {n_rows} rows private at epsilon={epsilon:g}, delta={delta:g}; "
                "take fewer rows, or a larger epsilon or delta"
            )
    return float(np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-9)) * (1 + 1e-6))
