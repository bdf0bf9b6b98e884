"""Genotypes of people, and how two groups of them differ."""

from abc import ABC
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

import dpalgos
from data.fetch.genotypes import read_genotypes
from data.prepare.genotype_groups import (
    GroupDifference,
    choose_by_ancestry,
    choose_by_frequency,
    draw_people,
    group_difference,
    paired_rows,
    person_mask,
)
from data.prepare.table_design import design_bytes
from data.store.references import DatasetRef, GenotypeRef
from tasks.cells import Replicates
from tasks.problems.measures.estimation import ESTIMATION, RMS_ERROR
from tasks.problems.problem import ALL, Cost, DatasetSource, Draw, Kind, Traits


class GenotypeSource(DatasetSource, ABC):
    n_snps: Annotated[int, Field(strict=True, ge=1)]

    reads: ClassVar[tuple[str, ...]] = ("genotypes",)

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.n_snps}

    def cost(self, n: int) -> Cost:
        return Cost(elements=n * self.n_snps, batch=ALL)


class GenotypeGroups(GenotypeSource):
    """Genotypes of two groups, n people drawn from each; the truth is the difference of everybody's means.

    ``unit`` is what a row stands for: a person, in 2n rows, or a pair as in the paper, in n rows. The mean of
    the rows is the same.
    """

    design: ClassVar[type] = GroupDifference

    s: Annotated[int, Field(strict=True, ge=1)]
    selection: Literal["all_subjects", "public_panel", "public_ancestry"]
    unit: Literal["person", "pair"]

    @property
    def traits(self) -> Traits:
        """The traits; a guarantee covers SNPs chosen without reading the genotypes that are compared."""
        return Traits(
            task="mean",
            errors=(RMS_ERROR, "l2_error", "support_recall"),
            measured=(
                "An error is the root mean square over the SNPs, in allele copies per SNP. In every "
                "repetition m people of each group are drawn without replacement, the same for all "
                "estimators. The truth is the difference among everybody."
            ),
            population=(self.about.n_rows, "people of each group"),
            size_symbol="m",
            protected=self.selection != "all_subjects",
        )

    def sizes(self, n: int) -> dict[str, int]:
        return {**super().sizes(n), "s": self.s}

    def n_people(self, n: int) -> int:
        return 2 * n

    def prepare(self, table: DatasetRef) -> bytes:
        assert isinstance(table, GenotypeRef)
        genotypes = read_genotypes(table)
        if self.selection == "public_ancestry":
            choice = choose_by_ancestry(genotypes, self.n_snps)
        else:
            choice = choose_by_frequency(genotypes, self.n_snps, self.selection)
        return design_bytes(group_difference(genotypes.at(choice)))

    def draws(self, replicates: Replicates, prepared: GroupDifference) -> Iterator[Draw]:
        drawn = draw_people(prepared.sizes, replicates.n, replicates.row_generators())
        same: dict[str, Any] = {"target": prepared.target, "s": self.s, "limits": prepared.limits(self.s)}
        if self.unit == "person":
            mask = person_mask(drawn, len(prepared.X))
            sample = dpalgos.Sample(
                prepared.X,
                row_mask=mask,
                n_replicates=replicates.count,
                public_rows=prepared.public_rows,
                public_groups=prepared.public_groups,
            )
            yield Draw(sample=sample, first=0, **same)
            return
        for r, replicate in enumerate(replicates.numbers):
            sample = dpalgos.Sample(paired_rows(prepared.X, drawn, r))
            yield Draw(sample=sample, first=replicate, **same)


KINDS = {"group_differences": Kind(GenotypeGroups, ESTIMATION)}
