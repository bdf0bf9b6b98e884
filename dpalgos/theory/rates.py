"""Minimax rates of the papers, up to constants, for overlays on figures, and one bound with its constant.

Figures plot the ℓ2 error itself; the rates are of its square, hence the roots here.

The sparse lower bounds come twice. The papers claim (s log d)² in the privacy term; the tracing attack
that is to prove it supports s² only: Stein's lemma is applied there to the coordinates that were selected,
and the selection depends on the same prior draw, so that the attack's sum over the support is σ²s for
anything nearly unbiased, not σ²s log d. The rate may hold by another route.
"""

import numpy as np

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


def explicit_mean_lower(n: object, d: int, epsilon: float, noise_std: float = 1.0) -> FloatArray:
    """Return √(π/2) σ d / (n sinh ε), below the root mean squared error of every ε-private unbiased mean.

    ℓ2 error of estimating the mean of N(μ, σ² I_d), with its constant; d = s on the support of a sparse mean.

    Proof. A_i = ⟨x_i − μ, M(X) − μ⟩ and A_i', the same with x_i replaced by an independent copy in the data.
    Unbiasedness gives Σ E A_i = σ² d (Stein). ε-DP gives E A_i ≤ e^ε E A_i'⁺ − e^(−ε) E A_i'⁻, and A_i' has
    mean 0, so that E A_i ≤ sinh(ε) E|A_i'|, where E|A_i'| = σ √(2/π) E‖M − μ‖ ≤ σ √(2/π) √MSE.
    Summing over i: σ² d ≤ n sinh(ε) σ √(2/π) √MSE. For (ε, δ) a term of order nδ is subtracted from
    σ² d, which is not small where δ is above 1/n.
    """
    n = np.asarray(n, dtype=float)
    return np.asarray(np.sqrt(np.pi / 2) * noise_std * d / (n * np.sinh(epsilon)))


def _root(noise_std: float, squared: FloatArray) -> FloatArray:
    return np.asarray(noise_std * np.sqrt(squared))
