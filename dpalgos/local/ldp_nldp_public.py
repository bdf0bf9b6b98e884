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

Interval (``interval=0.95``): the noise is known. The sampling error of the public rows is computed from them.
For private rows it is bounded: l'x̃ỹ has a variance of at most τ₂² l'Σ̂l. The effect of clipping rows on a
linear model is computed from the public rows, and widens the interval: |Σ̂⁻¹ E x̃(x − x̃)' θ̂|. Responses are
assumed to lie within ±τ₂.

The floor of eigenvalues and the threshold S are those of :mod:`dpalgos.local.noisy_moments`.

Reference: Paper C (ICLR 2024), Algorithm 3 and its theorem.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Release, register
from dpalgos.local.noisy_moments import MomentNoise, MomentParams, NoisyMoments, crosses, regression
from dpalgos.local.randomizers import GaussianReport, Randomizer, pure_randomizer, report_sensitivity
from dpalgos.local.rounds import People, ReportPart, by_population
from dpalgos.mechanisms.public_rows import check_public_columns, check_public_rows
from dpalgos.params import checked
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class LDPNLDPPublicParams(MomentParams):
    """Keywords of :func:`ldp_nldp_public`."""

    public_X: FloatArray | None = checked(  # noqa: RUF009
        "(m, d) public rows, with the columns of X; None: those that the sample brings",
        check_public_rows,
        default=None,
        optional=True,
    )

    def check_columns(self, n_features: int) -> None:
        """Refuse public rows of other columns, too."""
        super().check_columns(n_features)
        check_public_columns(self.public_X, n_features)


PRODUCTS = Release("xy", report_sensitivity)


@register(
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
    releases=(PRODUCTS,),
    public="n and the rows of public_X",
    forms={
        "Gaussian reports": Form(keywords={"mechanism": "gaussian"}),
        "interval": Form(keywords={"interval": 0.95}),
        "rows clipped": Form(keywords={"row_bound": 1.2}),
        "sparse": Form(keywords={"sparsity": 2}, calibrations=("tight", "paper")),
    },
)
def ldp_nldp_public(sample: Sample, params: LDPNLDPPublicParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    if params.public_X is None:
        params = replace(params, public_X=sample.public_rows)
    params.check_columns(sample.n_features)
    return by_population(sample, transcript, lambda X, y, part: _fit(X, y, params, part))


def _fit(X: FloatArray, y: FloatArray, params: LDPNLDPPublicParams, transcript: Transcript) -> FloatArray:
    d, level = X.shape[1], params.response_level(X.shape[1], len(X))
    bound = float(np.linalg.norm(params.longest_row(d)) * level)
    randomizer = _randomizer(params, d)
    part = ReportPart(
        label=PRODUCTS.label,
        randomizer=randomizer,
        vectors=lambda X, y: crosses(params.clipped(X), y, level, bound),
    )
    (mean,), n_reports = People(X, y, transcript).report(part)
    assert params.public_X is not None
    rows, beyond = params.public_X, None
    if params.calibration == "tight":
        whole, rows = rows, params.clipped(rows)
        beyond = rows.T @ (whole - rows) / len(rows)
    gram = np.broadcast_to(rows.T @ rows / len(rows), (mean.shape[1], d, d))
    noise = MomentNoise(diagonal=0.0, off_diagonal=0.0, cross=randomizer.noise_std * bound)

    def sampling(coef: FloatArray, lever: FloatArray) -> FloatArray:
        """Return the variance of l'(mean of x̃ỹ), at most τ₂² l'Σ̂l/n, and that of l'Σ̂θ among public rows."""
        by_column = np.ascontiguousarray(rows.T)
        private = level**2 * lever @ (by_column @ rows / len(rows)) / n_reports
        variance: FloatArray = np.einsum("rjk,rjk->jr", private, lever)
        for r, predicted in enumerate(coef.T @ by_column):
            variance[:, r] += (lever[r] @ by_column * predicted).var(axis=1) / len(rows)
        return variance

    moments = NoisyMoments(gram, mean * bound, noise, n_reports)
    return regression(moments, params, transcript, sampling, beyond)


def _randomizer(params: LDPNLDPPublicParams, size: int) -> Randomizer:
    if not params.gaussian:
        return pure_randomizer(params.epsilon, 1.0, size, params.mechanism)
    multiplier = 1 / gaussian_mu(params.epsilon, params.delta)
    if params.calibration == "paper":
        multiplier = np.sqrt(8 * np.log(2.5 / params.delta)) / params.epsilon
    return GaussianReport(
        noise_multiplier=float(multiplier), l2_sensitivity=report_sensitivity(), radius=1.0, size=size
    )
