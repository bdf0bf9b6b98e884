"""Swarm behavior, UCI 524: the frames labeled as flocking or not, in the official zip.

The zip holds three files of the same frames, one per label, of which this is one.
"""

from functools import partial

from data.columns import Column
from data.dataset import Dataset, Source
from data.formats.archives import open_zip_member

_X_PLACE = (
    "bounds: the published range, rounded outwards; center 0; scale: uniform on the published range, 1414/√3"
)
_Y = "bounds: the published range, rounded outwards; center 0; scale: uniform on the published range, 1012/√3"
_MOTION = (
    "bounds: the published range, rounded outwards; center 0; scale: published standard deviations of "
    "boid 1, rounded"
)
_COUNTS = (
    "bounds: counts among the other 199 boids, as published; center and scale: published median and "
    "standard deviation of boid 200"
)

DATASET = Dataset(
    name="swarm",
    kind="frames",
    title="Swarm behavior: flocking",
    description=(
        "One row per frame of 200 boids: place, velocity, the three steering vectors of each boid and "
        "two counts of neighbors. The label says whether people who saw the frame called it flocking."
    ),
    privacy_unit="a frame of the flock",
    n_rows=24016,
    n_boids=200,
    label="Class",
    stand_in="swarm_simulated",
    license="CC BY 4.0",
    citation=(
        "S. Abpeikar, K. Kasmarik, M. Barlow and M. Khan (2020). Swarm Behaviour. UCI Machine Learning "
        "Repository, dataset 524."
    ),
    source=Source(
        file="swarm/swarm+behaviour.zip",
        url="https://archive.ics.uci.edu/static/public/524/swarm+behaviour.zip",
        layout="uci_zip",
        member="Swarm Behavior Data/Flocking.csv",
        note=(
            "No checksum is known, so the parser judges: the header, 24,016 rows, labels 0 and 1, "
            "the published ranges. Other readers of the file drop or patch its last row, which is why a cell "
            "that is no number is a missing value."
        ),
    ),
    columns=(
        Column("x", "float32", "pixels", -1500.0, 1500.0, _X_PLACE, 0.0, 816.0),
        Column("y", "float32", "pixels", -1100.0, 1100.0, _Y, 0.0, 584.0),
        Column("xVel", "float32", "pixels per step", -25.0, 25.0, _MOTION, 0.0, 7.0),
        Column("yVel", "float32", "pixels per step", -25.0, 25.0, _MOTION, 0.0, 7.0),
        Column("xA", "float32", "", -1.5, 1.5, _MOTION, 0.0, 0.5),
        Column("yA", "float32", "", -1.5, 1.5, _MOTION, 0.0, 0.5),
        Column("xS", "float32", "", -5000000.0, 5000000.0, _MOTION, 0.0, 25.0),
        Column("yS", "float32", "", -5000000.0, 5000000.0, _MOTION, 0.0, 25.0),
        Column("xC", "float32", "", -3.0, 3.0, _MOTION, 0.0, 0.6),
        Column("yC", "float32", "", -3.0, 3.0, _MOTION, 0.0, 0.6),
        Column("nAC", "float32", "boids", 0.0, 199.0, _COUNTS, 12.0, 34.0),
        Column("nS", "float32", "boids", 0.0, 199.0, _COUNTS, 0.0, 7.0),
    ),
)

PARSERS = {"uci_zip": partial(open_zip_member, member=DATASET.source.member)}
