"""Spending a plan: one call records the event of a release, draws its noise and counts it.

An estimator asks for the release of a quantity of known sensitivity. It draws no noise itself, except in a
mechanism with a sampler of its own, which runs after the charge. A release that is not in the plan, or is
made once too often, is refused before noise is drawn. So is a sensitivity that does not come from the lemma
which the estimator declares for the label. Therefore nothing can be released without being accounted for,
and tests can replay a run.

Arrays have a leading axis of replicates in a batch (:mod:`dpalgos.core.rows`). Mechanisms with a sampler of
their own have replicates along the last axis, also if there is only one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self, TypeVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian, Relation
from dpalgos.accounting.other_events import Laplace, SampledGaussian, Selection
from dpalgos.core.plans import Plan, quantity
from dpalgos.core.record import Noisy, Record, plain_sensitivity
from dpalgos.core.replicates import join_records
from dpalgos.errors import BrokenEstimator
from dpalgos.interval import Interval
from dpalgos.mechanisms.sensitivity import Bounded, Lemmas
from dpalgos.mechanisms.top_k import gumbel_top_k, peeling
from dpalgos.release.checks import is_number
from dpalgos.release.noise_source import Noise
from dpalgos.rows.symmetric import from_upper_triangles, svec_layout
from dpalgos.typing import BoolArray, FloatArray, IntArray, Number

A = TypeVar("A", bound=np.ndarray)  # an array of numbers, or of indices
E = TypeVar("E", bound=Event)
_ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 16.0, 64.0])  # at which costs are compared


class Spend:
    """Makes the planned releases of one run, or of a batch of replicates, and records them.

    Parameters
    ----------
    noise : Noise
        The random source.
    relation : Relation
        The neighboring relation that every event of the run is stated under.

    Attributes
    ----------
    noise : Noise
        The random source, for mechanisms with a sampler of their own.
    record : Record
        The events of the run, and what it tells about the estimate.
    plan : mapping of str to Event
        The slots: planned events, whose noise decides tuning constants. Nothing is planned before
        :meth:`start`.
    is_batch : bool
        Whether values have a leading axis of replicates.
    lists_candidates : bool
        Whether a selection draws noise for one candidate after the other. If so, they have to be listed.
    """

    lists_candidates = False

    def __init__(self, noise: Noise, relation: Relation = Relation.CENTRAL) -> None:
        self.noise, self.record = noise, Record(relation)
        self.start({}, {})

    def start(self, plan: Plan, lemmas: Lemmas, *, is_batch: bool = False) -> Self:
        """Plan the releases of a run; ``lemmas`` are those whose sensitivities each label accepts."""
        self.plan, self.is_batch = plan, is_batch
        self._formulas = {
            label: [lemma.formula for lemma in (each if isinstance(each, tuple) else (each,))]
            for label, each in lemmas.items()
        }
        self._made = Counter[str]()
        self._last: tuple[Event, str, float, Event] | None = None
        return self

    def multiplier(self, label: str) -> float:
        """Return the noise standard deviation of a Gaussian slot over the sensitivity."""
        return self.slot(label, Gaussian).noise_multiplier

    def slot(self, label: str, kind: type[E]) -> E:
        """Return the slot of a label, or refuse another kind."""
        slot = self.plan[label]
        if not isinstance(slot, kind):
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, not as {kind.__name__}")
        return slot

    def times_left(self, label: str) -> int:
        """Return how many releases of a label the plan still allows, 0 if it has none."""
        return self.plan[label].times - self._made[label] if label in self.plan else 0

    def __call__(self, label: str, query: Bounded, *, form: str = "") -> Noisy:
        """Release a query with the planned noise.

        ``form`` is the label of a quantity that is released in the place of ``label``, at the same cost.
        """
        _require_bounded(label, query)
        self._take(label, query, form)
        slot, (columns, shape) = self.plan[label], self._columns(query.value)
        if not slot.is_additive:
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, which adds no noise to a query")
        if isinstance(slot, Laplace) and 1 < slot.count < len(columns):
            raise RuntimeError(f"{label!r} is planned for {slot.count} entries, got {len(columns)}")
        noisy, scale = self._add_noise(slot, form or quantity(label), columns, query.sensitivity)
        std, each = slot.unit_std(len(columns)) * scale, np.shape(query.sensitivity)
        return Noisy(noisy.T.reshape(shape), np.asarray(std) if std.shape == each else np.full(each, std))

    def columns(self, label: str, query: Bounded) -> Noisy:
        """Release a query whose value has replicates along the last axis, (…, R), even a single one."""
        value = np.asarray(_require_bounded(label, query).value, dtype=float)
        leading = np.moveaxis(value, -1, 0) if self.is_batch else value[..., 0]
        released, std = self(label, query._replace(value=leading))
        return Noisy(np.moveaxis(released, 0, -1) if self.is_batch else released[..., None], std)

    def symmetric(self, label: str, query: Bounded, *, form: str = "") -> Noisy:
        """Release symmetric matrices (…, p, p) whose Frobenius norm moves by the sensitivity.

        The upper triangles are released. svec is an isometry (:mod:`dpalgos.rows.symmetric`): the noise
        has standard deviation ``std`` on the diagonal and ``std`` / √2 off it.
        """
        p = _require_bounded(label, query).value.shape[-1]
        first, second, scale = svec_layout(p)
        released = self(label, query._replace(value=query.value[..., first, second] * scale), form=form)
        return Noisy(from_upper_triangles(released.value / scale, p), released.std)

    def choose(self, label: str, scores: Bounded) -> IntArray:
        """Release the places of the largest scores (…, d), or magnitudes of scores, in order, (…, k)."""
        slot = self.slot(label, Selection)
        sampler = peeling if slot.by == "peeling" else gumbel_top_k
        settings: Any = {
            "scale": 2 / slot.epsilon * np.asarray(scores.sensitivity),
            "k": slot.count,
            "by_magnitude": slot.by_magnitude,
        }
        self._take(label, _require_bounded(label, scores))
        columns, _ = self._columns(scores.value)
        chosen = self._select(
            slot,
            quantity(label),
            scores._replace(value=columns),
            lambda: sampler(self.noise, columns, **settings),
        )
        return np.asarray(chosen.T if self.is_batch else chosen[:, 0])

    def choose_each(
        self,
        label: str,
        scores: Bounded,
        draw: Callable[[], IntArray],
        *,
        allowed: BoolArray | None = None,
    ) -> IntArray:
        """Release one of K candidates for each of m columns, (m, R), by private scores (K, m, R).

        The slot counts the m choices. Candidates that are not ``allowed``, (K, m, R), are never drawn, which
        is public.
        """
        self._take(label, scores)
        return self._select_each(self.slot(label, Selection), quantity(label), scores, draw, allowed)

    def release(
        self,
        label: str,
        value: FloatArray,
        draw: Callable[[], A],
        *,
        sensitivity: Number | None = None,
        proved: Event | None = None,
    ) -> A:
        """Release ``draw()`` in place of a private value, by a sampler of the mechanism's own.

        Parameters
        ----------
        label : str
        value : (k, R) array
            The private quantity whose change between neighbors the sensitivity bounds. The release may have
            another shape.
        draw : callable
            Draws the noise and returns what is released.
        sensitivity : float, (R,) array or None
            The sensitivity that the slot is charged at; by default, the one that the plan states, or 1.
        proved : Event or None
            The cost of the mechanism, if it follows from other numbers than the slot's. It is refused if it
            exceeds the cost of the slot, which is charged.
        """
        slot = self._take(label)
        if sensitivity is None and slot.sensitivity is None:
            sensitivity = 1.0  # which a mechanism that is proved as a whole leaves out
        planned = slot.once(quantity(label), sensitivity)
        if proved is not None and not is_within(proved, planned):
            raise RuntimeError(f"the release {label!r} must be charged as {planned}, got {proved}")
        return self._by_own_sampler(slot, quantity(label), value, draw, sensitivity)

    def of_drawn_rows(
        self,
        label: str,
        total: Callable[[FloatArray], FloatArray],
        used: BoolArray,
        sensitivity: Number,
    ) -> FloatArray:
        """Release a sum over rows that are drawn here, each with one probability, with Gaussian noise.

        Parameters
        ----------
        label : str
            Of a slot whose probability is public. Who was drawn is neither released nor returned.
        total : callable
            Which rows were drawn, (n, R) of 0 and 1, → the sum over them, (k, R). A row may add a vector of
            at most half of the sensitivity.
        used : (n, R) bool array
            The rows of each replicate.
        sensitivity : float or (R,) array
            In ℓ2, for neighbors who differ in a row that was drawn.
        """
        slot = self.slot(label, SampledGaussian)
        self._take(label)
        self._charge(slot, quantity(label), sensitivity)
        value = total(self._drawn_rows(lambda: self.noise.drawn(used, slot.sampling_rate)))
        std = slot.noise_multiplier * np.asarray(sensitivity)
        return self._publish(value, lambda: value + std * self.noise.normal(len(value)))

    def charge(self, label: str) -> None:
        """Record a planned event that releases nothing, such as a probability of failure."""
        self._charge(self._take(label), quantity(label))

    def note(self, name: str, value: object) -> None:
        """Keep a diagnostic (…), or a text, which must follow from released or public numbers."""
        if not isinstance(value, str):
            value = np.asarray(value) if self.is_batch else np.asarray(value)[None]
        self.record.diagnostics[name] = value

    def keep_interval(self, interval: Interval) -> None:
        """Keep the intervals of the estimate, from released or public numbers."""
        self.record.interval = interval

    def keep_path(self, iterates: Sequence[FloatArray]) -> None:
        """Keep the iterates (…, d) of a descent, from its start to the estimate."""
        path = np.stack(np.broadcast_arrays(*iterates))
        self.record.path = np.moveaxis(path, 1, -1) if self.is_batch else path[..., None]

    def check_complete(self) -> None:
        """Check that each planned release was made as often as planned."""
        if left := {label: k for label in self.plan if (k := self.times_left(label))}:
            raise BrokenEstimator(
                f"planned releases were not made: {left}; fit must pass each number from rows through spend"
            )

    def for_replicate(self, r: int) -> Self:
        """Return what spends for one replicate; :meth:`join` brings its record back."""
        part = copy(self)
        part.noise, part.record = self.noise.select(slice(r, r + 1)), Record(self.record.relation)
        return part

    def join(self, parts: Sequence["Spend"]) -> None:
        """Add the records of all replicates."""
        join_records(self.record, [part.record for part in parts])

    def _take(self, label: str, query: Bounded | None = None, form: str = "") -> Event:
        """Count a release, or refuse one that the plan does not have or whose lemma is another one."""
        slot = self.plan.get(label)
        if slot is None or self._made[label] >= slot.times or (form and form not in slot.forms):
            planned = ", ".join(f"{name!r} ({each.times} times)" for name, each in self.plan.items())
            raise BrokenEstimator(
                f"the release {form or label!r} exceeds the plan, which has {planned or 'no release'}; "
                "plan(n, d) must return a slot for each release of fit"
            )
        if query is not None:
            declared = self._formulas.get(form or quantity(label), ())
            if query.formula not in declared:
                raise BrokenEstimator(
                    f"the sensitivity of {form or label!r} must come from its declared lemma, "
                    f"{' or '.join(declared) or 'which lemmas lacks'}, got {query.formula}; declare the "
                    f"function in lemmas = {{{form or quantity(label)!r}: …}}"
                )
        self._made[label] += 1
        return slot

    def _charge(self, slot: Event, label: str, sensitivity: Number | None = None) -> Event:
        """Record the event of a release that is about to be made: the same one for counts of a search."""
        if sensitivity is None or not is_number(sensitivity):
            stated = None if sensitivity is None else plain_sensitivity(sensitivity)
            return self.record.charge(slot.once(label, stated))
        known = self._last
        if known is not None and known[0] is slot and known[1:3] == (label, sensitivity):
            self.record.events.append(known[3])
        else:
            event = slot.once(label, float(sensitivity))
            self._last = known = slot, label, float(sensitivity), self.record.charge(event)
        return known[3]

    def _columns(self, value: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
        """Return values as columns, one for each replicate, (k, R), and the shape of the release."""
        value = np.asarray(value, dtype=float)
        if not self.is_batch:
            return value.reshape(-1, 1), value.shape
        shape = self.noise.n_replicates, *value.shape[1:]
        return np.broadcast_to(value, shape).reshape(shape[0], -1).T, shape

    def _add_noise(
        self, slot: Event, label: str, columns: FloatArray, sensitivity: Number
    ) -> tuple[FloatArray, FloatArray]:
        """Charge and release vectors (k, R) with the noise that is charged; return its scale, too."""
        scale = self._charge(slot, label, sensitivity).noise_scale
        assert scale is not None
        noisy = self._publish(columns, lambda: columns + scale * slot.draw(self.noise, len(columns)))
        return noisy, scale

    def _select(self, slot: Selection, label: str, scores: Bounded, draw: Callable[[], IntArray]) -> IntArray:
        """Charge and release indices, (k, R), by scores (d, R)."""
        return self._by_own_sampler(slot, label, scores.value, draw, scores.sensitivity)

    def _select_each(
        self,
        slot: Selection,
        label: str,
        scores: Bounded,
        draw: Callable[[], IntArray],
        allowed: BoolArray | None,
    ) -> IntArray:
        """Charge and release one index for each column, (m, R), by scores (K, m, R)."""
        flat = scores.value.reshape(-1, scores.value.shape[-1])
        return self._by_own_sampler(slot, label, flat, draw, scores.sensitivity)

    def _by_own_sampler(
        self, slot: Event, label: str, value: FloatArray, draw: Callable[[], A], sensitivity: Number | None
    ) -> A:
        """Charge and release what a sampler draws."""
        self._charge(slot, label, sensitivity)
        return self._publish(value, draw)

    def _drawn_rows(self, draw: Callable[[], FloatArray]) -> FloatArray:
        """Return which rows are drawn; replaced by tests that compare neighbors given who was drawn."""
        return draw()

    def _publish(self, value: FloatArray, draw: Callable[[], A]) -> A:
        """Return what is released of a private value; the one place that audits and tests replace."""
        return draw()


def _require_bounded(label: str, query: object) -> Bounded:
    """Return a value with its sensitivity; refuse one without."""
    if not isinstance(query, Bounded):
        raise BrokenEstimator(
            f"the release {label!r} must have a sensitivity, got {type(query).__name__} without one; pass "
            "the value of a lemma, such as ball_mean.of(value, bound, rows.n)"
        )
    return query


def is_within(event: Event, planned: Event) -> bool:
    """Return whether an event costs at most what another one does, up to rounding."""
    is_cheap = event.renyi(_ORDERS) <= planned.renyi(_ORDERS) * (1 + 1e-9)
    return bool(is_cheap.all()) and event.failure <= planned.failure * (1 + 1e-9)
