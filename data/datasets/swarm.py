"""Swarm behavior, UCI 524: the frames labeled as flocking or not, in the official zip; and a stand-in.

The zip holds three files of the same frames, one per label; `swarm_aligned` and `swarm_grouped` read the
others.
"""

from functools import partial

from data.formats.delimited import open_zip_member
from data.standins.flock import FRAMES, simulate

PARSERS = {"uci_zip": partial(open_zip_member, member="Flocking.csv")}
FRAMES_PER_SIMULATION = FRAMES
stand_in = partial(simulate, label="flocking")
