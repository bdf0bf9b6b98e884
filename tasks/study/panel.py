"""A panel of a study: a problem, and the estimators and grid that are not those of the whole study."""

import re

from pydantic import field_validator

from tasks.file_schema import Strict
from tasks.problems.kinds import AnyProblem
from tasks.study.estimators import EstimatorSpec, Grid


class Panel(Strict):
    """A problem with its estimators and grid, where they are not those of the whole study."""

    name: str
    about: str = ""  # what is particular about it, for the report
    smoke: bool = True  # whether profile smoke runs it too; false where that would last too long
    problem: AnyProblem
    grid: Grid | None = None
    estimators: tuple[EstimatorSpec, ...] = ()

    @field_validator("name")
    @classmethod
    def _can_be_in_a_key(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9 -]*", name):
            raise ValueError(f"a panel's name must be lower-case letters, digits, blanks or -, got {name!r}")
        return name
