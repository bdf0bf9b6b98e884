"""Sparse linear regression from one private report each and public rows without responses (paper C, Alg. 3).

    v̂ = mean of noisy x̃ỹ,   Σ̂ = second moments of public rows,   θ̂ = S( Σ̂⁻¹ v̂ )

Guarantee: each person's one report is ε-DP, or (ε, δ)-DP with Gaussian noise. Public: τ₁ ``covariate_bound``,
``row_bound``, τ₂ ``response_bound``, eigenvalue bounds of E xx', n, and ``public_X``, rows of people who have
published them, from the same population.

Why it is private: a device sends one noisy vector, x̃ỹ of norm at most Rτ₂, R = min(``row_bound``, √d τ₁).
Opposite responses are 2Rτ₂ apart. No private row affects Σ̂, the costliest part of interaction-free
regression: the error grows as √d, not d.

Calibrations
    ``tight``: the whole (ε, δ) on x̃ỹ; pure ε unless ``mechanism="gaussian"``. Public rows are clipped like
    private ones: both moments are of the same rows.
    ``paper``: Gaussian noise √(32 d log(2.5/δ)) τ₁τ₂/ε, of half of the budget though there is no other half.
    Entries are truncated, rows are not clipped, public ones are used as they are.

    release    sensitivity                cost
    xy         2 for x̃ỹ/(Rτ₂)             (ε, δ), or ε of a pure randomizer

Interval (``interval=0.95``): the noise is known. The sampling error of the public rows is computed from them.
For private rows it is bounded: l'x̃ỹ has a variance of at most τ₂² l'Σ̂l. The effect of clipping rows on a
linear model is computed from the public rows, and widens the interval: |Σ̂⁻¹ E x̃(x − x̃)' θ̂|. Responses are
assumed to lie within ±τ₂.

The floor of eigenvalues and the threshold S are those of :mod:`dpalgos.local.noisy_moments`.

Reference: Paper C (ICLR 2024), Algorithm 3 and its theorem.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, register
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.local.noisy_moments import MomentEstimator, MomentNoise, NoisyMoments, crosses, regression
from dpalgos.local.randomizers import GaussianReport, Randomizer, pure_randomizer, report_sensitivity
from dpalgos.local.rounds import People, ReportPart, report_plan
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.params import check_public_columns, check_public_rows, checked
from dpalgos.typing import FloatArray

PRODUCTS = "xy"


@register(
    name="ldp_nldp_public",
    title="Local noisy moments, public rows",
    order=71,
    task="linear_regression",
    relation=Relation.LOCAL,
    reference="paper C (ICLR 2024), Algorithm 3",
    summary="Each person sends a noisy row times response once; second moments come from public rows.",
    example={
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "covariance_eigenvalue_bounds": (0.3, 0.5),
        "public_X": np.random.default_rng(0).uniform(-1, 1, (2000, 3)),
    },
    public="n and the rows of public_X",
    forms={
        "Gaussian reports": Form(keywords={"mechanism": "gaussian"}),
        "interval": Form(keywords={"interval": 0.95}),
        "rows clipped": Form(keywords={"row_bound": 1.2}),
        "sparse": Form(keywords={"sparsity": 2}, calibrations=("tight", "paper")),
    },
)
@dataclass(frozen=True, kw_only=True, eq=False)
class LDPNLDPPublic(MomentEstimator):
    """The solution of normal equations whose second moments are those of public rows."""

    public_X: FloatArray | None = checked(  # noqa: RUF009
        "(m, d) public rows, with the columns of X; None: those that the sample brings",
        check_public_rows,
        default=None,
        optional=True,
    )

    lemmas: ClassVar[Lemmas] = {PRODUCTS: report_sensitivity}

    def plan(self, n: float, d: int) -> Plan:
        self.check_columns(d)
        if self.public_X is not None:
            check_public_columns(self.public_X, d)
        return report_plan(n, {PRODUCTS: self.randomizer(d)})

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, level, randomizer = rows.d, self.response_level(rows.d, int(rows.n)), self.randomizer(rows.d)
        own = rows.sample.public_rows if self.public_X is None else self.public_X
        whole = public = check_public_columns(own, d)
        bound = float(np.linalg.norm(self.longest_row(d)) * level)

        def vectors(X: FloatArray, y: FloatArray) -> FloatArray:
            return crosses(self.clipped(X), y, level, bound)

        part = ReportPart(label=PRODUCTS, randomizer=randomizer, vectors=vectors)
        (mean,), n_reports = People(rows, spend).report(part)
        beyond = None
        if self.calibration == "tight":
            public = self.clipped(whole)
            beyond = public.T @ (whole - public) / len(public)
        gram = np.broadcast_to(public.T @ public / len(public), (mean.shape[1], d, d))
        noise = MomentNoise(diagonal=0.0, off_diagonal=0.0, cross=randomizer.noise_std * bound)

        def sampling(coef: FloatArray, lever: FloatArray) -> FloatArray:
            """Return the variance of l'(mean of x̃ỹ), at most τ₂² l'Σ̂l/n, and of l'Σ̂θ among public rows."""
            by_column = np.ascontiguousarray(public.T)
            private = level**2 * lever @ (by_column @ public / len(public)) / n_reports
            variance: FloatArray = np.einsum("rjk,rjk->jr", private, lever)
            for r, predicted in enumerate(coef.T @ by_column):
                variance[:, r] += (lever[r] @ by_column * predicted).var(axis=1) / len(public)
            return variance

        moments = NoisyMoments(gram, mean * bound, noise, n_reports)
        return rows.by_replicate(regression(moments, self, spend, sampling, beyond))

    def randomizer(self, d: int) -> Randomizer:
        """Return what protects a report of d numbers."""
        if not self.gaussian:
            return pure_randomizer(self.epsilon, 1.0, d, self.mechanism)
        multiplier = 1 / gaussian_mu(self.epsilon, self.delta)
        if self.calibration == "paper":
            multiplier = np.sqrt(8 * np.log(2.5 / self.delta)) / self.epsilon
        return GaussianReport(
            noise_multiplier=float(multiplier), sensitivity=report_sensitivity(), radius=1.0, size=d
        )
