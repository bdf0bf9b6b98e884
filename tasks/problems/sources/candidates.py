"""Candidates of membership inference: rows that an estimator sees, and as many that it does not."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.fetch.genotypes import read_genotypes
from data.prepare.genotype_groups import TracedGroup, choose_evenly, draw_roles, traced_group
from data.prepare.table_design import design_bytes
from data.results.table import AUC, POOLED_AUC, TRUE_POSITIVE_RATES
from data.simulations import Simulated
from data.store.references import DatasetRef, GenotypeRef
from dpalgos.models.families import get_family
from dpalgos.typing import BoolArray, FloatArray
from tasks.cells import Replicates
from tasks.problems.attack_rates import auc_per_data_set, pooled_auc_parts, threshold, true_positive_rates
from tasks.problems.problem import ALL, Cost, Draw, Kind, Measure, Measured, Traits
from tasks.problems.sources.genotypes import GenotypeSource
from tasks.problems.sources.simulated_rows import Simulation


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """An attack on an estimate, the judge of a draw: candidates X, y, of whom the estimator sees some."""

    attack: Attack
    truth: np.ndarray  # (d,) or (d, R): what the attack takes as the truth
    X: np.ndarray
    y: np.ndarray | None
    inside: np.ndarray  # (n, R) bool: which of the candidates the estimator sees
    outside: np.ndarray  # (n, R) bool: as many non-members


def measure_scores(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    """Return each replicate's scores as a column, of members and of others; their sum's ratio; the error."""
    rows: Candidates = draw.judge
    coef, attack = draw.columns(answer.estimate), rows.attack
    scores = standardized(attack, rows.X, rows.y, coef)
    truth = rows.truth if rows.truth.ndim == 2 else rows.truth[:, None]
    return {
        "members": _chosen(scores, rows.inside),
        "outsiders": _chosen(scores, rows.outside),
        "sums": (scores * rows.inside).sum(axis=0) * attack.spread(coef) / attack.unbiased_sum,
        "l2_error": np.linalg.norm(coef - truth, axis=0),
    }


def _metrics(traits: Traits, measured: Measured) -> Measured:
    members, outsiders = measured["members"], measured["outsiders"]
    thresholds = {name: threshold(outsiders, rate) for name, rate in TRUE_POSITIVE_RATES.items()}
    return {
        AUC: auc_per_data_set(members, outsiders),
        POOLED_AUC: pooled_auc_parts(members, outsiders),
        **{
            name: true_positive_rates(members, above)
            for name, above in thresholds.items()
            if above is not None
        },
        "attack_sum_ratio": measured["sums"],
        "outsider_mean": outsiders.mean(axis=0),
        "l2_error": measured["l2_error"],
    }


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(scores.T[mask.T].reshape(scores.shape[1], -1).T)


# Scores of an attack's candidates, of whom the estimator saw some.
MEMBERSHIP = Measure(
    measure=measure_scores,
    metric=lambda traits: AUC,
    metrics=_metrics,
    of_attacks=True,
    layout="attack_page",
)


class SimulatedCandidates(Simulation):
    """Members and as many fresh non-members of a simulation; the attack knows the truth.

    Where the problem is sparse (``s``), the attack is restricted to the support.
    """

    attack: Literal["bounded_mean", "mean", "linear_regression", "logistic"]

    @property
    def traits(self) -> Traits:
        task = {"linear_regression": "linear_regression", "logistic": "glm"}.get(self.attack, "mean")
        # Where rows are N(μ, I) and attacked on all coordinates, the score's separation is known.
        return replace(
            super().traits, task=task, separation_is_known=self.attack == "mean" and self.s is None
        )

    def cost(self, n: int) -> Cost:
        return Cost(elements=2 * n * self.sizes(n)["d"], batch=ALL)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        """Yield one dataset after another; the rows after the first n are not the estimator's."""
        n = replicates.n
        inside = (np.arange(2 * n) < n)[:, None]
        for replicate, rng in replicates.generators("data"):
            data = self.simulate(rng, n, times=2)
            sample = dpalgos.Sample(data.X[:n], None if data.y is None else data.y[:n])
            rows: dict[str, Any] = {"X": data.X, "y": data.y, "inside": inside, "outside": ~inside}
            judge = Candidates(attack=self._attack_on(data), truth=data.truth, **rows)
            yield Draw(sample=sample, first=replicate, judge=judge)

    def _attack_on(self, data: Simulated) -> Attack:
        support = None if self.s is None else data.truth != 0
        if self.attack == "bounded_mean":
            return BoundedMeanAttack(mean=data.truth, value_bound=data.noise_std)
        if self.attack == "mean":
            return MeanAttack(mean=data.truth, noise_std=data.noise_std, support=support)
        assert data.information is not None
        logistic = self.attack == "logistic"
        return LinearModelAttack(
            coef=data.truth,
            information=data.information,
            score_sum=1.0 if logistic else data.noise_std**2,
            mean_response=get_family("logistic").mean if logistic else None,
            support=support,
        )


class GenotypeCandidates(GenotypeSource):
    """Genotypes, counted from −1 to 1, of a dataset's first group; n people are members, and n others not.

    ``truth`` is the mean that the attacker uses. It is that of the people outside both groups
    (``"public_panel"``), or of the group's remaining people (``"same_population"``). Their genotypes then
    count as public.
    """

    design: ClassVar[type] = TracedGroup

    truth: Literal["public_panel", "same_population"]

    traits: ClassVar[Traits] = Traits(task="mean")

    def cost(self, n: int) -> Cost:
        return Cost(elements=2 * n * self.n_snps, batch=ALL)

    def prepare(self, table: DatasetRef) -> bytes:
        assert isinstance(table, GenotypeRef)
        chosen = choose_evenly(table.n_snps, self.n_snps)
        return design_bytes(traced_group(read_genotypes(table).at(chosen)))

    def draws(self, replicates: Replicates, prepared: TracedGroup) -> Iterator[Draw]:
        inside, outside, others = draw_roles(len(prepared.X), replicates.n, replicates.row_generators())
        truth = prepared.panel_mean
        if self.truth == "same_population":
            truth = prepared.X.T @ others / others.sum(axis=0)
        sample = dpalgos.Sample(prepared.X, row_mask=inside, n_replicates=replicates.count)
        attack = MeanAttack(mean=truth, noise_std=prepared.panel_std)
        rows: dict[str, Any] = {"X": prepared.X, "y": None, "inside": inside, "outside": outside}
        yield Draw(sample=sample, first=0, judge=Candidates(attack=attack, truth=truth, **rows))


KINDS = {
    "tracing": Kind(SimulatedCandidates, MEMBERSHIP),
    "group_tracing": Kind(GenotypeCandidates, MEMBERSHIP),
}
