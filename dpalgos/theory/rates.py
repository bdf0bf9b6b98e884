"""Minimax rates of the papers, up to constants, for overlays on figures, and one bound with its constant.

Figures plot the ℓ2 error itself; the rates are of its square, hence the roots here.

The sparse lower bounds come twice. The papers claim (s log d)² in the privacy term; the tracing attack
that is to prove it supports s² only: Stein's lemma is applied there to the coordinates that were selected,
and the selection depends on the same prior draw, so that the attack's sum over the support is σ²s for
anything nearly unbiased, not σ²s log d. The rate may hold by another route.
"""

import numpy as np

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray


def mean_upper(n: object, d: int, epsilon: float, delta: object, noise_std: float = 1.0) -> FloatArray:
    """Return the root of σ² (d/n + d² log(1/δ) log(n) / (n² ε²)): paper A, Theorem 3.2, sub-Gaussian rows."""
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    privacy = (d / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n)
    return _root(noise_std, d / n + privacy)


def mean_lower(n: object, d: int, epsilon: float, delta: object, noise_std: float = 1.0) -> FloatArray:
    """Return the root of σ² (d/n + d² log(1/δ) / (n² ε²)): paper A, Theorem 3.1."""
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    return _root(noise_std, d / n + (d / (n * epsilon)) ** 2 * np.log(1 / delta))


def sparse_mean_upper(
    n: object, d: object, s: int, epsilon: float, delta: object, noise_std: float = 1.0
) -> FloatArray:
    """Return the root of σ² (s log(d)/n + (s log d)² log(1/δ) log(n) / (n² ε²)): paper A, Theorem 3.4."""
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    effective = s * np.log(np.asarray(d, dtype=float))
    privacy = (effective / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n)
    return _root(noise_std, effective / n + privacy)


def sparse_lower(
    n: object, d: object, s: int, epsilon: float, noise_std: float = 1.0, *, version: str = "claimed"
) -> FloatArray:
    """Return the lower bound of the sparse mean and of sparse regression.

    Parameters
    ----------
    n, d : array_like
        Rows and columns.
    s : int
        Sparsity.
    epsilon, noise_std : float
        ε and σ.
    version : {"claimed", "supported"}
        The root of σ² (s log(d)/n + k² / (n² ε²)) with k = s log d as claimed (paper A, Theorems 3.3 and
        4.3), or k = s, which is what the attack supports.
    """
    n = np.asarray(n, dtype=float)
    effective = s * np.log(np.asarray(d, dtype=float))
    attacked = {"claimed": effective, "supported": np.full_like(effective, s)}[version]
    return _root(noise_std, effective / n + (attacked / (n * epsilon)) ** 2)


def linear_regression_upper(
    n: object, d: int, epsilon: float, delta: object, noise_std: float = 1.0
) -> FloatArray:
    """Return the root of σ² (d/n + d² log(1/δ) log³(n) / (n² ε²)).

    Paper A, Theorem 4.2, in the norm of the design's second moments; paper B, Theorem 1, has the same for
    generalized linear models, with c(σ) for σ² and in the Euclidean norm.
    """
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    privacy = d**2 * np.log(1 / delta) * np.log(n) ** 3 / (n * epsilon) ** 2
    return _root(noise_std, d / n + privacy)


def linear_regression_lower(n: object, d: int, epsilon: float, noise_std: float = 1.0) -> FloatArray:
    """Return the root of σ² (d/n + d² / (n² ε²)): paper A, Theorem 4.1."""
    n = np.asarray(n, dtype=float)
    return _root(noise_std, d / n + (d / (n * epsilon)) ** 2)


def sparse_linear_regression_upper(
    n: object, d: object, s: int, epsilon: float, delta: object, noise_std: float = 1.0
) -> FloatArray:
    """Return the root of σ² (s log(d)/n + (s log d)² log(1/δ) log³(n) / (n² ε²)).

    Paper A, Theorem 4.4; paper B, Theorem 3, has the same for generalized linear models.
    """
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    effective = s * np.log(np.asarray(d, dtype=float))
    privacy = (effective / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n) ** 3
    return _root(noise_std, effective / n + privacy)


def explicit_mean_lower(
    n: object,
    d: int,
    epsilon: float,
    noise_std: float = 1.0,
    *,
    delta: object = 0.0,
    largest_error: float | None = None,
) -> FloatArray:
    """Return a lower bound, with its constant, on the root mean squared error of private unbiased means.

        √(π/2) max(0, σ² d − n c(δ)) / (n σ sinh ε),   c(δ) = (1 + e^(−ε)) δ B σ (√d + √(2 log(1/δ)) + 1)

    For the mean of N(μ, σ² I_d); d = s on the support of a sparse mean. Without δ: √(π/2) σ d / (n sinh ε).

    Proof, checked step by step. A_i = ⟨x_i − μ, M(X) − μ⟩ and A_i' the same with x_i replaced in the data
    (not in the inner product) by an independent copy, so that the two data sets are neighbors.

    1. Stein: Σ E A_i = σ² Σ_j ∂E M_j/∂μ_j = σ² d for an unbiased M.
    2. ε-DP, on both tails: E A_i⁺ ≤ e^ε E A_i'⁺ and E A_i⁻ ≥ e^(−ε) E A_i'⁻. A_i' has mean 0, hence
       E A_i'⁺ = E A_i'⁻ = E|A_i'|/2 and E A_i ≤ sinh(ε) E|A_i'|.
    3. Given M(X_i'), A_i' is N(0, σ² ‖M − μ‖²): E|A_i'| = σ √(2/π) E‖M − μ‖ ≤ σ √(2/π) √MSE.
    4. Summing: σ² d ≤ n sinh(ε) σ √(2/π) √MSE.
    5. With δ, P(A_i > t) ≤ e^ε P(A_i' > t) + δ is used up to t = T only, and above T the tail of A_i itself,
       so that step 2 gains δT + ∫_T P(A_i > t) dt, and the lower tail e^(−ε) as much. With ‖M − μ‖ ≤ B
       surely, |A| ≤ B ‖x_i − μ‖; at T = Bσ(√d + u) the integral is at most Bσ ∫_u exp(−v²/2) dv ≤
       Bσ exp(−u²/2)/u by concentration of the norm, and u = √(2 log(1/δ)) makes it at most δBσ/u ≤ δBσ.

    Parameters
    ----------
    n : array_like
        Rows.
    d : int
        Columns.
    epsilon, noise_std : float
        ε and σ.
    delta : array_like
        δ below e^(−1/2). Where it is above 1/n, n c(δ) exceeds σ² d and the bound is zero: then the attack
        proves nothing.
    largest_error : float, optional
        B, with ‖M − μ‖ ≤ B surely, e.g. 2R√d for answers and means in [−R, R]^d; required where δ > 0.
    """
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    lost = np.zeros_like(delta)
    if (delta > 0).any():
        if largest_error is None or not (delta < np.exp(-0.5)).all():
            raise InputError(
                "explicit_mean_lower needs largest_error, and delta below exp(-1/2), where delta is not 0; "
                "pass e.g. largest_error=2 * value_bound * sqrt(d)"
            )
        positive = np.where(delta > 0, delta, 0.5)
        reach = np.sqrt(d) + np.sqrt(2 * np.log(1 / positive)) + 1
        lost = (1 + np.exp(-epsilon)) * delta * largest_error * noise_std * reach
    remaining = np.maximum(noise_std**2 * d - n * lost, 0.0)
    return np.asarray(np.sqrt(np.pi / 2) * remaining / (n * noise_std * np.sinh(epsilon)))


UPPER, LOWER = "the paper's rate, constant 1", "the paper's lower bound, constant 1"
PROVED = "below it no unbiased mean with δ = 0"


def dense_rates(task: str, n: int, d: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the papers' upper and lower rates of a mean, or of a linear or generalized linear model."""
    if task == "mean":
        found = {
            UPPER: mean_upper(n, d, epsilon, delta),
            LOWER: mean_lower(n, d, epsilon, delta),
            PROVED: explicit_mean_lower(n, d, epsilon),
        }
    else:
        upper = linear_regression_upper(n, d, epsilon, delta)
        found = {UPPER: upper, LOWER: linear_regression_lower(n, d, epsilon)}
    return {label: float(value) for label, value in found.items()}


def sparse_rates(task: str, n: int, d: int, s: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the papers' rates of s-sparse parameters; the lower one is what the attack proves."""
    upper = sparse_mean_upper if task == "mean" else sparse_linear_regression_upper
    lower = sparse_lower(n, d, s, epsilon, version="supported")
    return {UPPER: float(upper(n, d, s, epsilon, delta)), LOWER: float(lower)}


def _root(noise_std: float, squared: FloatArray) -> FloatArray:
    return np.asarray(noise_std * np.sqrt(squared))
