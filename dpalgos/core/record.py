"""What a run leaves: released values, its events, and what it tells about the estimate."""

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


def plain_sensitivity(sensitivity: Number) -> Number:
    """Return one number where all replicates share it, else a copy per replicate."""
    if is_number(sensitivity):
        return float(sensitivity)
    values = np.asarray(sensitivity, dtype=float)
    first = float(values.flat[0])
    return first if values.size == 1 or (values == first).all() else values.copy()
