"""Noisy second moments: how a device encodes xx', and the server of paper C's Algorithms 1 and 3.

    θ̂ = S( Σ̂₊⁻¹ v̂ ),   Σ̂₊: eigenvalues below low/4 raised to it

All of it is post-processing of reports and public numbers.

The report of xx'. A randomizer adds noise of one size to every entry of a vector of norm ≤ 1, which is

    ( x_j² − c,  √s x_j x_k for j < k ) / b,   b the largest norm.

Noise σ on it is b σ on the diagonal of xx' and b σ/√s off it. The center c and the weight s are public. (c,
s) = (0, 2) keeps the Frobenius norm, with b = r². There are better choices for x with ‖x‖ ≤ r and |x_j| ≤ τ.
Squares lie in [0, τ²], so around c. √s x_j x_k may be shrunk until the diagonal binds.

The largest norm is exact. In t_j = x_j² the squared norm is (1 − s/2) Σt² − 2c Σt + dc² + (s/2)(Σt)². It is
convex for s ≤ 2, so its maximum over {0 ≤ t_j ≤ τ², Σt ≤ r²} is at a vertex. A vertex has k entries of τ²,
one of the rest of r² if all of it is used, and zeros.

The floor. Noise can make Σ̂ indefinite. ``low`` is a public bound on the eigenvalues of E xx', so an
eigenvalue below a quarter of it is noise. Notes say if that happened. The noise's spectral norm is about
2σ√(d/n) for entries of σ/√n. Notes warn if it exceeds half of
``low``, that is for n below 16 σ² d/low².

The threshold S is the identity, the ``sparsity`` largest coefficients, or a soft threshold at
λ = √(2 log 2d) √(σ² + σ_v²)/(√n low). It does not depend on data. (The printed prox step lacks a ½ and would
threshold at λ/2.)

The noise of the reports moves θ̂ by Σ̂⁻¹(noise of v̂ − noise of Σ̂ θ̂), whose covariance is known up to θ̂.
Intervals add a public bound on the sampling variance, which hardly widens them. They are for rows within the
declared bounds: which rows are truncated is not known. Public rows show the effect of truncation on a linear
model, which widens the intervals.

Reference: Paper C (ICLR 2024), Algorithms 1 and 3, Theorem 3 and its lemmas.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import scipy

from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.interval import CLIPPED, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance
from dpalgos.intervals.regression import RESOLVED
from dpalgos.local.rounds import LocalEstimator, check_printed, mechanism_choice
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.params import check_how_many, choice, count
from dpalgos.rows.products import truncate
from dpalgos.rows.symmetric import unsvec
from dpalgos.typing import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class MomentEstimator(IntervalEstimator, LocalEstimator):
    """An estimator that solves normal equations of noisy moments."""

    mechanism: str = mechanism_choice("gaussian")
    sparsity: int | None = count("k, number of coefficients that are kept; None: all", default=None)
    threshold: str | None = choice(
        "'hard' keeps the sparsity largest, 'soft' shrinks by λ, 'none' (or None) changes nothing; 'auto': "
        "'hard' with a sparsity, else 'soft' for calibration='paper' and 'none' for 'tight'",
        ("auto", "hard", "soft", "none", None),
        default="auto",
    )

    batch = True
    batch_of_same_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold == "hard" and self.sparsity is None:
            raise InputError("threshold='hard' needs sparsity, got none; pass e.g. sparsity=2")
        check_printed(self, "gaussian")
        if self.interval is not None and (self.sparsity is not None or self.threshold == "soft"):
            raise InputError(
                f"interval must be left out where coefficients are selected or shrunk, got "
                f"{self.interval!r}; leave out sparsity and threshold"
            )

    @property
    def gaussian(self) -> bool:
        return self.calibration == "paper" or self.mechanism == "gaussian"

    def check_columns(self, n_features: int) -> None:
        """Refuse a sparsity above the number of columns."""
        if self.sparsity is not None:
            check_how_many("sparsity", self.sparsity, n_features)


def crosses(X: FloatArray, y: FloatArray, response_level: float, bound: float) -> FloatArray:
    """Return x̃ỹ of clipped rows over a bound on its norm, (m, d, 1)."""
    return np.asarray(X * (truncate(y, response_level) / bound)[:, None])[:, :, None]


@dataclass(frozen=True, kw_only=True)
class MomentNoise:
    """Standard deviations of one report's noise: on and off the diagonal of Σ, and in v."""

    diagonal: float
    off_diagonal: float
    cross: float


class NoisyMoments(NamedTuple):
    """Σ̂ (R, d, d) and v̂ (d, R), means of ``n_reports``, and the noise of one report."""

    gram: FloatArray
    cross: FloatArray
    noise: MomentNoise
    n_reports: int


class Solution(NamedTuple):
    """θ̂ (d, R), the inverse (R, d, d) that it was made with, and how many eigenvalues were raised for it."""

    coef: FloatArray
    inverse: FloatArray
    raised: FloatArray


def regression(
    moments: NoisyMoments,
    params: MomentEstimator,
    spend: Spend,
    sampling: Callable[[FloatArray, FloatArray], FloatArray],
    beyond: FloatArray | None = None,
) -> FloatArray:
    """Return the estimate θ̂, (d, R), and keep notes, and its half-widths if requested.

    For an interval, ``sampling`` turns θ̂ and directions l (R, d, d) by rows into bounds (d, R). They are for
    the variance of l'(v̂ − Σ̂θ) without the reports' noise. ``beyond`` (d, d) is the effect of clipping rows
    on E x̃x', by public rows: it moves v̂ by about that times θ̂.
    """
    gram, cross, noise, n_reports = moments
    n_features = len(cross)
    inverse, raised = _inverse(gram, params.eigenvalue_bounds[0] / 4)
    solved = np.einsum("rij,jr->ir", inverse, cross)
    spend.note("eigenvalues_raised", raised.astype(float) if spend.is_batch else float(raised[0]))
    enough = 16 * noise.off_diagonal**2 * n_features / params.eigenvalue_bounds[0] ** 2
    if n_reports < enough:
        people = f"{n_reports:,} people are fewer than the {float(f'{enough:.2g}'):,.0f}"
        spend.note(
            "conditions", f"{people} from which on the noise of the second moments is small against them"
        )
    coef = _thresholded(solved, noise, params, n_reports)
    if params.interval is not None:
        solution = Solution(coef, inverse, raised)
        spend.keep_interval(_interval(moments, solution, params.interval, partial(sampling, coef), beyond))
    return coef


def _interval(
    moments: NoisyMoments,
    solution: Solution,
    level: float,
    sampling: Callable[[FloatArray], FloatArray],
    beyond: FloatArray | None,
) -> Interval:
    """Return the intervals of θ̂; arguments are those of :func:`regression`."""
    (gram, _, noise, n_reports), (coef, inverse, raised) = moments, solution
    gram_std = np.full(coef.shape[1], np.sqrt(2 / n_reports) * noise.off_diagonal)
    second = np.einsum("rjj->r", inverse) * coef + np.einsum("rij,jr->ir", inverse, coef)
    second = gram_std**2 / 2 * np.einsum("rij,jr->ir", inverse, second)
    known = _standard_error(inverse, coef, noise) ** 2 / n_reports
    with np.errstate(over="ignore"):  # absurd bounds: an interval without ends
        bound = sampling(inverse)
        variance = known + second**2 + bound
    hidden = _unresolved_coordinates(*np.linalg.eigh(gram), gram_std) | (raised > 0)
    biases = {}
    if beyond is not None:
        biases[CLIPPED] = np.abs(np.einsum("rij,jk,kr->ir", inverse, beyond, coef))
    interval = interval_by_variance(
        level, variance=variance, variance_std=0.0, sampling=bound, biases=biases, flags={HIDDEN: hidden}
    )
    values = "rows and responses" if beyond is None else "responses"
    return replace(interval, about=f"intervals are for {values} within the declared bounds")


def score_variance_bound(
    moments: NoisyMoments,
    params: MomentEstimator,
    response_level: float,
    coef: FloatArray,
    lever: FloatArray,
) -> FloatArray:
    """Return a bound on the variance of l'(mean of x (y − x'θ)), for directions l.

    A residual is at most e = τ₂ + min(r ‖θ‖₂, τ₁ ‖θ‖₁), so that the variance of l'x (y − x'θ) is at most
    e² l'Σl, and certainly e² r² ‖l‖². Σ̂ has noise: two standard deviations of it are added to l'Σ̂l.
    """
    gram, _, noise, n_reports = moments
    row = params.row_norm(len(coef))
    size = np.minimum(row * np.linalg.norm(coef, axis=0), params.covariate_bound * np.abs(coef).sum(axis=0))
    length = np.einsum("rij,rij->ir", lever, lever)
    spread = np.einsum("rij,rjk,rik->ir", lever, gram, lever)
    unsure = 2 * max(noise.diagonal, np.sqrt(2) * noise.off_diagonal) / np.sqrt(n_reports) * length
    along = np.minimum(np.maximum(spread, 0) + unsure, row**2 * length)
    return np.asarray((response_level + size) ** 2 * along / n_reports)


def _inverse(gram: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Return the inverses with eigenvalues of at least ``floor``, and how many were raised to it, (R,)."""
    values, vectors = np.linalg.eigh(gram)
    inverse = (vectors / np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return inverse, (values < floor).sum(axis=1)


def _thresholded(coef: FloatArray, noise: MomentNoise, params: MomentEstimator, n_reports: int) -> FloatArray:
    rule = params.threshold or "none"
    if rule == "auto":
        rule = "hard" if params.sparsity else "soft" if params.calibration == "paper" else "none"
    if rule == "hard":
        assert params.sparsity is not None
        return hard_threshold(coef, params.sparsity)
    if rule == "none":
        return coef
    std = np.hypot(noise.off_diagonal, noise.cross) / np.sqrt(n_reports)
    level = std * np.sqrt(2 * np.log(2 * len(coef))) / params.eigenvalue_bounds[0]
    return np.asarray(np.sign(coef) * np.maximum(np.abs(coef) - level, 0.0))


def _standard_error(inverse: FloatArray, coef: FloatArray, noise: MomentNoise) -> FloatArray:
    """Return the standard errors for a single report, (d, R).

    With a² on the diagonal and b² off it, the noise of Σ̂θ has covariance
    b²(‖θ‖² I + θθ') + (a² − 2b²) diag(θ²).
    """
    on, off = noise.diagonal**2, noise.off_diagonal**2
    theta = coef.T
    covariance = off * theta[:, :, None] * theta[:, None, :]
    d = np.arange(theta.shape[1])
    covariance[:, d, d] += (
        noise.cross**2 + off * (theta**2).sum(axis=1, keepdims=True) + (on - 2 * off) * theta**2
    )
    return np.asarray(np.sqrt(np.einsum("rij,rjk,rik->ir", inverse, covariance, inverse)))


@dataclass(frozen=True, kw_only=True)
class GramReport:
    """How xx' is written as a vector of norm at most 1.

    Rows must be clipped to r, ``row_bound``, and τ, ``covariate_bound``; ``center`` is c, ``weight`` s ≤ 2.
    """

    n_features: int
    row_bound: float
    covariate_bound: float
    center: float
    weight: float

    @property
    def size(self) -> int:
        """d (d + 1)/2."""
        return self.n_features * (self.n_features + 1) // 2

    @cached_property
    def largest_norm(self) -> float:
        """Largest norm b of the unscaled vector."""
        return float(np.sqrt(self._squared_norms.max()))

    @property
    def off_diagonal(self) -> float:
        """Noise scale of the off-diagonal entries."""
        return self.largest_norm / float(np.sqrt(self.weight))

    def vectors(self, X: FloatArray) -> FloatArray:
        """Return the vectors of clipped rows (m, d), (m, size)."""
        first, second = np.triu_indices(self.n_features)
        on_diagonal = first == second
        scale = np.where(on_diagonal, 1.0, np.sqrt(self.weight)) / self.largest_norm
        offset = np.where(on_diagonal, self.center / self.largest_norm, 0.0)
        return np.asarray(X[:, first] * X[:, second] * scale - offset)

    def matrices(self, vectors: FloatArray) -> FloatArray:
        """Return the matrices that vectors (size, R) stand for, (R, d, d)."""
        d = self.n_features
        on_diagonal = np.equal(*np.triu_indices(d))
        back = np.where(on_diagonal, 1.0, np.sqrt(2 / self.weight)) * self.largest_norm
        return unsvec(vectors * back[:, None], d) + self.center * np.eye(d)

    @property
    def _squared_norms(self) -> FloatArray:
        total, squares = self._vertices
        c, s = self.center, self.weight
        return (1 - s / 2) * squares - 2 * c * total + self.n_features * c**2 + s / 2 * total**2

    @cached_property
    def _vertices(self) -> tuple[FloatArray, FloatArray]:
        """Return Σt and Σt² at the vertices, by growing Σt."""
        box = self.covariate_bound**2
        full = min(self.n_features, int(self.row_bound**2 / box * (1 + 1e-12)))
        total = box * np.arange(full + 1)
        squares = box * total
        if full < self.n_features:
            rest = max(self.row_bound**2 - full * box, 0.0)
            total, squares = np.append(total, full * box + rest), np.append(squares, full * box**2 + rest**2)
        return total, squares


def isometric(n_features: int, row_bound: float) -> GramReport:
    """Return the scaling that keeps the Frobenius norm, of rows that are clipped to ``row_bound`` alone."""
    return GramReport(
        n_features=n_features, row_bound=row_bound, covariate_bound=row_bound, center=0.0, weight=2.0
    )


def least_noise_scaling(n_features: int, row_bound: float, covariate_bound: float) -> GramReport:
    """Return the scaling for which the error that noise N brings into a regression, E‖Nθ‖², is least.

    For noise of standard deviation 1 on the vector and ‖θ‖ = 1 that is b² (1 + (d − 1)/s), averaged over the
    directions of θ. Rows must be clipped to both bounds.
    """
    box = min(covariate_bound, row_bound)
    row = min(row_bound / box, float(np.sqrt(n_features)))
    center, weight = _least_noise(n_features, row)
    return _unit_scaling(n_features, row, center, weight, box)


@lru_cache(maxsize=256)
def _least_noise(n_features: int, row_bound: float) -> tuple[float, float]:
    """Return the best center and weight where entries lie within ±1."""

    def error(center: float, weight: float) -> float:
        norm = _unit_scaling(n_features, row_bound, center, weight).largest_norm
        return norm**2 * (1 + (n_features - 1) / weight)

    def best_weight(center: float) -> float:
        def along(log_weight: float) -> float:
            return error(center, float(np.exp(log_weight)))

        return float(
            np.exp(scipy.optimize.minimize_scalar(along, bounds=(-9, np.log(2)), method="bounded").x)
        )

    minimum = scipy.optimize.minimize_scalar(
        lambda c: error(c, best_weight(c)), bounds=(0, 1), method="bounded"
    )
    best, plain = (float(minimum.x), best_weight(float(minimum.x))), (0.0, 2.0)
    return min(best, plain, key=lambda choice: error(*choice))


def _unit_scaling(d: int, row_bound: float, center: float, weight: float, box: float = 1.0) -> GramReport:
    return GramReport(
        n_features=d, row_bound=row_bound * box, covariate_bound=box, center=center * box**2, weight=weight
    )


def _unresolved_coordinates(eigenvalues: FloatArray, vectors: FloatArray, noise: FloatArray) -> BoolArray:
    """Return which coefficients, (d, R), take part in a direction whose eigenvalue noise may have made.

    ``vectors`` (R, d, d) are eigenvectors of released second moments, as columns; ``noise`` (R,) is that in
    svec.
    """
    floor = RESOLVED * np.sqrt(eigenvalues.shape[1]) * noise
    part = np.einsum("rjk,rk->jr", vectors**2, (eigenvalues < floor[:, None]).astype(float))
    return np.asarray(part > 0.01)
