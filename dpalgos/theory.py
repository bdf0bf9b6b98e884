"""Minimax rates of the papers, up to constants, for overlays on figures, and one bound with its constant.

Figures plot the ℓ2 error, and the papers' rates are of its square. Therefore the functions return square
roots. The noise of the data has standard deviation 1.
"""

import numpy as np

UPPER, LOWER = (
    "the paper's rate (constant unknown, drawn with 1)",
    "the paper's lower bound (constant unknown, drawn with 1)",
)
PROVED = "below it no unbiased mean with δ = 0"


def dense_rates(task: str, n: int, d: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the papers' upper and lower rates of a mean, or of a linear or generalized linear model."""
    if task == "mean":
        return {
            UPPER: mean_upper(n, d, epsilon, delta),
            LOWER: mean_lower(n, d, epsilon, delta),
            PROVED: explicit_mean_lower(n, d, epsilon),
        }
    return {
        UPPER: linear_regression_upper(n, d, epsilon, delta),
        LOWER: linear_regression_lower(n, d, epsilon),
    }


def sparse_rates(task: str, n: int, d: int, s: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the papers' upper rate for s-sparse parameters, and the lower rate that is proved."""
    upper = sparse_mean_upper if task == "mean" else sparse_linear_regression_upper
    return {UPPER: upper(n, d, s, epsilon, delta), LOWER: sparse_lower(n, d, s, epsilon)}


def mean_upper(n: float, d: int, epsilon: float, delta: float) -> float:
    """Return the root of d/n + d² log(1/δ) log(n) / (n² ε²): paper A, Theorem 3.2, sub-Gaussian rows."""
    return float(np.sqrt(d / n + (d / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n)))


def mean_lower(n: float, d: int, epsilon: float, delta: float) -> float:
    """Return the root of d/n + d² log(1/δ) / (n² ε²): paper A, Theorem 3.1."""
    return float(np.sqrt(d / n + (d / (n * epsilon)) ** 2 * np.log(1 / delta)))


def sparse_mean_upper(n: float, d: int, s: int, epsilon: float, delta: float) -> float:
    """Return the root of s log(d)/n + (s log d)² log(1/δ) log(n) / (n² ε²): paper A, Theorem 3.4."""
    k = s * np.log(d)
    return float(np.sqrt(k / n + (k / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n)))


def sparse_lower(n: float, d: int, s: int, epsilon: float) -> float:
    """Return the root of s log(d)/n + s² / (n² ε²), for sparse means and sparse regression.

    The papers claim (s log d)² in the privacy term (paper A, Theorems 3.3 and 4.3). Their tracing attack
    supports s² only. The proof applies Stein's lemma to the selected coordinates, but the selection depends
    on the same prior draw. The rate may hold by another proof.
    """
    return float(np.sqrt(s * np.log(d) / n + (s / (n * epsilon)) ** 2))


def linear_regression_upper(n: float, d: int, epsilon: float, delta: float) -> float:
    """Return the root of d/n + d² log(1/δ) log³(n) / (n² ε²).

    This is Theorem 4.2 of paper A, in the norm of the design's second moments. Theorem 1 of paper B is the
    same for generalized linear models, with c(σ) in place of σ², in the Euclidean norm.
    """
    return float(np.sqrt(d / n + (d / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n) ** 3))


def linear_regression_lower(n: float, d: int, epsilon: float) -> float:
    """Return the root of d/n + d² / (n² ε²): paper A, Theorem 4.1."""
    return float(np.sqrt(d / n + (d / (n * epsilon)) ** 2))


def sparse_linear_regression_upper(n: float, d: int, s: int, epsilon: float, delta: float) -> float:
    """Return the root of s log(d)/n + (s log d)² log(1/δ) log³(n) / (n² ε²).

    Paper A, Theorem 4.4; paper B, Theorem 3, has the same for generalized linear models.
    """
    k = s * np.log(d)
    return float(np.sqrt(k / n + (k / (n * epsilon)) ** 2 * np.log(1 / delta) * np.log(n) ** 3))


def explicit_mean_lower(n: float, d: int, epsilon: float) -> float:
    """Return √(π/2) d / (n sinh ε): a bound on the root mean squared error of ε-private unbiased means.

    The mean is that of N(μ, I_d).

    *Proof.* Let A_i = ⟨x_i − μ, M(X) − μ⟩. For A_i', replace x_i in the data (not in the inner product) by an
    independent copy. The two datasets are neighbors.

    1. Stein: Σ E A_i = Σ_j ∂E M_j/∂μ_j = d for an unbiased M.
    2. ε-DP, on both tails: E A_i⁺ ≤ e^ε E A_i'⁺ and E A_i⁻ ≥ e^(−ε) E A_i'⁻. A_i' has mean 0. Therefore
       E A_i'⁺ = E A_i'⁻ = E|A_i'|/2 and E A_i ≤ sinh(ε) E|A_i'|.
    3. Given M(X_i'), A_i' is N(0, ‖M − μ‖²): E|A_i'| = √(2/π) E‖M − μ‖ ≤ √(2/π) √MSE.
    4. Summing: d ≤ n sinh(ε) √(2/π) √MSE. ∎
    """
    return float(np.sqrt(np.pi / 2) * d / (n * np.sinh(epsilon)))


def local_rates(n: int, d: int, k: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return rates of paper C for k-sparse regression under local privacy, ‖θ‖₁ ≤ 1 and sub-Gaussian rows.

    The lower bounds are Theorem 1, for a single round, and Theorem 6, for any sequential protocol. Gradients
    with clipped residuals (:mod:`dpalgos.local.ldp_iht`) attain the latter up to logarithms. The rate of
    Algorithm 1 is Theorem 3. As printed, Algorithms 2 and 4 have the same rate.
    """
    moments = d * np.log(n) * np.sqrt(k * np.log(d) * np.log(1 / delta) / n) / epsilon
    return {
        "Algorithm 1's rate (constant unknown, drawn with 1)": float(moments),
        "Algorithm 2's rate (constant unknown, drawn with 1)": float(k * np.sqrt(d / n) / epsilon),
        "the lower bound for one round (constant unknown, drawn with 1)": float(
            np.sqrt(d * k * np.log(d / k) / n) / epsilon
        ),
        "the lower bound (constant unknown, drawn with 1)": float(np.sqrt(d * k / n) / epsilon),
    }


def user_mean_rate(n_users: float, n_samples: float, d: int, epsilon: float) -> float:
    """Return the root of d/(nm) + d²/(n² m ε²), n users of m rows: Levy et al., Corollary 1, with Theorem 6.

    The privacy term decreases as 1/√m. If users are clipped at a public bound instead, it does not decrease.
    """
    return float(np.sqrt(d / (n_users * n_samples) + (d / (n_users * epsilon)) ** 2 / n_samples))


def user_floor(n_users: float, epsilon: float, value_bound: float) -> float:
    """Return B e^(−nε/2): n users have an error of that order even for m = ∞ (Levy et al., Theorem 9)."""
    return float(value_bound * np.exp(-n_users * epsilon / 2))
