"""Tracing and score attacks: was this record in the data of the estimator?

An attack knows the truth θ, a released estimate M and a candidate record z. It scores how far the estimate
moves towards the record. Up to a constant, S(z) is the gradient of the log-likelihood at θ:

    A(z, M) = ⟨M − θ, S(z)⟩.

If the problem is sparse, A is restricted to the support of θ. For a non-member, A has mean 0 and standard
deviation :meth:`Attack.spread` given θ and M. The scores of members sum to

    Σ_i E A(z_i, M) = c Σ_j ∂E M_j / ∂θ_j     (Stein's identity).

If the estimate is unbiased there, the sum is c |support|: :attr:`Attack.unbiased_sum`. Noise that does not
depend on the data does not change the sum, and widens the scores. Clipping and shrinkage lower the sum.

For sparse problems, the papers claim c s log d (Lemmas 3.2 and 4.3 of paper A; proof of Theorem 6 of paper
B). The claim is false. Their proof applies Stein's identity to the selected coordinates as if the selection
did not depend on the draw. It omits the positive jump at the selection threshold. If the estimate is nearly
unbiased on the support, the sum is c s for every d.

Replicates are a trailing axis: an estimate (d, R) gives scores (n, R) of n candidates.

References
----------
Cai, Wang & Zhang, The Cost of Privacy (paper A), section 2.3, (3.2), (4.2), (4.5).
Cai, Wang & Zhang, The Cost of Privacy in Generalized Linear Models (paper B), (4.2), (4.7), (4.9).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.typing import BoolArray, FloatArray


class Attack(ABC):
    """A statistic that is large for members, and its known properties.

    ``support`` holds the coordinates that are attacked, (d,); None means all.
    """

    support: BoolArray | None = None

    @abstractmethod
    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        """Return the scores (n, R) of candidates X (n, d), y (n,) against estimates (d, R)."""

    @abstractmethod
    def lean(self, estimate: FloatArray) -> FloatArray:
        """Return M − θ, (k, R), on the k attacked coordinates; S(z) is multiplied by it."""

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance (k, k) of S(z) on these coordinates, or its diagonal if it is diagonal."""

    def spread(self, estimate: FloatArray) -> FloatArray:
        """Return the standard deviation (R,) of a non-member's score given the truth and the estimates.

        It depends on nothing else. Therefore scores divided by it can be pooled over datasets, and the limits
        of privacy hold for the pooled test.
        """
        lean, covariance = self.lean(estimate), self.covariance()
        if covariance.ndim == 1:
            return np.asarray(np.sqrt(covariance @ lean**2))
        return np.asarray(np.sqrt(np.sum(lean * (covariance @ lean), axis=0)))

    @property
    def unbiased_sum(self) -> float:
        """Expected sum of the members' scores if the estimate is unbiased on the attacked coordinates."""
        return float(self.covariance().sum())

    @property
    def attacked(self) -> slice | BoolArray:
        """The coordinates that are attacked, as an index."""
        return slice(None) if self.support is None else self.support


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedMeanAttack(Attack):
    """A = ⟨x − μ, M⟩ for entries in {−σ, σ}, M clamped to ±σ (paper A, section 2.3); σ: ``value_bound``.

    The members' scores sum to Σ_j (σ² − μ_j²). If μ is uniform on ±σ, this is two thirds of σ² d on average.
    """

    mean: FloatArray
    value_bound: float

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        return np.asarray((X - self.mean) @ self.lean(estimate))

    def lean(self, estimate: FloatArray) -> FloatArray:
        """Return M, clamped."""
        return np.clip(_columns(estimate), -self.value_bound, self.value_bound)

    def covariance(self) -> FloatArray:
        return np.asarray(self.value_bound**2 - self.mean**2)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanAttack(Attack):
    """A = ⟨(x − μ)_S, M − μ⟩ for rows with uncorrelated entries (paper A, (3.2); paper B, (4.2), times σ²).

    ``mean`` is μ, (d,), or the value of μ that each replicate assumes, (d, R). ``noise_std`` is σ of the
    entries.
    """

    mean: FloatArray
    noise_std: float | FloatArray = 1.0
    support: BoolArray | None = None

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        S, lean = self.attacked, self.lean(estimate)
        return np.asarray(X[:, S] @ lean - np.sum(_columns(self.mean)[S] * lean, axis=0))

    def lean(self, estimate: FloatArray) -> FloatArray:
        return np.asarray(_columns(estimate)[self.attacked] - _columns(self.mean)[self.attacked])

    def covariance(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.noise_std) ** 2, len(self.mean))[self.attacked]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModelAttack(Attack):
    """A = (y − ψ'(x'β)) ⟨(M − β)_S, x⟩, for regression and generalized linear models.

    Paper A, (4.2) and (4.5), has the identity as ψ' (``mean_response``). Paper B, (4.7) and (4.9), multiplies
    A by c(σ). ``information`` is the covariance (d, d) of the score (y − ψ'(x'β)) x, or its diagonal if it is
    diagonal. It is σ² E[xx'] for regression. For a generalized linear model it is the Fisher information
    E[ψ''(x'β) xx']. ``score_sum`` is Σ_i E ⟨e_j, S(z_i)⟩ M_j per attacked coordinate for an unbiased M. It is
    σ² for regression, and 1 for the score function.
    """

    coef: FloatArray
    information: FloatArray
    score_sum: float = 1.0
    mean_response: Callable[[FloatArray], FloatArray] | None = None
    support: BoolArray | None = None

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        assert y is not None
        predictor = X @ self.coef
        fitted = predictor if self.mean_response is None else self.mean_response(predictor)
        return np.asarray((y - fitted)[:, None] * (X[:, self.attacked] @ self.lean(estimate)))

    def lean(self, estimate: FloatArray) -> FloatArray:
        return np.asarray(_columns(estimate)[self.attacked] - _columns(self.coef)[self.attacked])

    def covariance(self) -> FloatArray:
        of_attacked = self.information[self.attacked]
        return of_attacked if of_attacked.ndim == 1 else of_attacked[:, self.attacked]

    @property
    def unbiased_sum(self) -> float:
        return self.score_sum * len(self.coef[self.attacked])


def standardized(attack: Attack, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
    """Return scores (n, R) divided by a non-member's standard deviation; 0 if that is 0."""
    spread = attack.spread(estimate)
    scores = attack.scores(X, y, estimate)
    return np.where(spread > 0, scores / np.where(spread > 0, spread, 1.0), 0.0)


def _columns(estimate: FloatArray) -> FloatArray:
    return estimate[:, None] if estimate.ndim == 1 else estimate
