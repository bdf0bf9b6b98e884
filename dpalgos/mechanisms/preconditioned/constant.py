"""The constant of a generalized linear model, from a released mean response.

Responses are numbers up to 1, indicators of classes, or counts cut at a level. With an offset the constant
follows from the mean of e^offset, too: exactly for counts, nearly for rare events.

There are two ways to spend on it.

Next to other releases: noise is Gaussian, and shares are of μ². Counts are cut at a level that about 3 % of
them exceed, which is found by a search that releases four numbers of counts above a candidate.

Alone, where rows are too few for slopes: noise is Laplace noise, and shares are of ε, which add up. One
number that a neighbor moves by Δ then has noise of standard deviation √2 Δ/ε, less than the Δ/μ of Gaussian
noise (14 Δ and 36 Δ at ε = .1, δ = 10⁻⁶). Counts are cut at 6 (e^m − 1), where m is the released mean of
log(1 + y); for that mean they are cut at 2¹⁵, or lower, so that the scale of its noise is at most a third.
From so few rows one mean says more than four numbers of rows above a level.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.mechanisms.sensitivity import histogram, interval
from dpalgos.models.families import Family
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import FloatArray

CONSTANT, RESPONSES_ABOVE, EXPOSURE = "mean response", "responses above a level", "mean exposure"
LARGEST_RESPONSE, LOGARITHM = "largest response", "mean logarithm"
_COUNTS = 2.0 ** np.arange(16) - 0.5
_LARGE_COUNTS, _MOST_LARGE, _DETECTABLE_COUNT = 0.03, 0.25, 4.0  # of the rows; and times the noise of a count
_LARGEST_COUNT, _CUT_AT = 2.0**15, 6.0  # the second times what the mean logarithm says
_LARGEST_SCALE = 1 / 3  # of the noise in a mean logarithm
# Shares of μ²: a number over nμ, squared; at least and at most.
_MEAN_SHARE, _LEVEL_SHARE, _EXPOSURE_SHARE = (30.0, 0.02, 0.6), (24.0, 0.01, 0.3), (10.0, 0.005, 0.05)
_RATE_SHARE = 30.0, 0.01, 0.1
_ALONE = {CONSTANT: 0.6, LOGARITHM: 0.4, EXPOSURE: 0.25}  # of what is spent on those that are released


def constant_shares(size: float, *, has_offset: bool) -> dict[str, float]:
    """Return the shares of μ² that a mean of counts takes where ``size`` is nμ: more the fewer rows."""
    parts = {CONSTANT: _MEAN_SHARE, LARGEST_RESPONSE: _LEVEL_SHARE}
    parts |= {EXPOSURE: _EXPOSURE_SHARE} if has_offset else {}
    return {
        part: float(np.clip((rate / size) ** 2, least, most)) for part, (rate, least, most) in parts.items()
    }


def rate_share(size: float) -> float:
    """Return the share of μ² that a mean of bounded responses takes where ``size`` is nμ."""
    return float(np.clip((_RATE_SHARE[0] / size) ** 2, *_RATE_SHARE[1:]))


def lone_constant_shares(*, of_counts: bool, has_offset: bool) -> dict[str, float]:
    """Return the shares of ε where nothing but the constant is released."""
    parts = [CONSTANT, *[LOGARITHM] * of_counts, *[EXPOSURE] * has_offset]
    total = sum(_ALONE[part] for part in parts)
    return {part: _ALONE[part] / total for part in parts}


@dataclass(frozen=True)
class ConstantNoise:
    """The noise of a constant's releases: Gaussian next to others, Laplace noise where it is ``alone``."""

    transcript: Transcript
    budget: SplitBudget
    alone: bool

    def released(
        self, value: FloatArray, *, l1_sensitivity: FloatArray, l2_sensitivity: FloatArray, label: str
    ) -> tuple[FloatArray, FloatArray]:
        """Release numbers (k, R); return them and the standard deviation of their noise, (R,)."""
        if self.alone:
            epsilon = self.budget.split_epsilon(label)
            released = self.transcript.laplace(
                value, l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label
            )
            return released, np.sqrt(2) * l1_sensitivity / epsilon
        multiplier = self.budget.gaussian_multiplier(label)
        released = self.transcript.gaussian(
            value, l2_sensitivity=l2_sensitivity, noise_multiplier=multiplier, label=label
        )
        return released, self.transcript.noise_std(l2_sensitivity, multiplier, len(value))

    def released_mean(
        self, values: Grouped[FloatArray], sample: Sample, sensitivity: FloatArray, label: str
    ) -> tuple[FloatArray, FloatArray]:
        """Release the mean of a number per row, (n, 1) or (n, R), and return it and its noise, both (R,)."""

        def part(group: Group, own: FloatArray) -> FloatArray:
            return np.asarray((own * group.weights).sum(axis=0)[None])

        released, std = self.released(
            values.total((1, sample.n_replicates), part) / sample.n_rows,
            l1_sensitivity=sensitivity,
            l2_sensitivity=sensitivity,
            label=label,
        )
        return released[0], std


def private_constant(noise: ConstantNoise, sample: Sample, family: Family) -> FloatArray:
    """Release the mean response, and return the predictor of which it is the mean, (R,) or (K, R).

    Counts are cut at a level that is released first. A mean below its noise counts as that.
    """
    n_rows, classes = sample.n_rows, bool(family.classes)
    largest: FloatArray = np.ones(sample.n_replicates)
    if not np.isfinite(family.residual_bound):
        largest = _mean_level(noise, sample) if noise.alone else _searched_level(noise, sample)

    def part(group: Group, y: FloatArray) -> FloatArray:
        cut = np.minimum(y, largest[group.replicates])
        weights = group.weights[:, None] if classes else group.weights
        return np.asarray((cut * weights).sum(axis=0))

    encoded = sample.grouped(lambda group: np.maximum(family.encode(group.y), 0))
    total = encoded.total((*family.classes, sample.n_replicates), part)
    released, std = noise.released(
        np.atleast_2d(total / n_rows),
        # Of classes two indicators change.
        l1_sensitivity=interval(2 if classes else largest, n_rows),
        l2_sensitivity=histogram(1, n_rows) if classes else interval(largest, n_rows),
        label=CONSTANT,
    )
    mean = np.maximum(released, np.maximum(std, np.finfo(float).tiny))
    if classes:
        return np.asarray(np.log(mean / mean.sum(axis=0)))
    if np.isfinite(family.residual_bound):
        mean = np.minimum(mean, np.maximum(1 - std, 0.5))
        return np.asarray(np.log(mean / (1 - mean))[0])
    return np.asarray(np.log(mean)[0])


def _searched_level(noise: ConstantNoise, sample: Sample) -> FloatArray:
    multiplier = noise.budget.gaussian_multiplier(LARGEST_RESPONSE, counts_needed(len(_COUNTS)))
    wanted = np.maximum(_LARGE_COUNTS * sample.n_rows, _DETECTABLE_COUNT * multiplier)
    return search_level(
        noise.transcript,
        _COUNTS,
        np.minimum(wanted, _MOST_LARGE * sample.n_rows),
        sample.grouped(lambda group: np.asarray(group.y[:, None] * group.weights)),
        noise_multiplier=multiplier,
        label=RESPONSES_ABOVE,
    )


def _mean_level(noise: ConstantNoise, sample: Sample) -> FloatArray:
    within = _LARGEST_SCALE * sample.n_rows * noise.budget.split_epsilon(LOGARITHM)
    largest = np.minimum(within, np.log1p(_LARGEST_COUNT))
    logarithms = sample.grouped(
        lambda group: np.minimum(np.log1p(np.maximum(group.y, 0))[:, None], largest[group.replicates])
    )
    released, std = noise.released_mean(logarithms, sample, interval(largest, sample.n_rows), LOGARITHM)
    typical = np.expm1(np.clip(released, np.minimum(std, largest), largest))
    return np.asarray(np.maximum(_CUT_AT * typical, 1.0))


def private_typical_offset(noise: ConstantNoise, sample: Sample) -> FloatArray:
    """Release the mean of e^offset, and return its logarithm, (R,).

    A row whose constant, the last column, is 0 counts as left out. e^offset over its public upper bound,
    times a constant in [0, 1], lies in [0, 1].
    """
    assert sample.offset_bounds is not None
    low, high = sample.offset_bounds

    exposures = sample.grouped(lambda group: np.exp(group.offset - high) * np.clip(group.X[:, -1:], 0, 1))
    released, std = noise.released_mean(exposures, sample, interval(1.0, sample.n_rows), EXPOSURE)
    least = np.maximum(std, np.exp(low - high))
    return np.asarray(high + np.log(np.clip(released, np.minimum(least, 1), 1)))
