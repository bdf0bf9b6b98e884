"""Base class of the parts of files that people write."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A part of a study file, or of another file that a person writes: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
