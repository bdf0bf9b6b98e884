"""Spending a plan: one call adds the noise of a release, records its event and counts it.

A release that is not in the plan, or is made once too often, is refused before noise is drawn. So is a
sensitivity that does not come from the lemma which the estimator declares for the label.

A threshold is found by a binary search: about a target number of rows exceeds it. A count of rows above a
public threshold moves by 1 when a row is replaced. Each halving of m candidates is one Gaussian release of a
count: ⌈log₂ m⌉ of them for any data. The result errs by about the noise of one count. The target should
exceed that noise.

Arrays have a leading axis of replicates in a batch (:mod:`dpalgos.core.rows`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianSketchEvent, PureEvent
from dpalgos.core.slots import Gaussian, Laplace, Peeling, Plan, Selection, Sketch, Slot, quantity
from dpalgos.interval import Interval
from dpalgos.mechanisms.peeling import peeling
from dpalgos.mechanisms.sensitivity import count
from dpalgos.mechanisms.top_k import gumbel_top_k, release_laplace
from dpalgos.release.declared import Bounded, Lemma, Release
from dpalgos.release.symmetric import from_upper_triangles, svec_layout
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray, IntArray, Number

T = TypeVar("T")
S = TypeVar("S", bound=Slot)
Lemmas = Mapping[str, tuple[Lemma[...], ...]]
_COST_BY_EPSILON = (BoundedRangeEvent, PureEvent)
_ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 16.0, 64.0])  # at which costs are compared


class Noisy(NamedTuple):
    """A released value, and the standard deviation of the noise in each of its entries.

    A number per replicate (R,), or one number where a fit is of one replicate.
    """

    value: FloatArray
    std: FloatArray


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


class Spend:
    """Makes the planned releases of one run, or of a batch of replicates.

    Parameters
    ----------
    plan : mapping of str to Slot
    lemmas : mapping of str to tuple of Lemma
        Label → the lemmas whose sensitivities are accepted.
    transcript : Transcript
        Draws the noise and keeps the events.
    is_batch : bool
        Whether values have a leading axis of replicates.

    Attributes
    ----------
    plan : mapping of str to Slot
        The slots, for noise that decides tuning constants.
    is_batch : bool
    """

    def __init__(self, plan: Plan, lemmas: Lemmas, transcript: Transcript, *, is_batch: bool = False) -> None:
        self.plan = plan
        self.is_batch = is_batch
        self._lemmas, self._transcript = lemmas, transcript
        self._made: Counter[str] = Counter()
        self._events: dict[str, Event] = {}

    def replan(self, plan: Plan) -> None:
        """Spend another plan from now on, which may depend on what was released before.

        All noise is Gaussian in both plans. The new one has the releases made so far with the same noise, and
        costs no more μ², the sum of 1/z² over all releases of noise multipliers z. Therefore the whole run is
        as private as the first plan, whatever was released: fully adaptive composition needs no more.

        References: Feldman & Zrnic (2021), Individual privacy accounting via a Rényi filter. Smith & Thakurta
        (2022), Fully adaptive composition for Gaussian differential privacy.
        """
        cost, allowed = _squared_mu(plan), _squared_mu(self.plan)
        if cost > allowed * (1 + 1e-9):
            raise RuntimeError(f"the new plan costs {cost:g} of μ², the first one {allowed:g}")
        for label, n_made in self._made.items():
            old, new = self._slot(label, Gaussian), plan.get(label)
            if (
                not isinstance(new, Gaussian)
                or new.times < n_made
                or not np.isclose(new.noise_multiplier, old.noise_multiplier, rtol=1e-9)
            ):
                raise RuntimeError(f"the release {label!r} was made as {old}, planned is {new}")
        self.plan, self._events = plan, {}

    def multiplier(self, label: str) -> float:
        """Return the noise standard deviation of a Gaussian slot over the sensitivity."""
        return self._slot(label, Gaussian).noise_multiplier

    def epsilon(self, label: str) -> float:
        """Return the ε of each choice of a slot of selections."""
        return self._slot(label, Selection).epsilon

    def times_left(self, label: str) -> int:
        """Return how many releases of a label the plan still allows, 0 if it has none."""
        return self.plan[label].times - self._made[label] if label in self.plan else 0

    def __call__(self, label: str, query: Bounded, *, form: str = "") -> Noisy:
        """Release a query with the planned noise.

        ``form`` is the label of a quantity that is released in the place of ``label``, at the same cost.
        """
        released = self._released(label, query, form)
        size = released.size // self._transcript.n_replicates
        return Noisy(released, self._transcript.noise_std(self._event(label), query.sensitivity, size))

    def columns(self, label: str, query: Bounded) -> Noisy:
        """Release a query whose value has replicates along the last axis, (…, R), even a single one."""
        value = np.asarray(query.value, dtype=float)
        leading = np.moveaxis(value, -1, 0) if self.is_batch else value[..., 0]
        released, std = self(label, query._replace(value=leading))
        return Noisy(np.moveaxis(released, 0, -1) if self.is_batch else released[..., None], std)

    def symmetric(self, label: str, query: Bounded, *, form: str = "") -> Noisy:
        """Release symmetric matrices (…, p, p) whose Frobenius norm moves by the sensitivity.

        The upper triangles are released. svec is an isometry (:mod:`dpalgos.release.symmetric`): the noise
        has standard deviation ``std`` on the diagonal and ``std`` / √2 off it.
        """
        p = query.value.shape[-1]
        first, second, scale = svec_layout(p)
        released = self(label, query._replace(value=query.value[..., first, second] * scale), form=form)
        return Noisy(from_upper_triangles(released.value / scale, p), released.std)

    def search(self, label: str, n_rows_above: FloatArray, target: Number) -> IntArray:
        """Release for p searches the first of m candidates that at most about ``target`` rows exceed, (…, p).

        ``n_rows_above`` (…, p, m) has the number of rows above each of m ascending candidates.
        """
        n_searches, m = n_rows_above.shape[-2:]
        flat, shape = n_rows_above.reshape(-1, m), n_rows_above.shape[:-1]
        searches, low = np.arange(len(flat)), np.zeros(len(flat), dtype=int)
        high = low + (m - 1)
        for _ in range(counts_needed(m)):
            middle = (low + high) >> 1
            above = flat[searches, middle].reshape(shape)
            too_many = (self._released(label, count.of(above, n_searches)) > target).ravel()
            low = np.where(too_many, middle + 1, low)  # past a found one, whose middle stays the same
            high = np.where(too_many, high, middle)
        return np.asarray(high.reshape(shape))

    def choose(self, label: str, scores: Bounded) -> IntArray:
        """Release the places of the largest scores (…, d), or magnitudes of scores, in order, (…, k)."""
        slot = self._slot(label, Selection)
        self._check_lemma(quantity(label), scores)
        columns, _ = self._columns(np.asarray(scores.value, dtype=float))
        release = Release(quantity(label), self._lemmas[quantity(label)][0])
        settings: dict[str, Any] = {"sensitivity": scores.sensitivity, "k": slot.k}

        def draw(transcript: Transcript) -> IntArray:
            if isinstance(slot, Peeling):
                return peeling(transcript, release, columns, epsilon=slot.epsilon, **settings)
            settings.update(noise_multiplier=2 / slot.epsilon, by_magnitude=slot.by_magnitude)
            return gumbel_top_k(transcript, release, columns, **settings)

        chosen = self.mechanism(label, draw)
        return np.asarray(chosen.T if self.is_batch else chosen[:, 0])

    def mechanism(self, label: str, release: Callable[[Transcript], T]) -> T:
        """Make a planned release by a mechanism that publishes through the transcript.

        The mechanism charges one event. It is refused if that costs more than the slot. Its arrays have
        replicates along the last axis, also if there is only one.
        """
        slot, n_before = self._take(label), len(self._transcript.events)
        with self._charged_to_group(slot):
            released = release(self._transcript)
        made, planned = self._transcript.events[n_before:], slot.event(quantity(label))
        if len(made) != 1 or made[0].label != planned.label or not is_within(made[0], planned):
            raise RuntimeError(f"the release {label!r} must be charged as {planned}, got {made}")
        return released

    def sketch(
        self, label: str, gram: FloatArray, row_bound_squared: float, *, added: FloatArray
    ) -> FloatArray:
        """Release draws of N(0, A'A + added · I), (…, n_rows, p), for ``gram`` A'A, (…, p, p).

        The smallest eigenvalue of that matrix is at least the slot's ridge times ``row_bound_squared``.
        """
        slot = self._slot(label, Sketch)
        every = gram if self.is_batch else gram[None]
        every = np.broadcast_to(every, (self._transcript.n_replicates, *gram.shape[-2:]))
        rows = self.mechanism(
            label,
            lambda transcript: transcript.gaussian_sketch(
                every,
                added=np.broadcast_to(added, len(every)),
                n_rows=slot.n_rows,
                row_bound_squared=row_bound_squared,
                ridge=slot.ridge * row_bound_squared,
                label=quantity(label),
            ),
        )
        return rows if self.is_batch else rows[0]

    def charge(self, label: str) -> None:
        """Record a planned event that releases nothing, such as a probability of failure."""
        slot = self._take(label)
        with self._charged_to_group(slot):
            self._transcript.record(slot.event(quantity(label)))

    def note(self, name: str, value: object) -> None:
        """Keep a diagnostic (…), or a text, which must follow from released or public numbers."""
        if not isinstance(value, str):
            value = np.asarray(value) if self.is_batch else np.asarray(value)[None]
        self._transcript.note(name, value)

    def keep_interval(self, interval: Interval) -> None:
        """Keep the intervals of the estimate, from released or public numbers."""
        self._transcript.interval = interval

    def keep_path(self, iterates: Sequence[FloatArray]) -> None:
        """Keep the iterates (…, d) of a descent, from its start to the estimate."""
        path = np.stack(np.broadcast_arrays(*iterates))
        self._transcript.path = np.moveaxis(path, 1, -1) if self.is_batch else path[..., None]

    def check_complete(self) -> None:
        """Check that each planned release was made as often as planned."""
        if left := {label: k for label in self.plan if (k := self.times_left(label))}:
            raise RuntimeError(f"planned releases were not made: {left}")

    def _released(self, label: str, query: Bounded, form: str = "") -> FloatArray:
        """Release a query with the planned noise, in its shape."""
        slot, released = self._take(label, form), form or quantity(label)
        self._check_lemma(released, query)
        columns, shape = self._columns(np.asarray(query.value, dtype=float))
        with self._charged_to_group(slot):
            noisy = self._noisy(columns, label, query.sensitivity, released)
        return noisy.T.reshape(shape)

    def _event(self, label: str) -> Event:
        """Return the event of a release at a sensitivity of 1."""
        if label not in self._events:
            self._events[label] = self.plan[label].event("")
        return self._events[label]

    def _slot(self, label: str, kind: type[S]) -> S:
        """Return the slot of a label, or refuse another kind."""
        slot = self.plan[label]
        if not isinstance(slot, kind):
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, not as {kind.__name__}")
        return slot

    def _columns(self, value: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
        """Return values as columns, one for each replicate, (k, R), and the shape of the release."""
        if not self.is_batch:
            return value.reshape(-1, 1), value.shape
        shape = self._transcript.n_replicates, *value.shape[1:]
        return np.broadcast_to(value, shape).reshape(shape[0], -1).T, shape

    def _noisy(self, columns: FloatArray, label: str, sensitivity: Number, released: str) -> FloatArray:
        """Return columns with the noise of a slot; entries that are charged one by one have Laplace noise."""
        slot = self.plan[label]
        if not isinstance(slot, Laplace) or slot.n_entries == 1:
            return self._transcript.add_noise(columns, self._event(label), sensitivity, released)
        if len(columns) > slot.n_entries:
            raise RuntimeError(f"{released!r} is planned for {slot.n_entries} entries, got {len(columns)}")
        release = Release(released, self._lemmas[released][0])
        return release_laplace(
            self._transcript, release, columns, linf_sensitivity=sensitivity, epsilon=slot.epsilon
        )

    def _charged_to_group(self, slot: Slot) -> AbstractContextManager[Any]:
        return nullcontext() if slot.group is None else self._transcript.among(slot.group)

    def _take(self, label: str, form: str = "") -> Slot:
        if self.times_left(label) < 1 or (form and form not in self.plan[label].forms):
            raise RuntimeError(f"the release {form or label!r} exceeds the plan")
        self._made[label] += 1
        return self.plan[label]

    def _check_lemma(self, label: str, query: Bounded) -> None:
        declared = [lemma.formula for lemma in self._lemmas.get(label, ())]
        if query.formula not in declared:
            raise RuntimeError(
                f"the sensitivity of {label!r} must come from its declared lemma, {' or '.join(declared)}, "
                f"got {query.formula}"
            )


def _squared_mu(plan: Plan) -> float:
    """Return μ² of a plan of Gaussian releases; others are refused."""
    total = 0.0
    for label, slot in plan.items():
        if type(slot) is not Gaussian:
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, not as Gaussian")
        total += slot.times / slot.noise_multiplier**2
    return total


def is_within(event: Event, planned: Event) -> bool:
    """Return whether an event costs at most what another one does, up to rounding."""
    if isinstance(event, _COST_BY_EPSILON) and isinstance(planned, type(event)):
        return event.epsilon <= planned.epsilon * (1 + 1e-9) and event.count <= planned.count
    if isinstance(event, GaussianSketchEvent) and isinstance(planned, GaussianSketchEvent):
        left, right = event.ridge * planned.row_bound_squared, planned.ridge * event.row_bound_squared
        return event.n_rows <= planned.n_rows and left >= right * (1 - 1e-9)
    is_cheap = event.renyi(_ORDERS) <= planned.renyi(_ORDERS) * (1 + 1e-9)
    return bool(is_cheap.all()) and event.failure <= planned.failure * (1 + 1e-9)
