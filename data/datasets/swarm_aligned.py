"""Swarm behavior, UCI 524: the frames labeled as aligned or not, in the official zip; and a stand-in."""

from functools import partial

from data.formats.delimited import open_zip_member
from data.standins.flock import FRAMES, simulate

PARSERS = {"uci_zip": partial(open_zip_member, member="Aligned.csv")}
FRAMES_PER_SIMULATION = FRAMES
stand_in = partial(simulate, label="aligned")
