"""What a run leaves: released values, its events, and what it tells about the estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from sys import float_info
from typing import Any, NamedTuple

import numpy as np

from dpalgos.accounting.events import Event, Relation
from dpalgos.errors import InputError
from dpalgos.interval import Interval
from dpalgos.release.checks import is_number
from dpalgos.typing import FloatArray, Number

_SCALES = ("noise_multiplier", "sensitivity", "epsilon", "ridge")


class Noisy(NamedTuple):
    """A released value, and the standard deviation of the noise in each of its entries.

    A number per replicate (R,), or one number where a fit is of one replicate.
    """

    value: FloatArray
    std: FloatArray


@dataclass
class Record:
    """The record of a run, or of a batch of replicates.

    Attributes
    ----------
    relation : Relation
        The neighboring relation that every event of the run is stated under.
    events : list of Event
        One per release; shared by the replicates, which are separate hypothetical runs.
    diagnostics : dict
        Facts about the run computed from released or public quantities only.
    interval : Interval or None
        The intervals of the estimate, from released or public quantities only.
    path : (T + 1, …, R) array or None
        The iterates of a descent, from its start to the estimate: post-processing of releases.
    """

    relation: Relation = Relation.CENTRAL
    events: list[Event] = field(default_factory=list)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    interval: Interval | None = None
    path: FloatArray | None = None

    def charge(self, event: Event) -> Event:
        """Add the event of a release that is about to be made, or refuse noise that could vanish.

        Every scale must be a normal positive number. A product of tiny bounds is rounded to zero or to a
        number with few digits. Noise of that scale protects nothing, whatever the event states.
        """
        stated = {} if event.is_failure or event.is_unprotected else vars(event)
        scales = {name: stated[name] for name in _SCALES if stated.get(name) is not None}
        if "sensitivity" in scales:
            for name in scales.keys() & {"noise_multiplier", "ridge"}:
                scales["noise scale"] = scales[name] * scales["sensitivity"]
        for name, value in scales.items():
            least, most = (value, value) if isinstance(value, float) else (np.min(value), np.max(value))
            if not (least >= float_info.min and most <= float_info.max):
                raise InputError(
                    f"the {name} of the release {event.label!r} must be a normal positive number, got "
                    f"{value!r}; declare bounds nearer to 1, and change the unit of the data accordingly"
                )
        if event.relation is not self.relation:
            event = replace(event, relation=self.relation)
        self.events.append(event)
        return event

    def join(self, parts: Sequence["Record"]) -> None:
        """Add the records of all replicates.

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


def plain_sensitivity(sensitivity: Number) -> Number:
    """Return one number where all replicates share it, else a copy per replicate."""
    if is_number(sensitivity):
        return float(sensitivity)
    values = np.asarray(sensitivity, dtype=float)
    first = float(values.flat[0])
    return first if values.size == 1 or (values == first).all() else values.copy()


def _joined_notes(notes: Sequence[Any]) -> FloatArray:
    """Return notes with an axis of replicates: the first one, or where that is longer than 1 the last."""
    arrays = [np.asarray(note) for note in notes]
    if arrays[0].ndim == 0:
        return arrays[0] if all((each == arrays[0]).all() for each in arrays) else np.stack(arrays)
    return np.concatenate(arrays, axis=0 if arrays[0].shape[0] == 1 else -1)


def _joined_event(events: Sequence[Event]) -> Event:
    """Return the event of all replicates, which differ in their sensitivities alone."""
    first = events[0]
    if first.sensitivity is None:
        return first
    return replace(first, sensitivity=_joined_sensitivity(events))


def _joined_sensitivity(events: Sequence[Event]) -> Number:
    """Return the sensitivities of all replicates, each proved by the lemma of its own run, in their order."""
    stated = [np.ravel(np.asarray(event.sensitivity, dtype=float)) for event in events]
    return plain_sensitivity(np.concatenate(stated))
