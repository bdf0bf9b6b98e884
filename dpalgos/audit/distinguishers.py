"""Distinguishers: scores of a run that tend to be large on a dataset D and small on its neighbor D'.

If releases follow the distributions that their events state, the likelihood ratio is the best score (Neyman &
Pearson). The other scores look for faults that the events do not state:

- noise that is used twice or missing;
- values that are not finite, or that repeat exactly;
- estimates that do not follow from the releases: each number, and a quadratic discriminant of all.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.accounting.other_events import RandomReport, SampledGaussian, Selection, Sketch
from dpalgos.audit.trials import ReleasedVector, Runs
from dpalgos.typing import FloatArray

_TINY = 1e-30
_SUMMARIES: tuple[Callable[..., FloatArray], ...] = (np.mean, np.min, np.max)
_FAR = 20.0
_DECIMALS = 9
_HUGE = 1e100
_COORDINATES = 20


def log_density(release: ReleasedVector, *, by_magnitude: bool = False) -> FloatArray | None:
    """Return the log density of a published release given its private value, shape (R,).

    Terms that two neighboring datasets share are omitted. If the event does not determine a density, as for a
    quantile, the result is None. A selection takes one candidate after another with P ∝ exp(ε score /
    (2 sensitivity)). If ``by_magnitude``, |score| replaces the score.
    """
    event = _event(release)
    value, published = release.value, release.published
    if published.dtype.kind in "iu":
        return _log_selection(np.abs(value) if by_magnitude else value, np.atleast_2d(published), event)
    scale = _scale(release)
    if event and scale is not None:
        negative_log_density = event.negative_log_density((published - value) / scale).sum(axis=0)
        return np.asarray(-negative_log_density - len(value) * np.log(scale))
    if isinstance(event, RandomReport):
        return _log_reports(value, published, event)
    if isinstance(event, Sketch):
        inverse = np.linalg.inv(value)
        moments = np.swapaxes(published, -1, -2) @ published
        log_determinant = np.linalg.slogdet(value)[1]
        distance = np.einsum("rij,rij->r", inverse, moments)
        return np.asarray(-(distance + event.n_rows * log_determinant) / 2)
    return None


def declared_scores(runs: Runs) -> dict[str, FloatArray]:
    """Return the log-likelihood ratio of all releases, and that of the releases of each label.

    An event does not state whether a selection used scores or their magnitudes. Therefore both are tried.
    """
    scores = _likelihood_ratios(runs, by_magnitude=False)
    if any(release.published.dtype.kind in "iu" for release in runs.first):
        magnitudes = _likelihood_ratios(runs, by_magnitude=True)
        scores |= {f"{name}, by magnitude": score for name, score in magnitudes.items()}
    return scores


def _likelihood_ratios(runs: Runs, *, by_magnitude: bool) -> dict[str, FloatArray]:
    total: FloatArray = np.zeros(runs.answer.shape[-1])
    by_label: dict[str, FloatArray] = {}
    for first, second in zip(runs.first, runs.second, strict=True):
        densities = [log_density(release, by_magnitude=by_magnitude) for release in (first, second)]
        if densities[0] is None or densities[1] is None:
            continue
        event = _event(first)
        ratio = np.nan_to_num(densities[0] - densities[1], nan=0.0, posinf=1e300, neginf=-1e300)
        label = f"likelihood of {event.label!r}" if event else "likelihood"
        by_label[label] = by_label.get(label, 0.0 * total) + ratio
        total = total + ratio
    return {"likelihood": total, **(by_label if len(by_label) > 1 else {})}


class Scores:
    """All distinguishers. They are trained on separate runs, before the trials that count.

    Scores are rounded: the last bits of floating-point noise must not count. These bits reveal the value that
    the noise was added to, in every estimator (Mironov 2012). Floating-point-safe samplers are the remedy.
    """

    def __init__(self, first: Runs, second: Runs) -> None:
        self._length = max(len(first.answer), len(second.answer))
        answers = [self._answer(runs) for runs in (first, second)]
        with np.errstate(all="ignore"):
            self._discriminant = _Discriminant(*map(self._features, (first, second), answers))
        self._most_frequent = [_most_frequent(answer) for answer in answers]

    def __call__(self, runs: Runs) -> dict[str, FloatArray]:
        """Return the scores of a chunk of runs by name, (R,)."""
        answer = self._answer(runs)
        with np.errstate(all="ignore"):
            scores = {
                **declared_scores(runs),
                "repeated noise": _log_ratio(_least_distance(runs.second), _least_distance(runs.first)),
                "size of the noise": _log_ratio(_least_size(runs.second), _least_size(runs.first)),
                "values that are not finite": _n_not_finite(runs, answer),
                "the estimate": self._discriminant(self._features(runs, answer)),
                **runs.others,
            }
            if not runs.first:  # a function of others has no events
                repeats = [(answer == value).sum(axis=0) for value in self._most_frequent]
                scores["values that repeat"] = repeats[0] - repeats[1]
                for j, number in enumerate(answer[:_COORDINATES]):
                    scores[f"number {j + 1} of the output"] = number
                    scores[f"size of number {j + 1} of the output"] = np.abs(number)
        n = answer.shape[1]
        return {
            name: np.asarray(np.round(np.nan_to_num(np.broadcast_to(each, n), nan=0.0), _DECIMALS))
            for name, each in scores.items()
        }

    def _answer(self, runs: Runs) -> FloatArray:
        """Return the estimates (k, R), cut or padded to the length of the runs of the training."""
        answer = runs.answer[: self._length]
        return np.concatenate([answer, np.full((self._length - len(answer), answer.shape[1]), np.nan)])

    def _features(self, runs: Runs, answer: FloatArray) -> FloatArray:
        features = [answer]
        for release in runs.first:
            if _law_is_unknown(release):
                flat = _by_trial(release)
                some = flat if len(flat) else np.zeros((1, flat.shape[1]))
                features.extend(summary(some, axis=0)[None, :] for summary in _SUMMARIES)
        joined = np.concatenate(features).astype(float)
        return np.asarray(np.clip(np.nan_to_num(joined, nan=0.0), -_HUGE, _HUGE))


class _Discriminant:
    """A quadratic discriminant of the estimate and of releases whose distribution no event determines."""

    def __init__(self, first: FloatArray, second: FloatArray) -> None:
        both = np.concatenate([first, second], axis=1)
        self._center = np.median(both, axis=1, keepdims=True)
        spread = np.subtract(*np.percentile(both, [75, 25], axis=1))[:, None]
        self._spread = np.where(spread > 0, spread, 1.0)
        classes = [self._expand(features) for features in (first, second)]
        within = np.atleast_2d(sum(np.cov(each) for each in classes) / 2)
        ridge = 1e-6 * np.trace(within) / len(within) + _TINY
        apart = classes[0].mean(axis=1) - classes[1].mean(axis=1)
        self._weights = np.linalg.solve(within + ridge * np.eye(len(apart)), apart)

    def __call__(self, features: FloatArray) -> FloatArray:
        return np.asarray(self._weights @ self._expand(features))

    def _expand(self, features: FloatArray) -> FloatArray:
        z = np.clip((features - self._center) / self._spread, -_FAR, _FAR)
        return np.concatenate([z, z**2])


def _most_frequent(values: FloatArray) -> FloatArray:
    """Return each entry's most frequent value, (k, 1); NaN if no value occurs twice."""
    columns = np.full((len(values), 1), np.nan)
    for j, row in enumerate(values):
        known, counts = np.unique(row[np.isfinite(row)], return_counts=True)
        if counts.size and counts.max() > 1:
            columns[j] = known[np.argmax(counts)]
    return columns


def _n_not_finite(runs: Runs, answer: FloatArray) -> FloatArray:
    released = [_by_trial(release) for release in runs.first]
    return np.asarray(sum((~np.isfinite(each)).sum(axis=0) for each in [answer, *released]))


def _log_ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    return np.asarray(np.log(numerator + _TINY) - np.log(denominator + _TINY))


def _event(release: ReleasedVector) -> Event | None:
    return release.events[0] if release.events else None


def _scale(release: ReleasedVector) -> FloatArray | None:
    """Return the declared scale of additive noise, () or (R,); None for other releases."""
    event = _event(release)
    if release.published.dtype.kind != "f" or release.published.shape != release.value.shape:
        return None
    # The neighbors do not share rows that were drawn at random.
    return None if event is None or isinstance(event, SampledGaussian) else event.noise_scale


def _log_reports(value: FloatArray, published: FloatArray, event: RandomReport) -> FloatArray:
    """Return the log density of people's reports, (R,), relative to reports that do not depend on them.

    The density ratio is e^ε in the region of v = ± z/‖z‖, whose sign is + with probability ½ + ‖z‖/(2r). It
    is 1 outside the region.
    """
    vectors, reports = (a.reshape(-1, event.size, a.shape[-1]) for a in (value, published))
    norms = np.linalg.norm(vectors, axis=1)
    along = np.einsum("mpr,mpr->mr", vectors, reports) / np.where(norms > 0, norms, 1.0)
    along = np.where(norms > 0, along, reports[:, 0])
    plus = 0.5 + norms / (2 * event.radius)
    gain = np.expm1(event.epsilon)
    weight = plus * (along > event.threshold) + (1 - plus) * (-along > event.threshold)
    return np.asarray(np.log1p(gain * weight).sum(axis=0))


def _log_selection(scores: FloatArray, chosen: FloatArray, event: Event | None) -> FloatArray | None:
    if not isinstance(event, Selection) or scores.ndim != 2:
        return None
    if event.support:  # a number is chosen; the scores are those of a few probes
        return None
    left = np.array(scores * (event.epsilon / (2 * np.asarray(event.sensitivity))))
    total, trial = np.zeros(left.shape[1]), np.arange(left.shape[1])
    for index in chosen:
        total += left[index, trial] - _log_sum(left)
        left[index, trial] = -np.inf
    return total


def _log_sum(logs: FloatArray) -> FloatArray:
    """Return log Σ e^v by column; three times as fast as the function of scipy."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))


def _noises(releases: list[ReleasedVector]) -> list[FloatArray]:
    scales = [_scale(release) for release in releases]
    return [
        (release.published - release.value) / np.maximum(scale, np.finfo(float).tiny)
        for release, scale in zip(releases, scales, strict=True)
        if scale is not None
    ]


def _least_distance(releases: list[ReleasedVector]) -> FloatArray:
    noises = _noises(releases)
    least: FloatArray = np.ones(1)
    for i, noise in enumerate(noises):
        for other in {max(i - 1, 0), 0} - {i}:
            k = min(len(noise), len(noises[other]))
            u, v = noise[:k], noises[other][:k]
            uu, vv, uv = (u * u).sum(axis=0), (v * v).sum(axis=0), (u * v).sum(axis=0)
            least = np.minimum(least, ((u - v) ** 2).sum(axis=0) / (uu + vv + _TINY))
            if k > 1:
                least = np.minimum(least, np.maximum(1 - uv**2 / (uu * vv + _TINY), 0))
    return least


def _least_size(releases: list[ReleasedVector]) -> FloatArray:
    least: FloatArray = np.full(1, np.inf)
    for noise in _noises(releases):
        least = np.minimum(least, (noise**2).mean(axis=0))
    return np.asarray(np.where(np.isfinite(least), least, 1.0))


def _by_trial(release: ReleasedVector) -> FloatArray:
    published = release.published
    if isinstance(_event(release), Sketch):
        return published.reshape(len(published), -1).T
    return published.reshape(-1, published.shape[-1])


def _law_is_unknown(release: ReleasedVector) -> bool:
    selected = release.published.dtype.kind in "iu"
    known = isinstance(_event(release), Sketch | RandomReport)
    return not (selected or known or _scale(release) is not None)
