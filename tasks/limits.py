"""The largest settings of a study, a run and an audit; importing this costs nothing."""

from typing import Literal, get_args

Profile = Literal["smoke", "standard", "paper"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

DEFAULT_SEED = 20191112
MAX_REPLICATES = 100_000  # of a cell
MAX_TRIALS = 10_000_000  # of an audit
MAX_WORKERS = 1024  # blocks at a time
