"""Swarm behavior, the copy on Kaggle: related to the UCI data, and not the same; and a stand-in."""

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from data.standins.flock import FRAMES, simulate


def open_csv(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open the bare file."""
    return open(path, "rb")


PARSERS = {"csv": open_csv}
FRAMES_PER_SIMULATION = FRAMES
stand_in = partial(simulate, label="flocking")
