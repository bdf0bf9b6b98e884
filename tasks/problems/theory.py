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
    """Return the papers' upper and lower rates of a mean, or of a linear or generalized linear model.

    For a mean, the lower rate is d/n + d² log(1/δ) / (n² ε²). The upper one is for sub-Gaussian rows: its
    second term has a factor log(n) (paper A, Theorems 3.1 and 3.2). For a model, the lower rate is
    d/n + d² / (n² ε²). The second term of the upper one has a factor log(1/δ) log³(n) (paper A, Theorems 4.1
    and 4.2). It is in the norm of the design's second moments. Theorem 1 of paper B is the same for
    generalized linear models, with c(σ) in place of σ², in the Euclidean norm.
    """
    log_delta, log_n = np.log(1 / delta), np.log(n)
    if task == "mean":
        return {
            UPPER: _root(d, n, epsilon, log_delta, log_n),
            LOWER: _root(d, n, epsilon, log_delta),
            PROVED: explicit_mean_lower(n, d, epsilon),
        }
    return {UPPER: _root(d, n, epsilon, log_delta, log_n**3), LOWER: _root(d, n, epsilon)}


def sparse_rates(task: str, n: int, d: int, s: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the papers' upper rate for s-sparse parameters, and the lower rate that is proved.

    The upper rate is that of :func:`dense_rates`, with s log(d) for d (paper A, Theorems 3.4 and 4.4; paper
    B, Theorem 3). The lower rate is s log(d)/n + s² / (n² ε²). The papers claim (s log d)² in its privacy
    term (paper A, Theorems 3.3 and 4.3). Their tracing attack supports s² only. The proof applies Stein's
    lemma to the selected coordinates, but the selection depends on the same prior draw. The rate may hold by
    another proof.
    """
    power = 1 if task == "mean" else 3
    upper = _root(s * np.log(d), n, epsilon, np.log(1 / delta), np.log(n) ** power)
    return {UPPER: upper, LOWER: float(np.sqrt(s * np.log(d) / n + (s / (n * epsilon)) ** 2))}


def _root(k: float, n: float, epsilon: float, *factors: float) -> float:
    """Return the root of k/n + k² / (n² ε²), whose second term has further factors."""
    privacy = (k / (n * epsilon)) ** 2
    for factor in factors:
        privacy *= factor
    return float(np.sqrt(k / n + privacy))


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
