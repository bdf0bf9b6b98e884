"""Whether the drawn noise was as large as the events state, from the adversary's view of a run.

An adversary who knows the data knows each private value given the earlier releases, and so its noise. Let a
release have k numbers, and let r be its noise over the declared scale. If the noise is as declared, then

    Gaussian      r² / 2 is Gamma(1/2),        Laplace                    |r| is Gamma(1),
    in a cube     max |r| is Gamma(k),         sketch of N rows, r white  Σ r² / 2 is Gamma(N k / 2).

If the noise is c times the declared noise, a sum over runs is a Gamma variable times a power of c. The
quantile of the Gamma variable gives an exact upper confidence limit of c.

A selection with Gumbel noise releases no number, but the winners of many runs show its noise. Take the
likelihood ratio of half of the declared noise against c times the declared noise. If the noise is c times the
declared noise or more, the mean of this ratio is at most 1. By Markov's inequality the ratio exceeds 1/α with
probability at most α.

The likelihood ratio of a run of Gaussian releases is that of N(μ, 1) against N(0, 1). Here μ² is the
sum of the releases' (sensitivity / noise)² at the worst pair. With c times the declared noise it becomes that
of N(μ/c, 1). At a pair that attains all sensitivities, the ε of the events with c times their multipliers is
exact. The contract suite shows for each release by itself that its sensitivity is attained. Estimating c
takes far fewer runs than counting how often the likelihood ratio is large. Counting shows a factor of 2.14 in
a hundred thousand runs at ε = 0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Cube, Event, GaussianNoise, Selection, Sketch
from dpalgos.audit.distinguishers import log_density
from dpalgos.audit.rates import CONFIDENCE
from dpalgos.audit.trials import ReleasedVector
from dpalgos.typing import FloatArray

_RESOLVED = 1e-6  # of the noise; a larger value leaves too few digits to it
_FEWEST = 100
_HALF, _REJECTED = 0.5, (0.99, 0.75)  # of the declared noise of a selection


@dataclass
class DrawnNoise:
    """The drawn noise over runs, by the label of its release.

    ``gamma`` holds the number and the sum of its Gamma variables, their shape and power. For selections,
    ``evidence`` is the logarithm of each likelihood ratio.
    """

    gamma: dict[str, tuple[int, float, float, float]] = field(default_factory=dict)
    evidence: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, releases: Sequence[ReleasedVector]) -> None:
        for release in releases:
            event = release.events[0] if release.events else None
            with np.errstate(all="ignore"):  # from values that overflowed
                if isinstance(event, Selection) and event.by != "peeling":
                    self._add_selection(release, event)
                elif event is not None and (law := _sizes(release, event)) is not None:
                    sizes, shape, power = law
                    count, total, *_ = self.gamma.get(event.label, (0, 0.0))
                    self.gamma[event.label] = count + len(sizes), total + float(sizes.sum()), shape, power

    def _add_selection(self, release: ReleasedVector, event: Selection) -> None:
        if release.by_column:
            return
        laws = (replace(release, events=(event.scaled(factor),)) for factor in (_HALF, *_REJECTED))
        densities = [log_density(law, by_magnitude=event.by_magnitude) for law in laws]
        known = [each for each in densities if each is not None]
        if known:
            ratios = [np.nan_to_num(known[0] - each, nan=0, posinf=0, neginf=0).sum() for each in known[1:]]
            self.evidence[event.label] = self.evidence.get(event.label, np.zeros(len(ratios))) + ratios

    def ratios(self) -> dict[str, float]:
        """Return, by label, an upper confidence limit of the noise scale over the declared one."""
        tail, limits = (1 - CONFIDENCE) / max(len(self.gamma) + len(self.evidence), 1), {}
        for label, (count, total, shape, power) in self.gamma.items():
            if count >= _FEWEST:
                limits[label] = float(total / scipy.special.gammaincinv(shape * count, tail)) ** power
        for label, evidence in self.evidence.items():
            for factor, found in zip(_REJECTED, evidence, strict=True):
                if found > -np.log(tail):
                    limits[label] = factor
        return limits


def epsilon_of_drawn_noise(events: Sequence[Event], ratios: dict[str, float], delta: float) -> float:
    """Return the ε that the events prove with the drawn noise, if it is smaller than declared."""
    return certified_epsilon(
        [event.scaled(min(ratios.get(event.label, 1.0), 1.0)) for event in events], delta
    )


def _sizes(release: ReleasedVector, event: Event) -> tuple[FloatArray, float, float] | None:
    """Return Gamma variables of a release's noise, and their declared shape and power."""
    value, published = release.value, release.published
    if isinstance(event, Sketch):
        distance = np.einsum("rij,rpi,rpj->r", np.linalg.inv(value), published, published)
        return np.asarray(distance / 2), event.n_rows * value.shape[-1] / 2, 0.5
    scale = event.noise_scale
    if scale is None or published.dtype.kind != "f" or published.shape != value.shape:
        return None
    is_resolved = (np.abs(value) < _RESOLVED / np.finfo(float).eps * scale) & np.isfinite(published)
    sizes = event.negative_log_density((published - value) / scale)
    if isinstance(event, Cube):
        return sizes[0, is_resolved.all(axis=0)], len(value), 1.0
    half = 0.5 if isinstance(event, GaussianNoise) else 1.0
    return sizes[is_resolved], half, half
