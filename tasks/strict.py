"""What every part of a file that a person writes has in common."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A part of a study file, or of another file that a person writes: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
