"""One record of several replicates, which are separate hypothetical runs; a release has one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.core.record import Record, plain_sensitivity
from dpalgos.interval import Interval
from dpalgos.typing import FloatArray, Number


def join_records(record: Record, parts: Sequence[Record]) -> None:
    """Add the records of all replicates to one.

    Replicates differ in the number of their releases if their plans do: by their numbers of rows, or by
    released totals of weights. Then the events are those of the first one.
    """
    same = len({len(part.events) for part in parts}) == 1
    for events in zip(*(part.events for part in parts), strict=True) if same else zip(parts[0].events):
        record.events.append(_joined_event(events))
    for name in parts[0].diagnostics:
        if all(name in part.diagnostics for part in parts):
            record.diagnostics[name] = _joined_notes([part.diagnostics[name] for part in parts])
    intervals = [part.interval for part in parts if part.interval is not None]
    if intervals:
        record.interval = intervals[0] if len(intervals) == 1 else Interval.joined(intervals)
    paths = [part.path for part in parts if part.path is not None]
    if paths:
        record.path = np.concatenate(paths, axis=-1)


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
