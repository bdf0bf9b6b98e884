"""A budget that several estimates of one process share, by the filter of :mod:`dpalgos.accounting.budget`."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpalgos.accounting.budget import Spending, spending
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError, shown
from dpalgos.release.checks import is_number

# The default part of δ that a budget sets aside for failures; it costs about half a percent of ε.
_FAILURE_SHARE = 0.1


class Budget:
    """An (ε, δ) that several estimates share; an estimate that would exceed it is withheld.

    Pass it to :func:`dpalgos.estimate`, to `dpalgos.formula.fit` or to a scikit-learn class as ``budget``.
    It never changes, and counts the estimates of all threads of one process. A copy, such as in
    scikit-learn's clones, is the same budget. It cannot be pickled: another process would make estimates
    that nobody counts.

    Parameters
    ----------
    epsilon, delta : float
        The total budget.
    relation : Relation
        The neighboring relation; by default, neighbors differ in one row.
    failure_delta : float, optional
        The part of ``delta`` set aside for estimates whose guarantee may fail, such as those of ``tukey_em``
        and ``objective_perturbation_glm``; by default a tenth. The first estimate may take all of δ.

    Attributes
    ----------
    spent_epsilon : float
        The ε at ``delta`` that all estimates so far prove together.

    Raises
    ------
    InputError
        If an estimate would exceed the budget, or has another neighboring relation or several replicates.
        Also if its generator is in the state in which an earlier estimate began. A refused estimate is
        dropped and costs nothing. An estimate that ends in another error costs the events recorded so far.

    Examples
    --------
    >>> import numpy as np, dpalgos
    >>> ages = np.array([[34.0], [51.0], [29.0], [62.0]])
    >>> settings = {"delta": 1e-6, "lower": 0.0, "upper": 100.0, "rng": np.random.default_rng(0)}
    >>> budget = dpalgos.Budget(epsilon=2, delta=1e-6)
    >>> first = dpalgos.estimate("box_mean", ages, epsilon=1, budget=budget, **settings)
    >>> round(budget.spent_epsilon, 2)
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: Relation = Relation.CENTRAL,
        failure_delta: float | None = None,
    ) -> None:
        check_budget(epsilon, delta)
        set_aside = _FAILURE_SHARE * delta if failure_delta is None else failure_delta
        if not is_number(set_aside) or not 0 <= set_aside < delta:
            raise InputError(
                f"failure_delta must be at least 0 and below delta = {delta:g}, "
                f"got {shown(failure_delta)}; pass "
                f"e.g. {delta / 2:g}"
            )
        if not isinstance(relation, Relation):
            raise InputError(f"relation must be a Relation, such as Relation.USER, got {shown(relation)}")
        self.epsilon, self.delta, self.relation = epsilon, delta, relation
        self.failure_delta = set_aside
        self._answers: list[Sequence[Event]] = []
        self._seeds: list[bytes] = []  # of all estimates, including those that were withheld
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return (
            f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}, relation={self.relation}, "
            f"failure_delta={self.failure_delta!r})"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            raise InputError(
                f"{name} of a budget cannot be changed, got {shown(value)}; make another for other data"
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise InputError(f"{name} of a budget cannot be changed; make another for other data")

    def __copy__(self) -> "Budget":
        return self

    def __deepcopy__(self, _: object) -> "Budget":
        return self

    def __reduce__(self) -> Any:
        raise InputError(
            "budget must stay in its process, got a copy for a file or another process, which could make "
            "uncounted estimates; use threads or n_jobs=1, and save a model after set_params(budget=None)"
        )

    @property
    def spent_epsilon(self) -> float:
        with self._lock:
            return self._proved(self._answers)

    def own_generator(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the generator of one estimate, which no other estimate of the budget shares.

        Its seed is drawn from ``rng`` and includes the number of the estimate. Therefore generators with
        overlapping streams still give independent noise.

        Raises
        ------
        InputError
            If ``rng`` is in the state in which an earlier estimate began, or in another process.
        """
        if os.getpid() != self._process:
            self.__reduce__()  # a fork is a copy as well
        seed = rng.integers(2**32, size=8, dtype=np.uint32)
        with self._lock:
            if seed.tobytes() in self._seeds:
                raise InputError(
                    "rng must not be in a state in which an earlier estimate of the budget began, got the "
                    "same state again; keep one generator for all estimates, or leave random_state out"
                )
            self._seeds.append(seed.tobytes())
            number = len(self._seeds)
        return np.random.default_rng(np.random.SeedSequence(seed.tolist(), spawn_key=(number,)))

    @contextmanager
    def counting(self, events: Sequence[Event]) -> Iterator[None]:
        """Count the events of an estimate from when they are recorded, before their noise is drawn.

        If the estimate ends in an error, its events still count.

        Parameters
        ----------
        events : list of Event
            The list to which the run adds them.

        Raises
        ------
        InputError
            If the estimate exceeds the budget or protects another unit. It is withheld and costs nothing.
        """
        with self._lock:
            self._answers.append(events)
        try:
            yield
        finally:
            # Also after an error: where the estimate would have been withheld, its error is withheld as well.
            with self._lock:
                try:
                    self._check(events)
                except InputError as refusal:
                    self._answers[:] = [call for call in self._answers if call is not events]
                    raise refusal from None

    def _proved(self, calls: Sequence[Sequence[Event]]) -> float:
        return filter_epsilon([call for call in calls if call], self.delta, self.failure_delta)

    def _check(self, events: Sequence[Event]) -> None:
        """Refuse the newest estimate if all counted ones together exceed the budget.

        The message depends on earlier estimates only, and not on how far this estimate came.
        """
        others = [call for call in self._answers if call is not events]
        if any(event.relation is not self.relation for event in events):
            raise InputError(
                f"the budget protects a {self.relation.unit_of_privacy}, got an estimate that protects a "
                f"{events[0].relation.unit_of_privacy}; guarantees for different units do not add up; make a "
                "Budget with the other relation"
            )
        if not self._proved([*others, events]) <= self.epsilon * (1 + 1e-9):
            raise InputError(
                f"epsilon of the budget is {self.epsilon:g} at delta = {self.delta:g} (failure_delta = "
                f"{self.failure_delta:g}), got an estimate that exceeds it; {self._proved(others):.4g} was "
                "spent before. The estimate is withheld. Request a smaller epsilon, or a smaller delta if an "
                "estimate may fail. Otherwise make a larger budget, or one with a larger failure_delta"
            )


def filter_epsilon(calls: Sequence[Sequence[Event]], delta: float, failure_delta: float) -> float:
    """Return the ε at δ that adaptively chosen estimates prove.

    ``failure_delta`` is the part of δ set aside for failures. If failures exceed it, ε is infinite. A single
    estimate is composed exactly.
    """
    if len(calls) <= 1:
        return certified_epsilon([event for call in calls for event in call], delta)
    return sum((spending(call) for call in calls), Spending()).epsilon(delta, failure_delta)
