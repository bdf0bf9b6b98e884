"""Swarm behavior, UCI 524: the frames labeled as grouped or not, in the official zip; and a stand-in."""

from dataclasses import replace
from functools import partial

from data.datasets import swarm
from data.formats.archives import open_zip_member
from data.simulations.flock import FRAMES, simulate

DATASET = replace(
    swarm.DATASET,
    name="swarm_grouped",
    title="Swarm behavior: grouped",
    description=(
        "The frames of the flocking data; the label says whether people who saw the frame called it grouped."
    ),
)

PARSERS = {"uci_zip": partial(open_zip_member, member="Grouped.csv")}
FRAMES_PER_SIMULATION = FRAMES
stand_in = partial(simulate, label="grouped")
