"""Swarm behavior, the copy on Kaggle: related to the UCI data, and not the same; and a stand-in."""

from dataclasses import replace
from functools import partial

from data.dataset import Source
from data.datasets import swarm
from data.simulations.flock import FRAMES, simulate

DATASET = replace(
    swarm.DATASET,
    name="swarm_kaggle",
    title="Swarm behavior: the copy on Kaggle",
    description=(
        "A file related to the UCI data and different from them: 23,309 frames, two thirds of them labeled 0."
    ),
    n_rows=23309,
    label="Swarm_Behaviour",
    license="no license is known here",
    citation="Kaggle, Swarm Behavior Classification, Swarm_Behaviour.csv.",
    sources=(
        Source(
            file="swarm/Swarm_Behaviour.csv",
            url="",
            layout="csv",
            note=(
                "Kaggle, Swarm Behavior Classification, after logging in; no address or checksum is "
                "verified here."
            ),
        ),
    ),
)

PARSERS = {"csv": partial(open, mode="rb")}
FRAMES_PER_SIMULATION = FRAMES
stand_in = partial(simulate, label="flocking")
