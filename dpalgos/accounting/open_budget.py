"""A budget (ε, δ) that a user opens around several private answers, which are summed.

Answers are summed by a filter of :mod:`dpalgos.accounting.filters`, which holds when each is chosen by those
before it; which filter is fixed when the budget is opened. Events count from the moment at which they are
recorded, which is before their noise is drawn. Every thread of the process counts. Other processes are
refused, or warned about where they cannot be seen.
"""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dpalgos.accounting.events import Event, GaussianEvent, Relation
from dpalgos.accounting.filters import concentrated_filter_epsilon, gaussian_filter_epsilon
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError, PrivacyWarning

# Names the process that has opened a budget, for the processes that it starts.
_OPENED_BY = "DPALGOS_BUDGET_OPENED_BY"

# The part of δ that a budget sets aside for failures by default: it costs about half a percent of ε.
_FAILURE_SHARE = 0.1


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
    gaussian_only : bool
        Whether only Gaussian answers fit, which add up exactly (their μ²). Otherwise all answers do whose ρ
        of zero-concentrated DP is known, and several Gaussian ones cost about 8 % of ε more.
    failure_delta : float, optional
        The part of ``delta`` set aside for answers that may fail with a probability, as those of ``tukey_em``
        and ``objective_perturbation_glm`` do; by default a tenth. The first answer alone may take all of δ.

    Attributes
    ----------
    spent_epsilon : float
        The ε at ``delta`` that the answers so far prove together.

    Raises
    ------
    InputError
        If an answer would exceed the budget, is of a kind that it does not hold, states its guarantee under
        another neighboring relation, asks for several replicates, or is computed in another process than the
        one that opened the budget. What a refused answer has drawn is dropped and costs nothing. An answer
        that ends in another error costs what it had recorded until then.

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

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: Relation = Relation.CENTRAL,
        gaussian_only: bool = False,
        failure_delta: float | None = None,
    ) -> None:
        check_budget(epsilon, delta)
        if gaussian_only and failure_delta is not None:
            raise InputError(
                f"failure_delta must be left out with gaussian_only, got {failure_delta!r}: Gaussian answers "
                "never fail"
            )
        set_aside = _FAILURE_SHARE * delta if failure_delta is None else failure_delta
        if isinstance(set_aside, bool | str) or not 0 <= set_aside < delta:
            raise InputError(
                f"failure_delta must be at least 0 and below delta = {delta:g}, got {failure_delta!r}; pass "
                f"e.g. {delta / 2:g}"
            )
        self.epsilon, self.delta, self.relation = epsilon, delta, relation
        self.gaussian_only, self.failure_delta = gaussian_only, 0.0 if gaussian_only else set_aside
        self._answers: list[Sequence[Event]] = []

    def __repr__(self) -> str:
        holds = "gaussian_only=True" if self.gaussian_only else f"failure_delta={self.failure_delta!r}"
        return f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}, relation={self.relation}, {holds})"

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
        with _LOCK:
            return self._proved(self._answers)

    def _proved(self, calls: Sequence[Sequence[Event]]) -> float:
        calls = [call for call in calls if call]
        if self.gaussian_only:
            return gaussian_filter_epsilon(calls, self.delta)
        return concentrated_filter_epsilon(calls, self.delta, self.failure_delta)

    def _check(self, events: Sequence[Event]) -> None:
        """Refuse the answer, which is one of those that are counted, if they do not fit together.

        The sentence depends on what was answered before, and not on how far this answer came.
        """
        others = [call for call in self._answers if call is not events]
        if any(event.relation is not self.relation for event in events):
            raise InputError(
                f"the budget protects a {self.relation.unit_of_privacy}, got an answer that protects a "
                f"{events[0].relation.unit_of_privacy}; guarantees of different units do not add up, open a "
                "Budget with the other relation"
            )
        if self.gaussian_only and not all(isinstance(event, GaussianEvent) for event in events):
            raise InputError(
                "gaussian_only of the budget is True, got an answer that is not Gaussian alone; the answer "
                "is withheld, open a Budget without gaussian_only, or choose a Gaussian estimator"
            )
        if not self._proved([*others, events]) <= self.epsilon * (1 + 1e-9):
            raise InputError(
                f"epsilon of the budget is {self.epsilon:g} at delta = {self.delta:g}, of which failures may "
                f"take {self.failure_delta:g}, got an answer that exceeds it ({self._proved(others):.4g} was "
                "spent before this one); the answer is withheld, ask for less (a smaller delta where an "
                "answer may fail), or open a larger budget, or one with more failure_delta"
            )


# Of the whole process: a thread that computes an answer does not know which budget its creator has opened.
_OPEN: list[Budget] = []
_LOCK = threading.Lock()


@contextmanager
def charged_to_open_budgets(events: Sequence[Event], replicates: int) -> Iterator[None]:
    """Count an answer's events in every open budget, from when they are recorded; refuse what exceeds one.

    ``events`` is the list to which the answer's events are added before their noise is drawn. It stays with
    the budgets if the answer ends in an error, and is dropped where the answer is withheld.
    """
    _refuse_other_processes()
    with _LOCK:
        budgets = list(_OPEN)
        if budgets and replicates != 1:
            raise InputError(
                f"replicates must be 1 inside a Budget, got {replicates}: each would be another release"
            )
        for budget in budgets:
            budget._answers.append(events)
    try:
        yield
    finally:
        # Also after an error, of which nobody may learn where the answer itself would have been withheld.
        with _LOCK:
            try:
                for budget in budgets:
                    budget._check(events)
            except InputError as refusal:
                for budget in budgets:
                    budget._answers = [call for call in budget._answers if call is not events]
                raise refusal from None


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
