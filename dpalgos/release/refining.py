"""Transcripts whose Gaussian releases refine what earlier attempts drew of the same value.

A release at multiplier z of a value of which earlier attempts drew the precision 1/w² draws the rest,
1/z² − 1/w², with its own event, and returns the average of all draws weighted by their precisions: its noise
is that of one draw at z. Privacy does not depend on the values being the same, for each draw is charged.
"""

from dataclasses import dataclass, field

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.release.hardened_noise import SecureTranscript
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


@dataclass
class Draws:
    """What earlier attempts drew at each place: the weighted average and its precision, 1/z²."""

    refined: frozenset[int] = frozenset()
    known: dict[int, tuple[FloatArray, float]] = field(default_factory=dict)
    values: list[tuple[str, bytes]] = field(default_factory=list)  # of the last run, for rehearsals
    place: int = 0
    rehearsal: bool = False  # on made-up rows, whose values may be kept


class Refining(Transcript):
    """A transcript whose Gaussian releases refine what earlier attempts drew."""

    draws: Draws

    def gaussian(
        self,
        value: FloatArray,
        *,
        l2_sensitivity: float | FloatArray,
        noise_multiplier: float,
        label: str,
    ) -> FloatArray:
        """Release a vector: in full, or as the average with what earlier attempts drew of it."""
        draws = self.draws
        place, precision = draws.place, noise_multiplier**-2
        draws.place += 1
        if draws.rehearsal:
            draws.values.append((label, np.asarray(value).tobytes() + np.asarray(l2_sensitivity).tobytes()))
        nothing = np.zeros_like(value), 0.0
        earlier, weight = draws.known.get(place, nothing) if place in draws.refined else nothing
        lacking = precision - weight
        if lacking <= 1e-9 * precision:
            return earlier
        drawn = super().gaussian(
            value, l2_sensitivity=l2_sensitivity, noise_multiplier=lacking**-0.5, label=label
        )
        released = (weight * earlier + lacking * drawn) / precision
        draws.known[place] = released, precision
        return released


class SecureRefining(Refining, SecureTranscript):
    """The same with hardened noise."""


def refining_transcript(
    draws: Draws, relation: Relation, noise: Noise | None = None, inflation: float = 1.0
) -> Refining:
    """Return the transcript of the next attempt; without a source of simulated noise, of hardened noise."""
    transcript = Refining(noise, relation) if noise else SecureRefining(relation, inflation)
    transcript.draws, draws.place, draws.values = draws, 0, []
    return transcript
