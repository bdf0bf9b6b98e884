"""A budget (ε, δ) that a user opens around several private answers, which are summed.

Answers are summed by :func:`dpalgos.accounting.composition.adaptive_epsilon`, which holds when each is chosen
by those before it. Every thread of the process counts. Other processes are refused, or warned about where
they cannot be seen.
"""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Sequence

from dpalgos.accounting.composition import adaptive_epsilon
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError, PrivacyWarning

# Names the process that has opened a budget, for the processes that it starts.
_OPENED_BY = "DPALGOS_BUDGET_OPENED_BY"


class Budget:
    """An (ε, δ) for several answers: with it open, each is counted, and what would exceed it is withheld.

    While the ``with`` block is open, every private answer of :func:`dpalgos.estimate` and of the scikit-learn
    classes in this process counts, in whichever thread it is computed. Processes that are started inside
    refuse to answer. For a pool of workers that runs already a ``PrivacyWarning`` says that its answers are
    not counted: use threads, or ``n_jobs=1``.

    Parameters
    ----------
    epsilon, delta : float
        The whole.
    relation : Relation
        What neighbors differ in; by default one row.

    Attributes
    ----------
    spent_epsilon : float
        The ε at ``delta`` that the answers so far prove together.

    Raises
    ------
    InputError
        If an answer would exceed the budget, states its guarantee under another neighboring relation, asks
        for several replicates, or is computed in another process than the one that opened the budget.

    Examples
    --------
    >>> import numpy as np, dpalgos
    >>> ages = np.array([[34.0], [51.0], [29.0], [62.0]])
    >>> settings = {"delta": 1e-6, "lower": 0.0, "upper": 100.0, "rng": np.random.default_rng(0)}
    >>> with dpalgos.Budget(epsilon=2, delta=1e-6) as budget:
    ...     first = dpalgos.estimate("box_mean", ages, epsilon=1, **settings)
    >>> round(budget.spent_epsilon, 2)
    1.0
    """

    def __init__(self, *, epsilon: float, delta: float, relation: Relation = Relation.CENTRAL) -> None:
        check_budget(epsilon, delta)
        self.epsilon, self.delta, self.relation = epsilon, delta, relation
        self._answers: list[tuple[Event, ...]] = []

    def __repr__(self) -> str:
        return f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}, relation={self.relation})"

    def __enter__(self) -> "Budget":
        _refuse_other_processes()
        _warn_of_running_processes()
        with _LOCK:
            _OPEN.append(self)
            os.environ[_OPENED_BY] = str(os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            _OPEN.remove(self)
            if not _OPEN:
                os.environ.pop(_OPENED_BY, None)

    @property
    def spent_epsilon(self) -> float:
        return adaptive_epsilon(self._answers, self.delta) if self._answers else 0.0

    def _check(self, events: tuple[Event, ...]) -> None:
        if any(event.relation is not self.relation for event in events):
            raise InputError(
                f"the budget protects a {self.relation.unit_of_privacy}, got an answer that protects a "
                f"{events[0].relation.unit_of_privacy}; guarantees of different units do not add up, open a "
                "Budget with the other relation"
            )
        total = adaptive_epsilon([*self._answers, events], self.delta)
        if total > self.epsilon * (1 + 1e-9):
            raise InputError(
                f"epsilon of the budget is {self.epsilon:g} at delta = {self.delta:g}, got answers that "
                f"prove {total:.4g} together ({self.spent_epsilon:.4g} before this one); the answer is "
                "withheld, ask for less or open a larger budget"
            )


# Of the whole process: a thread that computes an answer does not know which budget its creator has opened.
_OPEN: list[Budget] = []
_LOCK = threading.Lock()


def charge_open_budgets(events: Sequence[Event], replicates: int) -> None:
    """Add one answer's events to every open budget, or refuse where one would be exceeded."""
    _refuse_other_processes()
    if _OPEN and replicates != 1:
        raise InputError(
            f"replicates must be 1 inside a Budget, got {replicates}: each would be another release"
        )
    with _LOCK:
        for budget in _OPEN:
            budget._check(tuple(events))
        for budget in _OPEN:
            budget._answers.append(tuple(events))


def _refuse_other_processes() -> None:
    opened_by = os.environ.get(_OPENED_BY)
    if opened_by is not None and opened_by != str(os.getpid()):
        raise InputError(
            f"n_jobs must be 1 inside a Budget, got an answer in process {os.getpid()}, which was started "
            f"while process {opened_by} had a Budget open and cannot be counted there; compute answers in "
            "the process that opens the budget (its threads are counted)"
        )


def _warn_of_running_processes() -> None:
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if multiprocessing.active_children() or method == "forkserver":
        warnings.warn(
            "a Budget counts answers of this process only: what worker processes that run already compute is "
            "not counted; use threads, or n_jobs=1",
            PrivacyWarning,
            stacklevel=3,
        )
