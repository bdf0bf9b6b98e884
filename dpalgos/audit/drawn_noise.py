"""Whether noise was drawn as large as its events say, from the adversary's view of a transcript.

Who knows the data knows each private value given the earlier releases, and so the noise that was added to it.
Of a release with the declared law,

    Gaussian      r² has mean 1 (r standardized),          Laplace of scale b      |r| has mean 1,
    in a cube     max |r| has mean k,                      Gaussian sketch         r² has mean 1 (r whitened).

The likelihood ratio of a transcript of Gaussian releases is that of N(μ, 1) against N(0, 1), where μ² is the
sum of the releases' (sensitivity / noise)² at the worst pair. Noise of c times what is declared makes it
N(μ/c, 1): the ε of the events with their multipliers times c is exact at a pair that attains all
sensitivities, which the contract suite has for each release by itself. An upper confidence limit of c is
estimated here.
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
    GaussianEvent,
    GaussianSketchEvent,
    PureEvent,
    RandomizerEvent,
    SampledGaussianEvent,
)
from dpalgos.audit.rates import CONFIDENCE
from dpalgos.audit.trials import ReleasedVector
from dpalgos.typing import FloatArray

_RESOLVED = 1e-6  # of the noise, to which a value must leave its digits
_SQUARES = GaussianEvent | SampledGaussianEvent | GaussianSketchEvent


@dataclass
class DrawnNoise:
    """Sizes of noise by the label of their release, collected over runs."""

    sizes: dict[str, list[FloatArray]] = field(default_factory=dict)
    squares: set[str] = field(default_factory=set)

    def add(self, releases: Sequence[ReleasedVector]) -> None:
        for release in releases:
            event = release.events[0] if release.events else None
            if event is None or (sizes := _sizes(release, event)) is None:
                continue
            self.sizes.setdefault(event.label, []).append(sizes)
            if isinstance(event, _SQUARES):
                self.squares.add(event.label)

    def ratios(self) -> dict[str, float]:
        """Return, by label, an upper confidence limit of the noise scale over the declared one."""
        z = float(scipy.special.ndtri(1 - (1 - CONFIDENCE) / max(len(self.sizes), 1)))
        limits = {}
        for label, parts in self.sizes.items():
            sizes = np.concatenate(parts)
            if len(sizes) < 100:
                continue
            mean = sizes.mean() + z * sizes.std() / np.sqrt(len(sizes))
            limits[label] = float(np.sqrt(mean) if label in self.squares else mean)
        return limits


def epsilon_of_drawn_noise(events: Sequence[Event], ratios: dict[str, float], delta: float) -> float:
    """Return the ε that events prove with the noise that was drawn, where it is smaller than declared."""
    return certified_epsilon(
        [_scaled(event, min(ratios.get(event.label, 1.0), 1.0)) for event in events], delta
    )


def _scaled(event: Event, ratio: float) -> Event:
    if isinstance(event, GaussianEvent | SampledGaussianEvent):
        return replace(event, noise_multiplier=event.noise_multiplier * ratio)
    if isinstance(event, PureEvent) and not isinstance(event, RandomizerEvent | BoundedRangeEvent):
        return replace(event, epsilon=event.epsilon / ratio)
    return event


def _sizes(release: ReleasedVector, event: Event) -> FloatArray | None:
    """Return sizes of a release's noise with mean 1 if it has its declared law; None of other kinds."""
    value, published = release.value, release.published
    if isinstance(event, GaussianSketchEvent):
        distance = np.einsum("rij,rpi,rpj->r", np.linalg.inv(value), published, published)
        return np.asarray(distance / (event.n_rows * value.shape[-1]))
    if isinstance(event, RandomizerEvent) or published.dtype.kind != "f" or published.shape != value.shape:
        return None
    if isinstance(event, GaussianEvent | SampledGaussianEvent):
        scale = np.asarray(event.noise_multiplier * np.asarray(event.l2_sensitivity))
    elif isinstance(event, PureEvent):
        scale = np.asarray(np.asarray(event.sensitivity) / event.epsilon)
    else:
        return None
    known = (np.abs(value) < _RESOLVED / np.finfo(float).eps * scale) & np.isfinite(published)
    residual = np.abs(published - value) / scale
    if isinstance(event, BoxNoiseEvent):
        return np.asarray(residual.max(axis=0)[known.all(axis=0)] / len(value))
    return np.asarray(residual[known] ** 2 if isinstance(event, _SQUARES) else residual[known])
