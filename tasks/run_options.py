"""The options of a run: the name, type, default, bounds and help of each stand here alone.

The command line, the flows, the server's form, reruns, stored results and manifests are made of `RunOptions`.
"""

import shlex
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from data.store.folders import REPORTS

Profile = Literal["smoke", "standard", "paper"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
TaskName = Literal["fetch", "parquet", "prepare", "run_block", "audit", "collect", "render"]

TASKS: tuple[str, ...] = get_args(TaskName)

BELOW_REPORTS = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$(?!\n)"  # what the server's form takes for a folder
DAYS = 30  # without use, after which a stored result is stale
MAX_REPLICATES = 100_000  # of a cell
MAX_TRIALS = 10_000_000  # of an audit


class RunOptions(BaseModel):
    """The options of a run of one study."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    profile: Profile = Field(
        default="standard",
        description="Amount of computation: smoke checks that everything works, standard runs the whole "
        "grid, paper uses the papers' repetitions.",
    )
    reps: int | None = Field(
        default=None,
        ge=1,
        le=MAX_REPLICATES,
        description="Replicates per cell; default: those of the profile.",
    )
    seed: int = Field(
        default=20191112,
        ge=0,
        description="Random seed; the same seed gives the same results.",
    )
    workers: int | None = Field(
        default=None, ge=1, le=1024, description="Number of parallel blocks; default: one per core."
    )
    out: str | None = Field(
        default=None,
        min_length=1,
        description="Report folder; default: reports/out. On a server: a folder below reports/out.",
        json_schema_extra={"pattern": BELOW_REPORTS},
    )
    offline: bool = Field(
        default=False, description="No network access; unavailable data are left out or simulated."
    )

    @classmethod
    def of_manifest(cls, manifest: dict[str, Any]) -> "RunOptions":
        return cls(profile=manifest["profile"], reps=manifest["replicates"], seed=manifest["seed"])

    @property
    def reports(self) -> Path:
        return Path(self.out or REPORTS)

    def recorded(self) -> dict[str, Any]:
        """Return what a manifest records of the options: all that the results depend on."""
        return {"profile": self.profile, "replicates": self.reps, "seed": self.seed}

    def command(self, study: str) -> str:
        """Return the command that runs a study with the options that a manifest records."""
        options = self.model_dump(include={"out", "profile", "reps", "seed"}, exclude_none=True)
        words = [str(word) for name in options for word in (f"--{name}", options[name])]
        return shlex.join(["dpcost", "run", study, *words])
