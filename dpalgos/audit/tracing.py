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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpalgos.typing import BoolArray, FloatArray


class Attack(Protocol):
    """A statistic that is large for members, and what is known of it."""

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        """Return the scores (n, R) of candidates X (n, d), y (n,) against estimates (d, R)."""
        ...

    def spread(self, estimate: FloatArray) -> FloatArray:
        """Return the standard deviation (R,) of a non-member's score given the truth and the estimates.

        It depends on nothing else, so that scores divided by it can be pooled over data sets, and what
        privacy allows to a test holds for the pooled test too.
        """
        ...

    @property
    def unbiased_sum(self) -> float:
        """Expected sum of the members' scores for an estimate that is unbiased where it is attacked."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedMeanAttack:
    """A = ⟨x − μ, M⟩ for entries in {−σ, σ}, M clamped to ±σ (paper A, section 2.3); σ is ``value_bound``."""

    mean: FloatArray
    value_bound: float

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        return np.asarray((X - self.mean) @ self._clamped(estimate))

    def spread(self, estimate: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(self._variance @ self._clamped(estimate) ** 2))

    @property
    def unbiased_sum(self) -> float:
        """Σ_j (σ² − μ_j²): two thirds of σ² d on average over μ uniform on ±σ."""
        return float(self._variance.sum())

    @property
    def _variance(self) -> FloatArray:
        return np.asarray(self.value_bound**2 - self.mean**2)

    def _clamped(self, estimate: FloatArray) -> FloatArray:
        return np.clip(_columns(estimate), -self.value_bound, self.value_bound)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanAttack:
    """A = ⟨(x − μ)_S, M − μ⟩ for rows with uncorrelated entries (paper A, (3.2); paper B, (4.2), times σ²).

    ``mean`` is μ, (d,), or (d, R) of what each replicate takes for it; ``noise_std`` is σ of the entries; a
    ``support`` of None stands for all coordinates.
    """

    mean: FloatArray
    noise_std: float | FloatArray = 1.0
    support: BoolArray | None = None

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        S, error = _support(self.support), self._error(estimate)
        return np.asarray(X[:, S] @ error - np.sum(_columns(self.mean)[S] * error, axis=0))

    def spread(self, estimate: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(self._variance[_support(self.support)] @ self._error(estimate) ** 2))

    @property
    def unbiased_sum(self) -> float:
        return float(self._variance[_support(self.support)].sum())

    @property
    def _variance(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.noise_std) ** 2, len(self.mean))

    def _error(self, estimate: FloatArray) -> FloatArray:
        return _error(estimate, self.mean, self.support)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModelAttack:
    """A = (y − ψ'(x'β)) ⟨(M − β)_S, x⟩ / c, for regression and generalized linear models.

    Paper A, (4.2) and (4.5): the identity as ψ' (``mean_response``) and c = 1. Paper B, (4.7) and (4.9): c =
    c(σ), the ``dispersion``. A ``support`` of None stands for all coordinates. ``information`` is the
    covariance (d, d) of the score (y − ψ'(x'β)) x / c, or its diagonal if it is diagonal: σ² E[xx'] for
    regression with c = 1, the Fisher information E[ψ''(x'β) xx'] / c for a generalized linear model.
    ``score_sum`` is Σ_i E ⟨e_j, S(z_i)⟩ M_j for an unbiased M, per attacked coordinate: σ² for regression
    with c = 1, and 1 for a true score.
    """

    coef: FloatArray
    information: FloatArray
    score_sum: float = 1.0
    mean_response: Callable[[FloatArray], FloatArray] | None = None
    dispersion: float = 1.0
    support: BoolArray | None = None

    def scores(self, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
        assert y is not None
        predictor = X @ self.coef
        fitted = predictor if self.mean_response is None else self.mean_response(predictor)
        S = _support(self.support)
        return np.asarray(((y - fitted) / self.dispersion)[:, None] * (X[:, S] @ self._error(estimate)))

    def spread(self, estimate: FloatArray) -> FloatArray:
        error, S = self._error(estimate), _support(self.support)
        if self.information.ndim == 1:
            return np.asarray(np.sqrt(self.information[S] @ error**2))
        return np.asarray(np.sqrt(np.sum(error * (self.information[S][:, S] @ error), axis=0)))

    @property
    def unbiased_sum(self) -> float:
        return self.score_sum * len(self.coef[_support(self.support)])

    def _error(self, estimate: FloatArray) -> FloatArray:
        return _error(estimate, self.coef, self.support)


def standardized(attack: Attack, X: FloatArray, y: FloatArray | None, estimate: FloatArray) -> FloatArray:
    """Return scores (n, R) divided by a non-member's standard deviation, zero where that is zero."""
    spread = attack.spread(estimate)
    scores = attack.scores(X, y, estimate)
    return np.where(spread > 0, scores / np.where(spread > 0, spread, 1.0), 0.0)


def _columns(estimate: FloatArray) -> FloatArray:
    return estimate[:, None] if estimate.ndim == 1 else estimate


def _error(estimate: FloatArray, truth: FloatArray, support: BoolArray | None) -> FloatArray:
    S = _support(support)
    return np.asarray(_columns(estimate)[S] - _columns(truth)[S])


def _support(support: BoolArray | None) -> slice | BoolArray:
    return slice(None) if support is None else support
