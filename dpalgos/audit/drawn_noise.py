"""Whether noise was drawn as large as its events say, from the adversary's view of a transcript.

Who knows the data knows each private value given the earlier releases, and so the noise that was added to it.
Of a release with the declared law and k numbers, with r the noise over its declared scale,

    Gaussian      r² / 2 is Gamma(1/2),        Laplace                    |r| is Gamma(1),
    in a cube     max |r| is Gamma(k),         sketch of N rows, r white  Σ r² / 2 is Gamma(N k / 2),

so that a sum over runs is a Gamma variable times a power of c where the noise is c times what is declared,
and its quantile gives an exact upper confidence limit of c.

A selection with Gumbel noise hides no number, but the winners of many runs show its noise. The likelihood
ratio of half of the declared noise against c times it has mean 1 at most where the noise is that or more, so
that by Markov's inequality it exceeds 1/α with probability α at most.

The likelihood ratio of a transcript of Gaussian releases is that of N(μ, 1) against N(0, 1), where μ² is the
sum of the releases' (sensitivity / noise)² at the worst pair. Noise of c times what is declared makes it
N(μ/c, 1): the ε of the events with their multipliers times c is exact at a pair that attains all
sensitivities, which the contract suite has for each release by itself. To estimate c takes far fewer runs
than to count how often that likelihood ratio is large, which shows a factor of 2.14 in a hundred thousand
runs at ε = 0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import (
    BoundedRangeEvent,
    BoxNoiseEvent,
    Event,
    GaussianNoiseEvent,
    GaussianSketchEvent,
)
from dpalgos.audit.distinguishers import log_density
from dpalgos.audit.rates import CONFIDENCE
from dpalgos.audit.trials import ReleasedVector
from dpalgos.typing import FloatArray

_RESOLVED = 1e-6  # of the noise, to which a value must leave its digits
_FEWEST = 100
_HALF, _REJECTED = 0.5, (0.99, 0.75)  # of the declared noise of a selection


@dataclass
class DrawnNoise:
    """Gamma variables of the noise by the label of its release, and their shape and power, over runs.

    Of selections ``evidence`` is the logarithm of each likelihood ratio.
    """

    sizes: dict[str, list[FloatArray]] = field(default_factory=dict)
    shapes: dict[str, float] = field(default_factory=dict)
    powers: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, releases: Sequence[ReleasedVector]) -> None:
        for release in releases:
            event = release.events[0] if release.events else None
            if isinstance(event, BoundedRangeEvent):
                self._add_selection(release, event)
                continue
            with np.errstate(all="ignore"):  # of values that overflowed
                found = _sizes(release, event) if event else None
            if event is None or found is None:
                continue
            sizes, self.shapes[event.label], self.powers[event.label] = found
            self.sizes.setdefault(event.label, []).append(sizes)

    def _add_selection(self, release: ReleasedVector, event: BoundedRangeEvent) -> None:
        def log_likelihood(factor: float) -> FloatArray | None:
            of_factor = replace(release, events=(event.scaled(factor),))
            return log_density(of_factor, by_magnitude=event.by_magnitude)

        with np.errstate(all="ignore"):
            found = [each for each in map(log_likelihood, (_HALF, *_REJECTED)) if each is not None]
        if release.by_column or not found:
            return
        ratios = [np.nan_to_num(found[0] - other, nan=0, posinf=0, neginf=0).sum() for other in found[1:]]
        self.evidence[event.label] = self.evidence.get(event.label, np.zeros(len(ratios))) + ratios

    def ratios(self) -> dict[str, float]:
        """Return, by label, an upper confidence limit of the noise scale over the declared one."""
        tail, limits = (1 - CONFIDENCE) / max(len(self.sizes) + len(self.evidence), 1), {}
        for label, parts in self.sizes.items():
            sizes = np.concatenate(parts)
            if len(sizes) < _FEWEST:
                continue
            limit = float(sizes.sum() / scipy.special.gammaincinv(self.shapes[label] * len(sizes), tail))
            limits[label] = limit ** self.powers[label]
        for label, evidence in self.evidence.items():
            for factor, found in zip(_REJECTED, evidence, strict=True):
                if found > -np.log(tail):
                    limits[label] = factor
        return limits


def epsilon_of_drawn_noise(events: Sequence[Event], ratios: dict[str, float], delta: float) -> float:
    """Return the ε that events prove with the noise that was drawn, where it is smaller than declared."""
    return certified_epsilon(
        [event.scaled(min(ratios.get(event.label, 1.0), 1.0)) for event in events], delta
    )


def _sizes(release: ReleasedVector, event: Event) -> tuple[FloatArray, float, float] | None:
    """Return Gamma variables of a release's noise, their shape under its declared law, and their power."""
    value, published = release.value, release.published
    if isinstance(event, GaussianSketchEvent):
        distance = np.einsum("rij,rpi,rpj->r", np.linalg.inv(value), published, published)
        return np.asarray(distance / 2), event.n_rows * value.shape[-1] / 2, 0.5
    scale = event.noise_scale
    if scale is None or published.dtype.kind != "f" or published.shape != value.shape:
        return None
    known = (np.abs(value) < _RESOLVED / np.finfo(float).eps * scale) & np.isfinite(published)
    sizes = event.surprise((published - value) / scale)
    if isinstance(event, BoxNoiseEvent):
        return sizes[0, known.all(axis=0)], len(value), 1.0
    return (sizes[known], 0.5, 0.5) if isinstance(event, GaussianNoiseEvent) else (sizes[known], 1.0, 1.0)
