"""Spending a planned budget: one call adds the noise of a release, records its event and counts it.

A plan says for each release how often it is made and with how much noise. An estimator then spends it release
by release. A release that is not in the plan, or is made once too often, is refused before noise is drawn.

A threshold is found by a binary search: about a target number of rows exceeds it. A count of rows above a
public threshold moves by 1 when a row is replaced. Each halving of m candidates is one Gaussian release of a
count: ⌈log₂ m⌉ of them for any data. The result errs by about the noise of one count. The target should
exceed that noise.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import gaussians, laplace
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.release.declared import Bounded, Release
from dpalgos.release.symmetric import svec, unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray, IntArray, Number


class Noisy(NamedTuple):
    """A released value, and the standard deviation of the noise in each of its entries.

    A number per replicate (R,), or one number where a fit is of one replicate.
    """

    value: FloatArray
    std: FloatArray


class Planned(NamedTuple):
    """The share of a release in a plan, for all its ``times`` together."""

    share: float
    times: int = 1

    def times_share(self, factor: float) -> "Planned":
        """Return the same with a factor to the share."""
        return self._replace(share=factor * self.share)


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def planned_events(
    epsilon: float, delta: float, plan: Mapping[Release, Planned], *, pure: bool = False
) -> dict[str, Event]:
    """Return the planned releases by label, as events of sensitivity 1."""
    shares = {release.label: planned.share for release, planned in plan.items()}
    budget = SplitBudget(epsilon=epsilon, delta=delta, shares=shares)
    times = {release.label: planned.times for release, planned in plan.items()}
    if pure:
        return {label: laplace(budget.split_epsilon(label, k), k) for label, k in times.items()}
    return {label: gaussians(budget.gaussian_multiplier(label, k), k) for label, k in times.items()}


class Spend:
    """Makes the planned releases of a run.

    Parameters
    ----------
    transcript : Transcript
    planned : mapping of str to Event
        Label → the releases as events of sensitivity 1, whose noise and count the plan allows.
    made : mapping of str to int
        Label → how often it was made before.
    """

    def __init__(
        self, transcript: Transcript, planned: Mapping[str, Event], made: Mapping[str, int] | None = None
    ) -> None:
        self._transcript, self._planned = transcript, planned
        self._made: Counter[str] = Counter(made or {})

    @classmethod
    def of_plan(
        cls,
        transcript: Transcript,
        epsilon: float,
        delta: float,
        plan: Mapping[Release, Planned],
        *,
        pure: bool = False,
    ) -> Self:
        """Return what spends a plan whose shares sum to 1: of μ², or with ``pure`` of ε, by Laplace noise."""
        return cls(transcript, planned_events(epsilon, delta, plan, pure=pure))

    def __contains__(self, release: Release) -> bool:
        return release.label in self._planned

    def times(self, release: Release) -> int:
        """Return how often the plan has a release."""
        return _count(self._planned[release.label]) if release in self else 0

    def is_left(self, release: Release) -> bool:
        """Return whether the plan allows the release once more."""
        return self._made[release.label] < self.times(release)

    def is_gaussian(self, release: Release) -> bool:
        return isinstance(self._planned[release.label], GaussianEvent)

    def multiplier(self, release: Release) -> float:
        """Return the noise multiplier that the plan gives a Gaussian release."""
        return float(getattr(self._planned[release.label], "noise_multiplier", np.nan))

    def epsilon(self, release: Release) -> float:
        """Return the ε that the plan gives a release with Laplace noise, or noise in a cube."""
        return float(getattr(self._planned[release.label], "epsilon", np.nan))

    def __call__(self, release: Release, query: Bounded, *, in_place_of: Release | None = None) -> Noisy:
        """Release a query, whose value is (…, R); with one replicate, the last axis may be missing.

        ``in_place_of`` names the planned release that is not made for this one, at the same cost.
        """
        planned = self._allow(in_place_of or release)
        transcript, label, (value, sensitivity, formula) = self._transcript, release.label, query
        transcript.formulas[label] = formula
        columns = np.reshape(value, (-1, transcript.n_replicates)).astype(float, copy=False)
        noisy = transcript.add_noise(columns, planned, sensitivity, label)
        std = transcript.noise_std(planned, sensitivity, len(columns))
        return Noisy(noisy.reshape(np.shape(value)), std)

    def symmetric(self, release: Release, query: Bounded, *, in_place_of: Release | None = None) -> Noisy:
        """Release symmetric matrices, (R, p, p) or one (p, p), whose Frobenius norm moves by the sensitivity.

        The upper triangles are released. svec is an isometry (:mod:`dpalgos.release.symmetric`): the noise
        has standard deviation ``std`` on the diagonal and ``std`` / √2 off it.
        """
        p, shape = query.value.shape[-1], query.value.shape
        upper = query._replace(value=svec(query.value.reshape(-1, p, p)))
        released = self(release, upper, in_place_of=in_place_of)
        return Noisy(unsvec(released.value, p).reshape(shape), released.std)

    def search(
        self, release: Release, candidates: FloatArray, target: float, above: Callable[[int], float]
    ) -> float:
        """Release the lowest candidate (m,), ascending, that at most about ``target`` rows exceed.

        ``above`` returns the number of rows that exceed a candidate.
        """
        chosen = self.searches(
            release, len(candidates), lambda middle: np.array([above(int(middle[0]))]), (1,), target
        )
        return float(candidates[chosen[0]])

    def searches(
        self,
        release: Release,
        n_candidates: int,
        above: Callable[[IntArray], FloatArray],
        shape: tuple[int, ...],
        target: Number,
    ) -> IntArray:
        """Release for p searches at once the lowest candidate that at most about ``target`` rows exceed.

        ``shape`` is (p,), or (p, R) with replicates. ``above`` brings one candidate per search to counts of
        rows, both of that shape.
        """
        low, high = np.zeros(shape, dtype=int), np.full(shape, n_candidates - 1)
        for _ in range(counts_needed(n_candidates)):
            middle = (low + high) // 2
            too_many = self(release, release.lemma.of(above(middle), shape[0])).value > target
            low = np.where(too_many, np.minimum(middle + 1, high), low)
            high = np.where(too_many, high, middle)
        return high

    def note(self, name: str, value: object) -> None:
        """Keep a diagnostic of one replicate; it must follow from released or public quantities."""
        self._transcript.note(name, np.asarray(value)[None])

    def check_complete(self) -> None:
        """Check that each planned release was made as often as planned."""
        planned = {label: _count(event) for label, event in self._planned.items()}
        if dict(self._made) != planned:
            raise RuntimeError(f"the releases made, {dict(self._made)}, are not the planned ones, {planned}")

    def _allow(self, release: Release) -> Event:
        planned = self._planned.get(release.label)
        if planned is None or self._made[release.label] >= _count(planned):
            raise RuntimeError(f"the release {release.label!r} exceeds the plan, which allows {planned}")
        self._made[release.label] += 1
        return planned


def _count(event: Event) -> int:
    return int(getattr(event, "count", 1))
