"""Candidates of membership inference: rows that an estimator sees, and as many that it does not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.fetch.genotypes import read_genotypes
from data.prepare.design_file import design_bytes
from data.prepare.genotype_groups import TracedGroup, choose_evenly, draw_roles, traced_group
from data.simulations import Simulated
from data.store.references import DatasetRef, GenotypeRef
from dpalgos.models.families import get_family
from tasks.cells import Replicates
from tasks.problems.measures.membership import MEMBERSHIP, Candidates
from tasks.problems.problem import ALL, Cost, Draw, Kind, Traits
from tasks.problems.sources.genotypes import GenotypeSource
from tasks.problems.sources.simulated_rows import Simulation
from tasks.problems.tracing import Attack, BoundedMeanAttack, LinearModelAttack, MeanAttack


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
