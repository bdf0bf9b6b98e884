"""Local privacy: public bounds, reports of devices, and their simulation.

A device computes a function of its own row and of public knowledge, and sends what a randomizer makes of it
(:class:`ReportPart`). The server sees the means of the reports of one group, and nothing else passes from
people to it. Each person is in one of several disjoint groups and sends one report. Therefore rounds do not
add up: a person's ε is that of the one report.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import ceil
from typing import Any

import numpy as np

from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.local.randomizers import Randomizer
from dpalgos.params import checked, choice, positive
from dpalgos.release.checks import check_bound
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.typing import FloatArray, IntArray

_ENTRIES_AT_ONCE = 2**20
_PUBLIC_ORDER = 20_240_501  # any number that is not chosen by looking at people
_HIGHEST_MOMENT = 100.0


def _eigenvalue_bounds(name: str, value: Any) -> tuple[float, float]:
    low, high = _two_bounds(name, value)
    if not low <= high:
        raise InputError(f"{name} must be (low, high) with low at most high, got {shown(value)}; swap them")
    return low, high


def _moment(name: str, value: Any) -> tuple[float, float]:
    order, bound = _two_bounds(name, value)
    if not 2 < order <= _HIGHEST_MOMENT:
        raise InputError(f"{name} must be (q, M) with 2 < q ≤ {_HIGHEST_MOMENT:g}, got {shown(value)}")
    return order, bound


def _two_bounds(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(
            f"{name} must be a pair of positive numbers, got {shown(value)}; pass e.g. (1.0, 2.0)"
        )
    return check_bound(name, value[0]), check_bound(name, value[1])


@dataclass(frozen=True, kw_only=True)
class LocalEstimator(PrivateEstimator):
    """Keywords that all local estimators share."""

    covariate_bound: float = positive("τ₁: every entry of a row is truncated to ±τ₁")
    row_bound: float | None = positive("r: rows are clipped to this ℓ2 norm; None: √d τ₁", default=None)
    response_bound: float | None = positive(
        "τ₂: responses are truncated to ±τ₂; needed unless response_moment is given", default=None
    )
    response_moment: tuple[float, float] | None = checked(
        "(q, M): E|y|^q ≤ M, for responses with heavy tails; τ₂ follows from it and n",
        _moment,
        default=None,
        optional=True,
    )
    covariance_eigenvalue_bounds: tuple[float, float] | None = checked(
        "(low, high): eigenvalues of the covariates' second moments; None: (τ₁², τ₁²)",
        _eigenvalue_bounds,
        default=None,
        optional=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.response_bound is None) == (self.response_moment is None):
            raise InputError(
                "response_bound or response_moment must be given, one of the two, got "
                + ("none" if self.response_bound is None else "both")
            )

    @property
    def eigenvalue_bounds(self) -> tuple[float, float]:
        """(low, high), with their default."""
        return self.covariance_eigenvalue_bounds or (self.covariate_bound**2, self.covariate_bound**2)

    def row_norm(self, n_features: int) -> float:
        return self.row_bound or float(np.sqrt(n_features)) * self.covariate_bound

    def clipped(self, X: FloatArray) -> FloatArray:
        """Return rows with entries within ±τ₁ and, unless as printed, of ℓ2 norm at most r."""
        X = truncate(X, self.covariate_bound)
        return X if self.calibration == "paper" else clip_rows_l2(X, self.row_norm(X.shape[1]))

    def longest_row(self, n_features: int) -> FloatArray:
        """Return a clipped row of the largest norm, (d,)."""
        return np.asarray(self.clipped(np.full((1, n_features), self.covariate_bound))[0])

    def response_level(self, n_features: int, n_people: int) -> float:
        if self.response_bound is not None:
            return self.response_bound
        assert self.response_moment is not None
        moment, printed = self.response_moment, self.calibration == "paper"
        return heavy_tail_level(
            n_people, n_features, self.epsilon, self.delta, moment=moment, printed=printed
        )


def heavy_tail_level(
    n_people: int,
    n_features: int,
    epsilon: float,
    delta: float,
    *,
    moment: tuple[float, float],
    printed: bool,
) -> float:
    """Return τ₂ for responses with E|y|^(2p) ≤ M, ``moment`` = (2p, M), 2p > 2.

    ``printed``, Theorem 5 (there M = 1): (nε²/(log d log(1/δ)))^(1/(2p)), of rate (p − 1)/(2p) in nε².
    Else balanced against the noise: M^(1/(2p)) (nε²/(d log(1/δ)))^(1/(4p)), at which the bias, of order
    τ₂^(1 − 2p), is of the size of the noise, τ₂ √d/(√n ε), for the rate (2p − 1)/(4p).
    """
    order, bound = moment
    signal = n_people * epsilon**2 / np.log(1 / delta)
    if printed:
        return float((signal / np.log(max(n_features, 2))) ** (1 / order))
    return float(bound ** (1 / order) * (signal / n_features) ** (1 / (2 * order)))


def mechanism_choice(*more: str) -> Any:
    """Declare the randomizer that protects a report: a pure one, or one of ``more``."""
    return choice(
        "the randomizer of a report: 'l2' and 'privunit' are ε-DP (δ = 0), 'gaussian' is (ε, δ); 'auto': as "
        "printed for calibration='paper', else the better of the first two",
        ("auto", "l2", "privunit", *more),
        default="auto",
    )


def check_printed(params: PrivateEstimator, printed: str, **settings: object) -> None:
    """Refuse what ``calibration="paper"`` does not have: other mechanisms, settings of ``"tight"`` alone."""
    if params.calibration != "paper":
        return
    mechanism = getattr(params, "mechanism", "auto")
    if mechanism not in ("auto", printed):
        raise InputError(
            f"mechanism must be 'auto' or {printed!r} for calibration='paper', got {shown(mechanism)}; use "
            "calibration='tight'"
        )
    for name, value in settings.items():
        if value is not None:
            raise InputError(
                f"{name} must be left out for calibration='paper', "
                f"got {shown(value)}; use calibration='tight'"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportPart:
    """One vector of a report: its name, what protects it, and the function of a row that it holds.

    ``vectors`` maps rows X (m, d) and responses y (m,) to the private vectors of m people, (m, p, R) or (m,
    p, 1). Their norm is at most the randomizer's radius for any rows.
    """

    label: str
    randomizer: Randomizer
    vectors: Callable[[FloatArray, FloatArray], FloatArray]


def public_groups(n_people: int, n_rounds: int) -> list[IntArray]:
    """Return the indices of the people of each round: a partition that depends on their number alone.

    Groups of ⌊n/T⌋ people in a fixed random order, since a sorted file would make groups that differ; the
    last one takes the remainder. An empty group is refused.
    """
    sizes = group_sizes(n_people, n_rounds)
    if n_rounds == 1:
        return [np.arange(n_people)]
    order = np.random.default_rng(_PUBLIC_ORDER).permutation(n_people)
    return [np.sort(group) for group in np.split(order, np.cumsum(sizes)[:-1])]


def group_sizes(n_people: int, n_rounds: int) -> list[int]:
    """Return the numbers of people of the rounds, or refuse an empty group."""
    if n_people < n_rounds:
        raise InputError(
            f"n_rounds must be at most the number of rows, since every round asks other people: got "
            f"{n_rounds} rounds for {n_people} rows; pass n_rounds={n_people} or fewer"
        )
    size = n_people // n_rounds
    return [*[size] * (n_rounds - 1), n_people - (n_rounds - 1) * size]


def report_plan(n_people: float, randomizers: Mapping[str, Randomizer], n_rounds: int = 1) -> Plan:
    """Return a slot for each part of the report of each group of people.

    People of a round whose reports are drawn at once are a group. Groups are disjoint.
    """
    at_once = people_at_once(randomizers.values())
    n_groups = sum(ceil(size / at_once) for size in group_sizes(int(n_people), n_rounds))
    return {
        f"{label} {number}": replace(randomizer.event(label), group=number)
        for number in range(n_groups)
        for label, randomizer in randomizers.items()
    }


def people_at_once(randomizers: Iterable[Randomizer]) -> int:
    """Return how many people's reports are drawn at once: it bounds memory."""
    return max(1, _ENTRIES_AT_ONCE // sum(each.size for each in randomizers))


class People:
    """The devices of one population, all of whose replicates have the same rows: each reports once.

    Groups of people report one after the other, in ``n_rounds`` rounds. Arrays have replicates last.
    """

    def __init__(self, rows: Rows, spend: Spend, n_rounds: int = 1) -> None:
        everyone = rows.whole()
        self._X, self._y, self._spend = everyone.X, everyone.y, spend
        self._groups, self._numbers = iter(public_groups(len(self._X), n_rounds)), count()

    def report(self, *parts: ReportPart) -> tuple[list[FloatArray], int]:
        """Return the means of the next group's reports, (p, R) per part, and the number of people in it."""
        people = next(self._groups)
        at_once = people_at_once(part.randomizer for part in parts)
        sums = []
        for start in range(0, len(people), at_once):
            some, number = people[start : start + at_once], next(self._numbers)
            X, y = self._X[some], self._y[some]
            sums.append([_reports(self._spend, f"{part.label} {number}", X, y, part) for part in parts])
        return [np.sum(each, axis=0) / len(people) for each in zip(*sums, strict=True)], len(people)


def _reports(spend: Spend, label: str, X: FloatArray, y: FloatArray, part: ReportPart) -> FloatArray:
    """Return the sum of the reports of some people, (p, R).

    They are released as one long vector: a neighbor changes the entries of one person.
    """
    m, p, n_replicates = len(X), part.randomizer.size, spend.noise.n_replicates
    values = part.vectors(X, y)
    reports = spend.release(
        label,
        np.broadcast_to(values, (m, p, n_replicates)).reshape(m * p, n_replicates),
        lambda: part.randomizer.perturb(values, spend.noise).reshape(m * p, n_replicates),
        proved=part.randomizer.event(part.label),
    )
    return np.asarray(reports.reshape(m, p, n_replicates).sum(axis=0))
