"""The mean along a few axes of public rows (ours).

    m̂ = p + V u s( (1/n) Σ_i clip(u⁻¹ V'(x_i − p), C) + N(0, sd² I_k) ),   clip shortens a vector to ℓ2 norm C

p is the mean of the public rows. V (d × k) holds the k axes along which they differ most, and u the square
roots of their spreads along these axes. s shrinks every entry towards p.

    release    sensitivity (ℓ2)    share of μ²
    mean       2C/n                1

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``public_X``, (m, d), and ``public_groups``.

Why it is private. V, u, p, k, C and s are functions of public rows and of n, ε and δ. Vectors at opposite
points of the ball move the mean by 2C/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). The released
vector has an entry for every possible axis. Entries after the k-th are zeros before noise, and are dropped
after it.

Public rows decide the following (:class:`PublicAxes`).

    Axes  Those of the means of the groups of public rows around p, such as populations of a reference
          panel. If there are no groups, every row is one. Their variances λ are compared with the largest
          variance of noise in the means alone, σ²/G (1 + √(G/d))² for G groups (Marchenko & Pastur 1967).
          An axis counts with its excess b = λ − noise. Without groups the excess must also exceed the
          noise. Other axes count with λ/100: if ε is large, no axis is given up.
    C     The median of the norms of public rows (Andrew et al. 2021). If fewer than half of the rows exceed
          it, the level that only 12√k/μ of n public rows exceed.
    k     The number of axes with the smallest error by these formulas,
          Σ_(j ≤ k) b_j v_j/(b_j + v_j) + Σ_(j > k) b_j, with v_j the variance of the noise along axis j.
    s     Each entry is multiplied by b_j/(b_j + v_j), the best factor for means that are spread around p as
          public means are; not with ``shrinkage=None``.

A group that is farther from p than half of the public rows is clipped; a panel should surround it. Along all
other directions the estimate is p. It is biased, and has no interval. It is useful with few people and many
dense columns, if noise in every column would dominate.

References
----------
Andrew, Thakkar, McMahan & Ramaswamy (2021), Differentially private learning with adaptive clipping.
Aumüller, Lebeda, Nelson & Pagh (2023), PLAN: variance-aware private mean estimation, for the power 1/2 in u.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.params import check_public_columns, check_public_rows, checked, choice
from dpalgos.rows.products import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

MEAN = "mean"
_MOST_AXES = 64
_OUTSIDE = 12.0  # times √k/μ rows
_KEPT = 0.01  # of the variance of an axis that does not exceed noise
_NEGLIGIBLE = 1e-6  # of the largest singular value
_EXAMPLE = np.random.default_rng(0).uniform(-1, 1, (200, 3)) @ np.diag([1.0, 0.8, 0.6])


def check_groups(name: str, value: Any) -> IntArray:
    """Return an integer code per public row for the group it belongs to, (m,), or refuse other shapes."""
    labels = np.asarray(value)
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        raise InputError(
            f"{name} must be one label per row of public_X, whole numbers or text, got shape {labels.shape} "
            f"of {labels.dtype}"
        )
    return np.asarray(np.unique(labels, return_inverse=True)[1])


class Spectrum(NamedTuple):
    """Axes of public rows: orthonormal ``vectors`` (K, d), variances b (K,), spreads of rows (K,)."""

    vectors: FloatArray
    variances: FloatArray
    deviations: FloatArray


class AxesChoice(NamedTuple):
    """The number of axes, the clipping threshold, and the factors that shrink entries, (K,)."""

    n_axes: int
    level: float
    factors: FloatArray


@dataclass(frozen=True, eq=False)
class PublicAxes:
    """Means and spreads of public rows (m, d) in groups (m,) along the axes of their differences."""

    rows: FloatArray
    groups: IntArray | None

    @cached_property
    def center(self) -> FloatArray:
        """The mean p, (d,)."""
        return np.asarray(self.rows.mean(axis=0))

    @cached_property
    def spectrum(self) -> Spectrum:
        """The axes, those of the largest variances first."""
        offsets = self.rows - self.center
        if self.groups is None:
            means, noise = offsets, float((offsets**2).sum(axis=1).mean())
        else:
            sizes = np.bincount(self.groups)
            means = np.zeros((len(sizes), offsets.shape[1]))
            np.add.at(means, self.groups, offsets)
            means /= sizes[:, None]
            within = np.bincount(self.groups, ((offsets - means[self.groups]) ** 2).sum(axis=1))
            noise = float((within / np.maximum(sizes - 1, 1) / sizes).mean())
        n_means, d = means.shape
        _, singular, vectors = np.linalg.svd(means, full_matrices=False)
        some = (singular > _NEGLIGIBLE * singular[0]) | (np.arange(len(singular)) == 0)
        some[_MOST_AXES:] = False
        variances = singular[some] ** 2 / n_means
        noise *= (1 + np.sqrt(n_means / d)) ** 2 / n_means
        above = variances - noise
        counts = above > (noise if self.groups is None else 0)
        vectors = vectors[some]
        return Spectrum(
            vectors=vectors,
            variances=np.where(counts, np.maximum(above, _KEPT * variances), _KEPT * variances),
            deviations=np.sqrt(((offsets @ vectors.T) ** 2).mean(axis=0)),
        )

    @cached_property
    def units(self) -> FloatArray:
        """The units u of the axes, (K,)."""
        return np.asarray(np.sqrt(self.spectrum.deviations))

    def scores(self, X: FloatArray) -> FloatArray:
        """Return the places of rows (n, d) along the axes, (n, K)."""
        return np.asarray((X - self.center) @ (self.spectrum.vectors.T / self.units))

    def choice(self, n_rows: float, mu: float, noise_multiplier: float) -> AxesChoice:
        """Return the number of axes with the smallest error by the formulas, its threshold and factors."""
        b, n_axes = self.spectrum.variances, len(self.units)
        norms = np.sqrt(np.cumsum(self.scores(self.rows) ** 2, axis=1))
        best, least = AxesChoice(0, 0.0, b), np.inf
        for k in range(1, n_axes + 1):
            outside = min(0.5, _OUTSIDE * np.sqrt(k) / (n_rows * mu))
            level = float(np.quantile(norms[:, k - 1], 1 - outside))
            sensitivity = ball_mean(level, np.array(n_rows))
            noise = (self.units * noise_multiplier * sensitivity) ** 2
            factors = np.where(np.arange(n_axes) < k, b / (b + noise), 0.0)
            error = float((b * (1 - factors)).sum())
            if level > 0 and error < least:
                best, least = AxesChoice(k, level, factors), error
        return best


def check_panel(sample: Sample, params: Any) -> None:
    """Refuse public rows that do not suit."""
    params.axes(sample)


@register(
    name="public_axes_mean",
    title="Mean along public axes",
    order=82,
    task="mean",
    reference="ours",
    summary="The mean along a few axes that public rows show, shrunk towards them.",
    calibrations=("tight",),
    example={"public_X": _EXAMPLE},
    check_data=check_panel,
    forms={
        "groups": Form(keywords={"public_groups": (np.arange(200) % 5).tolist()}),
        "not shrunk": Form(keywords={"shrinkage": None}),
    },
    no_interval="the bias along directions other than the public axes is not known",
    public="n and the rows of public_X",
)
@dataclass(frozen=True, kw_only=True, eq=False)
class PublicAxesMean(PrivateEstimator):
    """The mean along a few axes of public rows."""

    public_X: FloatArray | None = checked(  # noqa: RUF009
        "(m, d) public rows, with the columns of X; None: those that the sample brings, and their groups",
        check_public_rows,
        default=None,
        optional=True,
    )
    public_groups: IntArray | None = checked(  # noqa: RUF009
        "(m,) groups of public rows whose means show the axes; None: every row is one",
        check_groups,
        default=None,
        optional=True,
    )
    shrinkage: str | None = choice(
        "'panel' (towards the mean of public rows, by their spread) or None", ("panel", None), default="panel"
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {MEAN: ball_mean}

    def plan(self, n: float, d: int) -> Plan:
        if self.public_X is not None:
            check_public_columns(self.public_X, d)
        return gaussian_plan(self.epsilon, self.delta, {MEAN: Share(1.0)})

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        axes = self.axes(rows.sample)
        chosen = axes.choice(rows.n, gaussian_mu(self.epsilon, self.delta), spend.multiplier(MEAN))
        level, is_used = chosen.level, np.arange(len(axes.units)) < chosen.n_axes

        def clipped(block: Block) -> FloatArray:
            scores = axes.scores(block.X) * is_used
            norms = np.sqrt((scores**2).sum(axis=1))
            return block.total(scores * clip_factor(norms, level)[:, None])

        released = spend(MEAN, ball_mean.of(rows.mean(clipped), level, rows.n)).value
        spend.note("n_axes", np.full(released.shape[:-1], float(chosen.n_axes)))
        answer = is_used * axes.units * released
        if self.shrinkage == "panel":
            answer = chosen.factors * answer
        return np.asarray(axes.center + answer @ axes.spectrum.vectors)

    def axes(self, sample: Sample) -> "PublicAxes":
        """Return the axes of the public rows; refuse rows that do not suit."""
        own = self.public_X is not None
        rows = check_public_columns(self.public_X if own else sample.public_rows, sample.n_features)
        groups = self.public_groups if own or self.public_groups is not None else sample.public_groups
        if groups is not None and len(groups) != len(rows):
            raise InputError(
                f"public_groups must have one label per row of public_X, {len(rows)}, got {len(groups)}"
            )
        axes = PublicAxes(rows, groups)
        if not axes.spectrum.deviations.any():
            raise InputError(
                "public_X must have rows or groups that differ, got the same mean for all; pass more of them"
            )
        return axes
