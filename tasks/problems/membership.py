"""Tracing attacks: how well the rows that an estimator saw are distinguished from other rows.

Scores are standardized by what a non-member's would vary by and pooled over replicates, so that all
replicates of a cell are in one block.
"""

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.fetch.genotypes import read_genotypes
from data.prepare.genotype_groups import TracedGroup, choose_evenly, draw_roles, traced_group
from data.simulations import Simulated
from data.store.references import DatasetRef, GenotypeRef
from dpalgos.audit.rates import auc_per_data_set, pooled_auc_parts, threshold, true_positive_rates
from dpalgos.audit.tracing import (
    Attack,
    BoundedMeanAttack,
    LinearModelAttack,
    MeanAttack,
    standardized,
)
from dpalgos.models.families import get_family
from tasks.problems.group_differences import GenotypeProblem
from tasks.problems.problem import Draw, Problem
from tasks.problems.simulation import SimulatedProblem
from tasks.work_units import Replicates

AUC = "auc"
# The true positive rate at the false positive rate 0.01 is tpr_at_fpr_01, and so on.
RATES = {
    f"tpr_at_fpr_{digits}": float(f"0.{digits}")
    for digits in ["001", "002", "005", "01", "02", "05", "1", "2", "5"]
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Traced(Draw):
    """Data and an attack on an estimate from them: candidates X, y, of whom the estimator sees some."""

    attack: Attack
    truth: np.ndarray  # (d,) or (d, R): what the attack takes as the truth
    X: np.ndarray
    y: np.ndarray | None
    inside: np.ndarray  # (n, R) bool: which of the candidates the estimator sees
    outside: np.ndarray  # (n, R) bool: as many non-members

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return each replicate's scores as a column: members, the others, the sum's ratio, ℓ2 error."""
        coef = self.columns(estimate)
        scores = standardized(self.attack, self.X, self.y, coef)
        sums = (scores * self.inside).sum(axis=0) * self.attack.spread(coef) / self.attack.unbiased_sum
        truth = self.truth if self.truth.ndim == 2 else self.truth[:, None]
        errors = np.linalg.norm(coef - truth, axis=0)
        return np.vstack([_chosen(scores, self.inside), _chosen(scores, self.outside), sums, errors])


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(scores.T[mask.T].reshape(scores.shape[1], -1).T)


class _FindingMembers(Problem):
    layout: ClassVar[str] = "attack_page"
    in_one_block: ClassVar[bool] = True
    metric: ClassVar[str] = AUC
    false_positive_rates: ClassVar[dict[str, float]] = RATES

    def elements(self, n: int) -> int:
        return 2 * super().elements(n)

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return each replicate's AUCs, rates at thresholds of all non-members, sums and errors."""
        columns = np.concatenate(measured, axis=1)
        members, outsiders, (sums, errors) = columns[:n], columns[n:-2], columns[-2:]
        rates = {
            AUC: auc_per_data_set(members, outsiders),
            "pooled_auc": pooled_auc_parts(members, outsiders),
        }
        for name, rate in RATES.items():
            above = threshold(outsiders, rate)
            if above is not None:
                rates[name] = true_positive_rates(members, above)
        sums = {"attack_sum_ratio": sums, "outsider_mean": outsiders.mean(axis=0)}
        return {**rates, **sums, "l2_error": errors}


class Tracing(_FindingMembers, SimulatedProblem):
    """Members and as many fresh non-members of a simulation; the attack knows the truth.

    Where the problem is sparse (``s``), the attack is restricted to the support.
    """

    kind: Literal["tracing"]
    attack: Literal["bounded_mean", "mean", "linear_regression", "logistic"]

    @property
    def task(self) -> str:
        return {"linear_regression": "linear_regression", "logistic": "glm"}.get(self.attack, "mean")

    @property
    def separation_is_known(self) -> bool:
        """Whether rows are N(μ, I) and attacked on all coordinates: there the score's separation is known."""
        return self.attack == "mean" and self.s is None

    def claimed_sum(self, n: int) -> float:
        return math.nan if self.s is None else math.log(self.sizes(n)["d"])

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        """Yield one data set after another; the rows after the first n are not the estimator's."""
        n = replicates.n
        inside = (np.arange(2 * n) < n)[:, None]
        for replicate, rng in replicates.generators("data"):
            data = self.simulate(rng, n, times=2)
            sample = dpalgos.Sample(data.X[:n], None if data.y is None else data.y[:n])
            candidates: dict[str, Any] = {"X": data.X, "y": data.y, "inside": inside, "outside": ~inside}
            attack = self._attack(data)
            yield Traced(sample=sample, first=replicate, attack=attack, truth=data.truth, **candidates)

    def _attack(self, data: Simulated) -> Attack:
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


class GroupTracing(_FindingMembers, GenotypeProblem):
    """Genotypes, counted from −1 to 1, of a dataset's first group; n people are members, and n others not.

    ``truth`` is what the attacker takes for the mean: that of the people outside both groups
    (``"public_panel"``), or of the group's remaining people (``"same_population"``), whose genotypes are
    taken as public then.
    """

    kind: Literal["group_tracing"]
    truth: Literal["public_panel", "same_population"]

    separation_is_known: ClassVar[bool] = False

    def claimed_sum(self, n: int) -> None:
        return None

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Choose the SNPs and code the calls, which are −1, 0 or 1."""
        assert isinstance(table, GenotypeRef)
        chosen = choose_evenly(table.n_snps, self.n_snps)
        group = traced_group(read_genotypes(table, snps=chosen))
        buffer = io.BytesIO()
        np.savez_compressed(buffer, X=group.X.astype(np.int8), panel_mean=group.panel_mean)
        return ".npz", buffer.getvalue()

    def load(self, path: Path) -> TracedGroup:
        with np.load(path) as stored:
            return TracedGroup(X=stored["X"].astype(np.float64), panel_mean=stored["panel_mean"])

    def draws(self, replicates: Replicates, prepared: TracedGroup) -> Iterator[Draw]:
        inside, outside, others = draw_roles(len(prepared.X), replicates.n, replicates.row_generators())
        truth = prepared.panel_mean
        if self.truth == "same_population":
            truth = prepared.X.T @ others / others.sum(axis=0)
        sample = dpalgos.Sample(prepared.X, row_mask=inside, n_replicates=replicates.count)
        attack = MeanAttack(mean=truth, noise_std=prepared.panel_std)
        candidates: dict[str, Any] = {"X": prepared.X, "y": None, "inside": inside, "outside": outside}
        yield Traced(sample=sample, first=0, attack=attack, truth=truth, **candidates)
