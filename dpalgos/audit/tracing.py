"""Tracing and score attacks: was this record among those that the estimator saw?

An attack knows the truth θ, a released estimate M and a candidate record z, and scores how far the
estimate leans towards the record. With S(z) the gradient of the log-likelihood at θ, up to a constant,

    A(z, M) = ⟨M − θ, S(z)⟩,

restricted to the support of θ where the problem is sparse. For a non-member A has mean 0 and standard
deviation :meth:`Attack.spread` given θ and M. Members' scores sum to

    Σ_i E A(z_i, M) = c Σ_j ∂E M_j / ∂θ_j     (Stein's identity),

which is c |support| for an estimate that is unbiased there: :attr:`Attack.unbiased_sum`. Noise that does not
depend on the data leaves the sum as it is and widens the scores; clipping and shrinkage lower it.

The papers claim c s log d for sparse problems (Lemmas 3.2 and 4.3 of paper A, the matching step of Theorem
6 of paper B). That does not hold: their proof applies Stein's identity to the selected coordinates as if the
selection did not depend on the draw, and drops the positive jump at its threshold. The sum is c s for
anything nearly unbiased on the support, whatever d.

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
    """A statistic that is large for members, and what is known of it.

    ``support`` are the coordinates that are attacked, (d,); None stands for all.
    """

    support: BoolArray | None = None

    @abstractmethod
    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        """Return the scores (n, R) of candidates X (n, d), y (n,) against estimates (d, R)."""

    @abstractmethod
    def lean(self, estimate: FloatArray) -> FloatArray:
        """Return M − θ, (k, R), by which the S(z) of the k attacked coordinates are multiplied."""

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance (k, k) of S(z) on these coordinates, or its diagonal if it is diagonal."""

    def spread(self, estimate: FloatArray) -> FloatArray:
        """Return the standard deviation (R,) of a non-member's score given the truth and the estimates.

        It depends on nothing else, so that scores divided by it can be pooled over data sets, and what
        privacy allows to a test holds for the pooled test too.
        """
        lean, covariance = self.lean(estimate), self.covariance()
        if covariance.ndim == 1:
            return np.asarray(np.sqrt(covariance @ lean**2))
        return np.asarray(np.sqrt(np.sum(lean * (covariance @ lean), axis=0)))

    @property
    def unbiased_sum(self) -> float:
        """Expected sum of the members' scores for an estimate that is unbiased where it is attacked."""
        return float(self.covariance().sum())

    @property
    def attacked(self) -> slice | BoolArray:
        """The coordinates that are attacked, as an index."""
        return slice(None) if self.support is None else self.support


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedMeanAttack(Attack):
    """A = ⟨x − μ, M⟩ for entries in {−σ, σ}, M clamped to ±σ (paper A, section 2.3); σ is ``value_bound``.

    The members' scores sum to Σ_j (σ² − μ_j²): two thirds of σ² d on average over μ uniform on ±σ.
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

    ``mean`` is μ, (d,), or (d, R) of what each replicate takes for it; ``noise_std`` is σ of the entries.
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

    Paper A, (4.2) and (4.5): the identity as ψ' (``mean_response``). Paper B, (4.7) and (4.9), times c(σ).
    ``information`` is the covariance (d, d) of the score (y − ψ'(x'β)) x, or its diagonal if it is diagonal:
    σ² E[xx'] for regression, the Fisher information E[ψ''(x'β) xx'] for a generalized linear model.
    ``score_sum`` is Σ_i E ⟨e_j, S(z_i)⟩ M_j for an unbiased M, per attacked coordinate: σ² for regression,
    and 1 for a true score.
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
    """Return scores (n, R) divided by a non-member's standard deviation, zero where that is zero."""
    spread = attack.spread(estimate)
    scores = attack.scores(X, y, estimate)
    return np.where(spread > 0, scores / np.where(spread > 0, spread, 1.0), 0.0)


def _columns(estimate: FloatArray) -> FloatArray:
    return estimate[:, None] if estimate.ndim == 1 else estimate
