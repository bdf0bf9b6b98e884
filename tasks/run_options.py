"""The options of a run: the name, type, default, bounds and help of each stand here alone.

The command line, the flows, the server's form, reruns, stored results and manifests are made of `RunOptions`.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from data.store.folders import REPORTS

Profile = Literal["smoke", "standard", "paper"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
TaskName = Literal["fetch", "parquet", "prepare", "run_block", "data_limit", "audit", "collect", "render"]

TASKS: tuple[str, ...] = get_args(TaskName)
OF_LAST_RUN = ("profile", "reps", "seed")  # what a rerun takes over where it is not given

MAX_REPLICATES = 100_000  # of a cell
MAX_TRIALS = 10_000_000  # of an audit

_LAST = " The last run's by default."
_Function = TypeVar("_Function", bound=Callable[..., Any])


class RunOptions(BaseModel):
    """The options of a run of one study."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    study: str = Field(description="The study.")
    profile: Profile = Field(
        default="standard",
        description="How much to compute: smoke is a quick look, standard the whole grid, paper the papers' "
        "repetitions.",
    )
    reps: int | None = Field(
        default=None,
        ge=1,
        le=MAX_REPLICATES,
        description="Replicates of each cell, in place of as many as the profile says.",
    )
    seed: int = Field(
        default=20191112,
        ge=0,
        description="From which all randomness follows: the same seed, the same results.",
    )
    workers: int | None = Field(
        default=None, ge=1, le=1024, description="Blocks of work at a time; the number of cores by default."
    )
    out: str | None = Field(
        default=None, min_length=1, description="Folder of the reports; reports/out by default."
    )
    offline: bool = Field(
        default=False, description="Never use the network: what is not at hand is left out or simulated."
    )
    refresh_task: TaskName | None = Field(
        default=None, description="Run this task again although its result is stored."
    )
    refresh_cell: str | None = Field(
        default=None,
        description="Of the task run_block, the one cell to run again: its key, in the column cell of "
        "summary.csv. All cells by default.",
    )

    @classmethod
    def of_manifest(cls, study: str, manifest: dict[str, Any]) -> "RunOptions":
        """Return the options that a manifest records."""
        return cls(
            study=study, profile=manifest["profile"], reps=manifest["replicates"], seed=manifest["seed"]
        )

    @property
    def reports(self) -> Path:
        return Path(self.out or REPORTS)

    def recorded(self) -> dict[str, Any]:
        """Return what a manifest records of the options: all that the results depend on."""
        return {"profile": self.profile, "replicates": self.reps, "seed": self.seed}

    def command(self) -> list[str]:
        """Return the words of the command that runs the study with the options that a manifest records."""
        given = self.model_dump(include={"out", "profile", "reps", "seed"}, exclude_none=True)
        return ["dpcost", "run", self.study, *(str(w) for name in given for w in (f"--{name}", given[name]))]


class Option(NamedTuple):
    """An option of a run as a command or a flow has it."""

    name: str
    type: Any
    help: str
    bounds: list[Any]  # as pydantic writes them


def with_options(
    annotation: Callable[[Option], Any], *names: str, last: tuple[str, ...] = ()
) -> Callable[[_Function], _Function]:
    """Decorate a function so that it takes options of a run, all if none is named.

    Typer and Prefect read the signature, where `annotation` says how an option is written. What is in `last`
    has no default, and the last run's is meant.
    """

    def parameter(name: str) -> inspect.Parameter:
        field = RunOptions.model_fields[name]
        option = Option(name, field.annotation, str(field.description), field.metadata)
        default = inspect.Parameter.empty if field.is_required() else field.default
        if name in last:
            option, default = option._replace(type=option.type | None, help=option.help + _LAST), None
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=default, annotation=annotation(option))

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        options = {name: parameter(name) for name in names or RunOptions.model_fields}
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        own = [options.pop(each.name, each) for each in own]
        parameters = [*own, *options.values()]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate
