"""What the estimators of a panel are given, and what their answers are compared with.

A problem says how data arise, and what is measured: random subsamples of a dataset, draws of a simulation,
genotypes of two groups, random halves of labelled frames, members and non-members to be told apart.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

import dpalgos
from data.table_design import Design, draw_rows, full_sample_target
from tasks.problems.base import Draw, Estimation, Prepared, ProblemBase
from tasks.problems.group_differences import GroupDifferences
from tasks.problems.membership import GroupTracing, Tracing
from tasks.problems.simulation import Simulation
from tasks.problems.train_test_split import RandomHalves
from tasks.work_units import Block, row_generators

_ROWS_BESIDE = 4000  # what a cell costs beside its data, in rows of a dataset, as measured


class Subsamples(ProblemBase):
    """Random rows of a dataset; the truth is the regression on all of them, in z-scores.

    Replicates share X, so they are an axis of one draw.
    """

    kind: Literal["subsamples"]
    dataset: str
    response: str
    covariates: tuple[str, ...] = Field(min_length=1)
    prepare: Literal["public", "paper"]

    @field_validator("covariates")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"each entry must be there once, got {name!r} twice; take one out")
        return names

    @model_validator(mode="after")
    def _response_apart(self) -> "Subsamples":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not hold the response, got {self.response!r}; take it out")
        return self

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def protected(self) -> bool:
        """Whether the columns are put into public units."""
        return self.prepare == "public"

    def sizes(self, n: int) -> dict[str, int]:
        """Return n and d; in public units an intercept is fitted too."""
        return {"n": n, "d": len(self.covariates) + (self.prepare == "public")}

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return one block: all replicates run together."""
        return [(0, replicates, n_cells * (n + _ROWS_BESIDE))]

    def draws(self, block: Block, design: Prepared | None) -> Iterator[Draw]:
        """Yield the one draw of all replicates."""
        assert isinstance(design, Design)
        mask = draw_rows(len(design.X), block.n, row_generators(block))
        yield Estimation(
            sample=dpalgos.Sample(design.X, design.y, row_mask=mask, n_replicates=block.replicates),
            first=0,
            replicates=block.replicates,
            target=full_sample_target(design),
            to_target=design.to_z,
            batched=True,
        )


AnyProblem = Subsamples | Simulation | GroupDifferences | RandomHalves | Tracing | GroupTracing
Problem = Annotated[AnyProblem, Field(discriminator="kind")]
_ANY: TypeAdapter[AnyProblem] = TypeAdapter(Problem)


def problem_of(block: Block) -> AnyProblem:
    """Return a block's problem."""
    return _ANY.validate_python(block.problem)
