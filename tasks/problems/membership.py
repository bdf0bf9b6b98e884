"""Tracing attacks: how well the rows that an estimator saw are distinguished from other rows.

Each replicate has members, whom the estimator sees, as many non-members or the rest of a group, and one
release. Scores are standardized by what a non-member's would vary by and pooled over replicates, so that
all replicates of a cell are in one block.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

import dpalgos
from data.fetch.genotypes import read_genotypes
from data.prepare.group_difference import choose_evenly
from data.prepare.traced_group import TracedGroup, draw_roles, traced_group
from data.registry import get_dataset
from data.simulations import Simulated
from data.store.references import DatasetRef, GenotypeRef
from dpalgos.audit.roc import auc_per_data_set, pooled_auc_parts, threshold, true_positive_rates
from dpalgos.audit.tracing import (
    Attack,
    BoundedMeanAttack,
    LinearModelAttack,
    MeanAttack,
    standardized,
)
from dpalgos.models.families import get_family
from tasks.problems.attack_metrics import (
    AUC,
    L2_ERROR,
    OUTSIDER_MEAN,
    POOLED_AUC,
    RATES,
    SUM_RATIO,
    rate_metric,
)
from tasks.problems.problem import ELEMENTS_BESIDE, DatasetProblem, Draw, Problem
from tasks.problems.simulation import SimulatedProblem
from tasks.work_units import Replicates


@dataclass(frozen=True, eq=False, kw_only=True)
class Traced(Draw):
    """Data and an attack on an estimate from them.

    Attributes
    ----------
    attack : Attack
    truth : (d,) or (d, R) array
        What the attack takes as the truth.
    X, y : (n, d) array, (n,) array or None
        The candidates.
    inside, outside : (n, R) bool arrays
        Which of them the estimator sees, and which are the non-members: as many, in each replicate.
    """

    attack: Attack
    truth: np.ndarray
    X: np.ndarray
    y: np.ndarray | None
    inside: np.ndarray
    outside: np.ndarray

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return each replicate's scores as a column: members, the others, the sum's ratio, ℓ2 error."""
        coef = self.columns(estimate)
        scores = standardized(self.attack, self.X, self.y, coef)
        sums = (scores * self.inside).sum(axis=0) * self.attack.spread(coef) / self.attack.unbiased_sum
        truth = self.truth if self.truth.ndim == 2 else self.truth[:, None]
        errors = np.linalg.norm(coef - truth, axis=0)
        return np.vstack([_chosen(scores, self.inside), _chosen(scores, self.outside), sums, errors])


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the masked entries of each column, (k, R)."""
    return np.asarray(scores.T[mask.T].reshape(scores.shape[1], -1).T)


class _FindingMembers(Problem):
    """The metrics of membership inference."""

    layout: ClassVar[str] = "attack_page"

    @property
    def metric(self) -> str:
        return AUC

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        return [(0, replicates, (n_cells + 1) * replicates * (2 * n * self.sizes(n)["d"] + ELEMENTS_BESIDE))]

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return AUCs, true positive rates where resolved, sums of scores, and errors, of each replicate.

        Thresholds are those of all replicates' non-members together.
        """
        columns = np.concatenate(measured, axis=1)
        members, outsiders, (sums, errors) = columns[:n], columns[n:-2], columns[-2:]
        found = {AUC: auc_per_data_set(members, outsiders), POOLED_AUC: pooled_auc_parts(members, outsiders)}
        for digits in RATES:
            above = threshold(outsiders, float(f"0.{digits}"))
            if above is not None:
                found[rate_metric(digits)] = true_positive_rates(members, above)
        return {**found, SUM_RATIO: sums, OUTSIDER_MEAN: outsiders.mean(axis=0), L2_ERROR: errors}


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

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        """Yield one data set after another; the rows after the first n are not the estimator's."""
        n = replicates.n
        inside = (np.arange(2 * n) < n)[:, None]
        for replicate, rng in replicates.generators("data"):
            data = self.simulate(rng, n, times=2)
            yield Traced(
                sample=dpalgos.Sample(data.X[:n], None if data.y is None else data.y[:n]),
                first=replicate,
                replicates=1,
                batched=False,
                attack=self._attack(data),
                truth=data.truth,
                X=data.X,
                y=data.y,
                inside=inside,
                outside=~inside,
            )

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


class GroupTracing(_FindingMembers, DatasetProblem):
    """Genotypes, counted from −1 to 1, of a dataset's first group; n people are members, and n others not.

    ``truth`` is what the attacker takes for the mean: that of the people outside both groups
    (``"public_panel"``), or of the group's remaining people (``"same_population"``), whose genotypes are
    taken as public then.
    """

    kind: Literal["group_tracing"]
    dataset: str
    n_snps: Annotated[int, Field(strict=True, ge=1)]
    truth: Literal["public_panel", "same_population"]

    @property
    def source(self) -> str:
        return self.dataset

    @property
    def task(self) -> str:
        return "mean"

    def check_data(self, n: int) -> None:
        if get_dataset(self.dataset).kind != "genotypes":
            raise ValueError(f"dataset must hold genotypes, got {self.dataset!r}")

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.n_snps}

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Choose the SNPs and code the calls, which are −1, 0 or 1."""
        assert isinstance(table, GenotypeRef)
        chosen = choose_evenly(table.n_snps, self.n_snps).index
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
        yield Traced(
            sample=sample,
            first=0,
            replicates=replicates.count,
            batched=True,
            attack=MeanAttack(mean=truth, noise_std=prepared.panel_std),
            truth=truth,
            X=prepared.X,
            y=None,
            inside=inside,
            outside=outside,
        )
