"""Public rows without responses: coordinates in which private rows are taken only if a release says so.

    A = (P'P/m + c I)^(−1/2),  rows P (m × d) of ``public_X``
    S = (1/n) Σ u_i u_i' min(1, C/‖u_i‖)² + noise,   u_i = A x_i,  C = √d

S should be what the public rows make of it, S_pub. Rows are whitened in the coordinates A x where S − S_pub,
released, has a spectral norm of at most .6 and a trace within ±.15 d, and in x otherwise: noise
may reject a right shape, but seldom accepts a wrong one. The trace detects rows that are all larger than the
public ones: clipped, they have moments near I. The decision depends on one release and the public rows.

Replacing a row moves S by at most √2 C²/n in the Frobenius norm, as second moments of rows of norm C do
(:func:`dpalgos.mechanisms.private_whitening.moments_sensitivity`). Its share of μ² is ``public_share``, and
what is left goes to the estimator. With ``public_share=None`` it is as much as brings the noise in S down to
a norm of .3, lest it decides, .02 at least; and nothing is spent where public numbers (n, d, ε, δ and the
public rows) say that the question is idle:

* nμ ≥ 4,000, so that private moments are good enough, or a share that would be above .2;
* fewer public rows than five per column;
* S_pub with a trace below .55 d (heavy tails) or an eigenvalue below .04 (a direction that hardly varies);
* no direction in which they vary less than .3 of the noise in the moments of x, or .0075 of it per share.

The last rule asks that what the question can win exceeds what it costs.

The thresholds were chosen on six tables (n = 6,366 to 20,640, d = 6 to 17). A right shape may be refused, and
a nearly right one, with one of several columns shuffled, may be used. In logistic regressions right shapes
raised the excess loss, so that those ask only where a ``public_share`` is named.

What no release can see: a direction in which fewer private rows than about 1/μ differ from the others, but by
far. c is .03 of the mean eigenvalue for that reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Neighbors
from dpalgos.errors import InputError
from dpalgos.mechanisms.private_whitening import clipped_second_moments, moments_sensitivity
from dpalgos.params import PrivateParams, checked
from dpalgos.release.checks import SMALLEST_BOUND, check_positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.blocks import float_array, largest_magnitude
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_rows_l2
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import FloatArray

PUBLIC_SHAPE = "second moments in public coordinates"
LEAST_SHARE, MOST_SHARE = 0.02, 0.2
PUBLIC_EXAMPLE = {
    "public_X": np.random.default_rng(0).uniform(-1, 1, (200, 3)) @ np.diag([1.0, 0.5, 0.2]),
    "public_share": 0.1,
}
_RIDGE = 0.03  # of the mean eigenvalue
_FAR = 0.6  # how far S may lie from what public rows make of it
_FAR_TRACE = 0.15  # the same of its trace, per column
_CONCLUSIVE = 0.3  # the largest norm of the noise in S
_ENOUGH = 4000.0  # nμ
_HIDDEN = 0.3  # of the noise in the moments of x
_WORTH = 0.0075  # the same over the share of the question
_LEAST_TRACE, _LEAST_EIGENVALUE = 0.55, 0.04  # of S_pub, the first per column


def check_public_rows(name: str, value: Any) -> FloatArray:
    """Return public rows (m, d), or refuse what is none."""
    rows = float_array(name, value, n_dimensions=2).astype(float)
    if len(rows) == 0:
        raise InputError(f"{name} must have at least one row, got none; leave it out")
    largest_magnitude(name, [rows])
    return rows


def check_public_columns(rows: FloatArray | None, n_features: int) -> FloatArray:
    """Return public rows, or refuse those that are missing or have other columns than X."""
    if rows is None:
        raise InputError("public_X must be given, got none; pass public rows with the columns of X")
    if rows.shape[1] != n_features:
        raise InputError(f"public_X must have the columns of X, {n_features}, got {rows.shape[1]}")
    return rows


def _rows_or_sample(name: str, value: Any) -> FloatArray | str:
    return value if isinstance(value, str) and value == "sample" else check_public_rows(name, value)


def _share(name: str, value: Any) -> float:
    if not check_positive(name, value) < 1:
        raise InputError(f"{name} must be below 1, got {value!r}; pass e.g. {name}=0.02")
    return float(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRowsParams(PrivateParams):
    """Keywords of estimators that may take public rows without responses."""

    public_X: FloatArray | str | None = checked(  # noqa: RUF009
        "(m, d) public rows without responses, with the columns of X; 'sample': those that the sample brings",
        _rows_or_sample,
        default=None,
        optional=True,
    )
    public_share: float | None = checked(
        "share of μ² that asks whether the shape of the public rows is right; None: .02 to .2, or nothing "
        "where public numbers say that the question is idle",
        _share,
        default=None,
        optional=True,
    )

    @classmethod
    def takes_public_rows(cls, settings: Mapping[str, Any]) -> bool:
        """Return whether an estimator with some settings, a part of all, may ask about public rows."""
        return True

    def public_shape(self, sample: Sample, mu: float) -> "PublicShape | None":
        """Return the shape of the public rows, or None where there are none or the question is idle."""
        if self.public_X is None or not self.takes_public_rows(vars(self)):
            return None
        rows = sample.public_rows if isinstance(self.public_X, str) else self.public_X
        rows, size = check_public_columns(rows, sample.n_features), float(sample.n_rows.min()) * mu
        if self.public_share is not None:
            return PublicShape(rows, self.public_share)
        shape = PublicShape(rows, conclusive_share(size, sample.n_features))
        return shape if shape.may_help(size) else None

    def shares_with(self, shape: "PublicShape | None", shares: dict[str, float]) -> dict[str, float]:
        """Return shares of a budget that also pays for the question, if it is asked."""
        if shape is None:
            return shares
        rest = 1 - shape.share
        return {PUBLIC_SHAPE: shape.share} | {part: rest * other for part, other in shares.items()}


@dataclass(frozen=True, eq=False)
class PublicShape:
    """The shape of public rows (m, d), and the share of μ² that asks whether it is right."""

    rows: FloatArray
    share: float = LEAST_SHARE

    @cached_property
    def matrix(self) -> FloatArray:
        """A, (d, d), symmetric."""
        eigenvalues, vectors = np.linalg.eigh(self.rows.T @ self.rows / len(self.rows))
        ridge = max(_RIDGE * float(eigenvalues.mean()), SMALLEST_BOUND**2)  # or A x could overflow
        return np.asarray(vectors * (np.maximum(eigenvalues, 0) + ridge) ** -0.5 @ vectors.T)

    @property
    def level(self) -> float:
        """C, the norm to which rows A x are clipped."""
        return float(np.sqrt(self.rows.shape[1]))

    @cached_property
    def moments(self) -> FloatArray:
        """S_pub, what S is among the public rows, (d, d)."""
        clipped = clip_rows_l2(self.rows @ self.matrix, self.level)
        return np.asarray(clipped.T @ clipped / len(clipped))

    def may_help(self, size: float) -> bool:
        """Return whether the question is worth its share where ``size`` is nμ; public numbers decide."""
        m, d = self.rows.shape
        if size >= _ENOUGH or self.share > MOST_SHARE or m < 5 * d:
            return False
        eigenvalues = np.linalg.eigvalsh(self.moments)
        if eigenvalues.mean() < _LEAST_TRACE or eigenvalues[0] < _LEAST_EIGENVALUE:
            return False
        # The level to which private rows would be clipped, and the floor of their moments that follows.
        share = min(0.9, 120 * np.sqrt(d) / size * (size / 489) ** -0.25)
        squared = np.quantile((self.rows**2).sum(axis=1) + 1, 1 - share)
        floor = 1.2 * np.sqrt(2 * d) * squared / (size * np.sqrt(0.2))
        hidden = min(_HIDDEN, _WORTH / self.share) * floor
        return bool(np.linalg.eigvalsh(self.rows.T @ self.rows / m)[0] < hidden)


def conclusive_share(size: float, n_features: int) -> float:
    """Return the share of μ² at which noise leaves S to decide where ``size`` is nμ; it may exceed 1."""
    needed = 2 * n_features**1.5 / (_CONCLUSIVE * size)
    return float(max(LEAST_SHARE, needed**2))


def public_witness(params: PublicRowsParams, d: int) -> Neighbors:
    """Return neighbors that move S by its sensitivity: rows that are orthogonal in public coordinates."""
    zero = np.zeros(1)
    if isinstance(params.public_X, str) or params.public_X is None:
        return np.zeros((1, d)), zero, np.zeros((1, d)), zero
    rows = 1e6 * np.linalg.inv(PublicShape(params.public_X).matrix)
    return rows[:1], zero, rows[-1:], zero


def public_coordinates(
    transcript: Transcript,
    sample: Sample,
    params: PublicRowsParams,
    shape: PublicShape | None,
    budget: SplitBudget,
) -> FloatArray | None:
    """Return A where S looks right, else I, each with a last 1 for a response, (R, d + 1, d + 1).

    Without a shape there is no question, and the answer is None.
    """
    if shape is None:
        if params.public_X is not None:
            transcript.note("public_shape", np.zeros(sample.n_replicates))
        return None
    n_rows, d, n_replicates = sample.n_rows, sample.n_features, sample.n_replicates
    level = np.full(n_replicates, shape.level)
    matrices = np.broadcast_to(shape.matrix, (n_replicates, d, d))
    total = clipped_second_moments(sample, lambda group: group.X, level, matrices)
    released = transcript.gaussian(
        svec(total / n_rows[:, None, None]),
        l2_sensitivity=moments_sensitivity(level, n_rows),
        noise_multiplier=budget.gaussian_multiplier(PUBLIC_SHAPE),
        label=PUBLIC_SHAPE,
    )
    apart = np.linalg.eigvalsh(unsvec(released, d) - shape.moments)
    right = (np.abs(apart).max(axis=1) <= _FAR) & (np.abs(apart.sum(axis=1)) <= _FAR_TRACE * d)
    transcript.note("public_shape", right.astype(float))
    maps = np.broadcast_to(np.eye(d + 1), (n_replicates, d + 1, d + 1)).copy()
    maps[right, :d, :d] = shape.matrix
    return maps
