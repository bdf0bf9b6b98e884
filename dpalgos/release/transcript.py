"""The transcript of a private run: every release adds its noise and its event in one call.

An estimator never touches a random source; it asks the transcript to release a quantity of known
sensitivity. So nothing can be released without being accounted for, and tests can replay a run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from dpalgos.accounting.events import (
    BoxNoiseEvent,
    Event,
    GaussianNoiseEvent,
    GaussianSketchEvent,
    Relation,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from dpalgos.interval import Interval
from dpalgos.release.checks import check_event
from dpalgos.release.noise_source import Noise
from dpalgos.typing import BoolArray, FloatArray, IntArray, is_number


class Transcript:
    """Releases quantities with noise, for R replicates at once, and records what was released.

    Parameters
    ----------
    noise : Noise
        The random source.
    relation : Relation
        The neighboring relation that every event of the run is stated under.

    Attributes
    ----------
    events : list of Event
        One per release; shared by the replicates, which are separate hypothetical runs.
    diagnostics : dict
        Facts about the run computed from released or public quantities only.
    interval : Interval or None
        The intervals of the estimate, from released or public quantities only.
    path : (T + 1, …, R) array or None
        The iterates of a descent, from its start to the estimate: post-processing of releases.
    lists_candidates : bool
        Whether a selection draws noise for one candidate after the other. If so, they have to be listed.
    """

    lists_candidates = False

    def __init__(self, noise: Noise, relation: Relation = Relation.CENTRAL) -> None:
        self._noise = noise
        self._relation = relation
        self._group: int | None = None
        self._last_noise: tuple[tuple[object, ...], Event] | None = None
        self.events: list[Event] = []
        self.diagnostics: dict[str, Any] = {}
        self.interval: Interval | None = None
        self.path: FloatArray | None = None

    @property
    def n_replicates(self) -> int:
        """Number of replicates R."""
        return self._noise.n_replicates

    @property
    def noise(self) -> Noise:
        """The random source, for mechanisms that publish through this transcript."""
        return self._noise

    def for_replicate(self, r: int) -> Self:
        """Return an empty transcript of one replicate; :meth:`join` brings its releases back."""
        part = copy(self)
        part.restart(r)
        return part

    def restart(self, r: int) -> None:
        """Forget all releases, and go on as a transcript of one replicate with fresh noise."""
        self._noise = self._noise.select(slice(r, r + 1))
        self.events, self.diagnostics, self.interval, self.path = [], {}, None, None

    def join(self, parts: Sequence["Transcript"]) -> None:
        """Add the releases of all replicates' transcripts.

        Replicates differ in the number of their releases if their plans do: by their numbers of rows, or by
        released totals of weights. Then the events are those of the first one.
        """
        same = len({len(part.events) for part in parts}) == 1
        for events in zip(*(part.events for part in parts), strict=True) if same else zip(parts[0].events):
            self.events.append(_joined_event(events))
        for name in parts[0].diagnostics:
            if all(name in part.diagnostics for part in parts):
                self.diagnostics[name] = _joined_notes([part.diagnostics[name] for part in parts])
        intervals = [part.interval for part in parts if part.interval is not None]
        if intervals:
            self.interval = intervals[0] if len(intervals) == 1 else Interval.joined(intervals)
        paths = [part.path for part in parts if part.path is not None]
        if paths:
            self.path = np.concatenate(paths, axis=-1)

    def publish(self, value: FloatArray, noisy: Callable[[], FloatArray], *events: Event) -> FloatArray:
        """Release ``noisy()`` in place of a private value; every mechanism ends here.

        Parameters
        ----------
        value : (k, R) array
            The private quantity whose change between neighbors the events' sensitivity bounds; the
            release itself may have another shape.
        noisy : callable
            Draws the noise and returns what is released.
        *events : Event
            The events that the release is charged as, under the transcript's neighboring relation.
        """
        if not events:
            raise TypeError("publish() needs at least one event: every release has a privacy cost")
        self.record(*events)
        return self._publish(value, noisy)

    def record(self, *events: Event) -> None:
        """Charge what is about to be released, under the transcript's relation, or refuse vanishing noise."""
        for event in events:
            check_event(event)
            if event.relation is not self._relation or event.group != self._group:
                event = replace(event, relation=self._relation, group=self._group)
            self.events.append(event)

    @contextmanager
    def among(self, group: int) -> Iterator[None]:
        """Charge what is released inside to one of several disjoint groups of people."""
        self._group = group
        try:
            yield
        finally:
            self._group = None

    def choose(self, scores: FloatArray, draw: Callable[[], IntArray], *events: Event) -> IntArray:
        """Release indices drawn by private scores (d, R); :meth:`publish` for selections."""
        noisy = cast(Callable[[], FloatArray], draw)
        return cast(IntArray, self.publish(scores, noisy, *events))

    def choose_each(
        self,
        scores: FloatArray,
        draw: Callable[[], IntArray],
        event: Event,
        *,
        allowed: BoolArray | None = None,
    ) -> IntArray:
        """Release one of K candidates for each of m columns, (m, R), by private scores (K, m, R).

        ``event`` counts the m choices; candidates that are not ``allowed``, (K, m, R), are never drawn, which
        is public.
        """
        return self.choose(scores.reshape(-1, scores.shape[-1]), draw, event)

    def add_noise(
        self, value: FloatArray, planned: Event, sensitivity: float | FloatArray, label: str
    ) -> FloatArray:
        """Release vectors (k, R) with Gaussian noise, Laplace noise, or noise in a cube.

        Noise in a cube has density ∝ e^(−ε ‖z‖∞ / sensitivity): the K-norm mechanism of the cube (Hardt &
        Talwar 2010). Its variance per entry is (k + 1)(k + 2) / 3 · (sensitivity / ε)², that of Laplace noise
        on every entry 2k².

        Parameters
        ----------
        value : (k, R) array
            One vector per replicate.
        planned : Event
            The noise for a sensitivity of 1: a ``GaussianEvent``, ``PureEvent`` or ``BoxNoiseEvent``.
        sensitivity : float or (R,) array
            How far a neighbor moves the vector: in ℓ2, in ℓ1, or in every entry at once.
        label : str
            Names the quantity in the record.
        """
        event = self._record_noise(planned, sensitivity, label)
        scale = self.noise_scale(planned, sensitivity, len(value))
        return self._publish(value, lambda: value + scale * _standard_draws(event, self._noise, len(value)))

    def _record_noise(self, planned: Event, sensitivity: float | FloatArray, label: str) -> Event:
        """Charge additive noise, and return its event: the same object again for the counts of a search."""
        if not is_number(sensitivity):
            self.record(planned.with_sensitivity(label, plain_sensitivity(sensitivity)))
            return self.events[-1]
        noise = planned, label, sensitivity, self._group
        if self._last_noise is not None and self._last_noise[0] == noise:
            self.events.append(self._last_noise[1])  # it was checked
        else:
            self.record(planned.with_sensitivity(label, float(sensitivity)))
            self._last_noise = noise, self.events[-1]
        return self.events[-1]

    def noise_scale(self, planned: Event, sensitivity: float | FloatArray, size: int) -> FloatArray:
        """Return the scale of what :meth:`add_noise` adds to ``size`` numbers: public."""
        return planned.scale_at(sensitivity)

    def noise_std(self, planned: Event, sensitivity: float | FloatArray, size: int) -> FloatArray:
        """Return the standard deviation of what :meth:`add_noise` adds to ``size`` numbers: public."""
        scale = self.noise_scale(planned, sensitivity, size)
        if isinstance(planned, GaussianNoiseEvent):
            return scale
        k = size if isinstance(planned, BoxNoiseEvent) else 1
        return np.asarray(np.sqrt((k + 1) * (k + 2) / 3) * scale)

    def gaussian_of_drawn_rows(
        self,
        total: Callable[[FloatArray], FloatArray],
        used: BoolArray,
        *,
        sampling_rate: float,
        l2_sensitivity: float | FloatArray,
        noise_multiplier: float,
        label: str,
    ) -> FloatArray:
        """Release a sum over rows that are drawn here, each with one probability, with Gaussian noise.

        Parameters
        ----------
        total : callable
            Which rows were drawn, (n, R) of 0 and 1, → the sum over them, (k, R). A row may add a vector of
            at most half of ``l2_sensitivity``.
        used : (n, R) bool array
            The rows of each replicate.
        sampling_rate : float
            The probability; public. Who was drawn is neither released nor returned.
        l2_sensitivity, noise_multiplier, label
            The noise of the sum, for neighbors who differ in a row that was drawn.
        """
        self.record(
            SampledGaussianEvent(
                label=label,
                noise_multiplier=noise_multiplier,
                l2_sensitivity=plain_sensitivity(l2_sensitivity),
                sampling_rate=sampling_rate,
            )
        )
        value = total(self._drawn_rows(lambda: self._noise.drawn(used, sampling_rate)))
        std = noise_multiplier * np.asarray(l2_sensitivity)
        return self._publish(value, lambda: value + std * self._noise.normal(value.shape[0]))

    def gaussian_sketch(
        self,
        gram: FloatArray,
        *,
        added: float | FloatArray,
        n_rows: int,
        row_bound_squared: float,
        ridge: float,
        label: str,
    ) -> FloatArray:
        """Release draws of N(0, A'A + added · I), (R, n_rows, p), for ``gram`` A'A, (R, p, p).

        ``added``, () or (R,), is the noise of the sketch: the smallest eigenvalue is then at least ``ridge``.
        """
        event = GaussianSketchEvent(
            label=label, n_rows=n_rows, row_bound_squared=row_bound_squared, ridge=ridge
        )
        self.record(event)
        n_columns = gram.shape[-1]
        gram = gram + np.reshape(added, (-1, 1, 1)) * np.eye(n_columns)

        def rows() -> FloatArray:
            return sketched(gram, np.moveaxis(self._noise.normal(n_rows, n_columns), -1, 0))

        return self._publish(gram, rows)

    def unprotected(self, label: str) -> None:
        """Record that something private is used without any protection: the run proves nothing."""
        self.record(UnprotectedEvent(label=label))

    def note(self, name: str, value: object) -> None:
        """Keep a diagnostic; it must follow from released or public quantities."""
        self.diagnostics[name] = value

    def _drawn_rows(self, draw: Callable[[], FloatArray]) -> FloatArray:
        """Return which rows are drawn; replaced by tests that compare neighbors given who was drawn."""
        return draw()

    def _publish(self, value: FloatArray, noisy: Callable[[], FloatArray]) -> FloatArray:
        """Return what is released of a private value; the one place that audits and tests replace."""
        return noisy()


def sketched(gram: FloatArray, normals: FloatArray) -> FloatArray:
    """Return rows of N(0, gram) from standard normals (R, n_rows, p)."""
    return np.asarray(normals @ np.swapaxes(np.linalg.cholesky(gram), -1, -2))


def _standard_draws(event: Event, noise: Noise, size: int) -> FloatArray:
    """Return standard noise of the law of an event, (size, R)."""
    if isinstance(event, GaussianNoiseEvent):
        return noise.normal(size)
    return noise.box(size) if isinstance(event, BoxNoiseEvent) else noise.laplace(size)


def _joined_notes(notes: Sequence[Any]) -> FloatArray:
    """Return notes with an axis of replicates: the first one, or where that is longer than 1 the last."""
    arrays = [np.asarray(note) for note in notes]
    if arrays[0].ndim == 0:
        return arrays[0] if all((each == arrays[0]).all() for each in arrays) else np.stack(arrays)
    return np.concatenate(arrays, axis=0 if arrays[0].shape[0] == 1 else -1)


def _joined_event(events: Sequence[Event]) -> Event:
    """Return the event of all replicates, which differ in their sensitivities alone."""
    first = events[0]
    for name in ("l2_sensitivity", "sensitivity"):
        if hasattr(first, name):
            stated = np.concatenate([np.ravel(getattr(event, name)) for event in events])
            changed: dict[str, Any] = {name: plain_sensitivity(stated)}
            return replace(first, **changed)
    return first


def plain_sensitivity(sensitivity: float | FloatArray) -> float | FloatArray:
    """Return one number where all replicates share it, else a copy per replicate."""
    if is_number(sensitivity):
        return float(sensitivity)
    values = np.asarray(sensitivity, dtype=float)
    first = float(values.flat[0])
    return first if values.size == 1 or (values == first).all() else values.copy()
