"""The league's ``results.json``, checked strictly: those to be merged come from other machines."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tasks.file_schema import Strict, read_strictly

Name = Annotated[str, Field(pattern=r"^[\w .,:+/()=-]{1,200}$")]
Text = Annotated[str, Field(max_length=10_000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Family = Literal["linear", "logistic", "counts", "means"]
_Summary = tuple[Annotated[float, Field(ge=0)], float | None, int]  # mean, standard error, of how many
_MOST = 10**6  # rows and columns, for their texts


class _Part(Strict):
    model_config = ConfigDict(strict=True)


class _Row(_Part):
    """A method's error on a table at an ε, or why there is none."""

    table: Name
    method: Name
    family: _Family
    epsilon: Positive
    value: Annotated[float, Field(ge=0)] | None = None
    standard_error: float | None = None
    seconds: float | None = None
    repetitions: int | None = None
    halves: tuple[_Summary, _Summary] | None = None
    error: Text | None = None


class _StoredAudit(_Part):
    method: Name
    seed: int | None = None
    replayed: float | None = None
    violated_replay: bool | None = None
    proved: float | None = None
    pair: Text | None = None
    violated: bool | None = None
    trials: int | None = None
    error: Text | None = None


class _Method(_Part):
    ours: bool
    library: Text
    file: Name
    code: Text = ""
    versions: tuple[Text, ...]


class _Table(_Part):
    family: _Family
    source: Text
    n: int
    d: int
    developed: bool
    constant: Annotated[float, Field(ge=0)]


class Results(_Part):
    """What one machine measured; rows and attacks name methods and tables that it lists."""

    rows: Annotated[tuple[_Row, ...], Field(max_length=_MOST)]
    audits: tuple[_StoredAudit, ...]
    methods: dict[Name, _Method]
    tables: dict[Name, _Table]
    machines: tuple[Text, ...]

    @model_validator(mode="after")
    def _names_are_listed(self) -> Self:
        methods = {row.method for row in self.rows} | {audit.method for audit in self.audits}
        if methods - self.methods.keys() or {row.table for row in self.rows} - self.tables.keys():
            raise ValueError("rows and audits must be of methods and tables that the file lists")
        return self


def read_league(path: Path) -> dict[str, Any]:
    """Return the results that a machine wrote, in a file of at most 100 MB; refuse anything else."""
    found = read_strictly(path, Results, "the results.json of dpcost league")
    return found.model_dump(mode="json", exclude_none=False, exclude_unset=True)
