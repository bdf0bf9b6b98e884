"""Local privacy: public bounds, reports of devices, computations of the server, and their simulation.

An algorithm (:class:`LocalAlgorithm`) is two functions with public knowledge between them:

- client: public state → the function of its own row that a device computes, and its randomizer;
- server: public state, means of the reports of one group → the next public state.

Nothing else passes from people to the server. Each person is in one of ``n_rounds`` disjoint groups and sends
one report. Therefore rounds do not add up: a person's ε is that of the one report.

:func:`run_rounds` simulates both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.errors import InputError
from dpalgos.interval import Interval
from dpalgos.local.randomizers import Randomizer
from dpalgos.params import PrivateParams, checked, choice, positive
from dpalgos.release.checks import check_bound
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_rows_l2, truncate
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

_ENTRIES_AT_ONCE = 2**20
_PUBLIC_ORDER = 20_240_501  # any number that is not chosen by looking at people
_HIGHEST_MOMENT = 100.0

Notes = Mapping[str, FloatArray | str]


def _eigenvalue_bounds(name: str, value: Any) -> tuple[float, float]:
    low, high = _two_bounds(name, value)
    if not low <= high:
        raise InputError(f"{name} must be (low, high) with low at most high, got {value!r}; swap them")
    return low, high


def _moment(name: str, value: Any) -> tuple[float, float]:
    order, bound = _two_bounds(name, value)
    if not 2 < order <= _HIGHEST_MOMENT:
        raise InputError(f"{name} must be (q, M) with 2 < q ≤ {_HIGHEST_MOMENT:g}, got {value!r}")
    return order, bound


def _two_bounds(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(f"{name} must be a pair of positive numbers, got {value!r}; pass e.g. (1.0, 2.0)")
    return check_bound(name, value[0]), check_bound(name, value[1])


@dataclass(frozen=True, kw_only=True)
class LocalParams(PrivateParams):
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


def check_printed(params: PrivateParams, printed: str, **settings: object) -> None:
    """Refuse what ``calibration="paper"`` does not have: other mechanisms, settings of ``"tight"`` alone."""
    if params.calibration != "paper":
        return
    mechanism = getattr(params, "mechanism", "auto")
    if mechanism not in ("auto", printed):
        raise InputError(
            f"mechanism must be 'auto' or {printed!r} for calibration='paper', got {mechanism!r}; use "
            "calibration='tight'"
        )
    for name, value in settings.items():
        if value is not None:
            raise InputError(
                f"{name} must be left out for calibration='paper', got {value!r}; use calibration='tight'"
            )


P = TypeVar("P", bound=LocalParams)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportPart:
    """One vector of a report: its name, what protects it, and the function of a row that it holds.

    ``vectors`` maps rows X (m, d) and responses y (m,) to the private vectors of m people, (m, p, R) or (m,
    p, 1). Their norm is at most the randomizer's radius for any rows.
    """

    label: str
    randomizer: Randomizer
    vectors: Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicState:
    """Public knowledge after ``n_rounds`` rounds: the estimate so far, (d, R), and notes for its reader.

    ``standard_error`` (d, R) is that of the noise of the reports, which is known; other errors are not in it.
    """

    n_rounds: int
    coef: FloatArray
    standard_error: FloatArray
    notes: Notes = field(default_factory=dict)
    interval: Interval | None = None


class LocalAlgorithm(Protocol):
    """An estimator under local privacy, given its public settings, the columns and the number of people."""

    @property
    def n_rounds(self) -> int:
        """The number of groups of people, which report one after the other."""

    def client(self, state: PublicState) -> tuple[ReportPart, ...]:
        """Return the reports of the next group's devices."""

    def server(self, state: PublicState, means: Sequence[FloatArray], n_reports: int) -> PublicState:
        """Return what follows from the means of the group's reports, one (p, R) array per part."""


def first_state(n_features: int, n_replicates: int = 1) -> PublicState:
    """Return the public state before anyone has reported: coefficients of zero."""
    zero: FloatArray = np.zeros((n_features, n_replicates))
    return PublicState(n_rounds=0, coef=zero, standard_error=zero)


def public_groups(n_people: int, n_rounds: int) -> list[IntArray]:
    """Return the indices of the people of each round: a partition that depends on their number alone.

    Groups of ⌊n/T⌋ people in a fixed random order, since a sorted file would make groups that differ; the
    last one takes the remainder. An empty group is refused.
    """
    if n_people < n_rounds:
        raise InputError(
            f"n_rounds must be at most the number of rows, since every round asks other people: got "
            f"{n_rounds} rounds for {n_people} rows; pass n_rounds={n_people} or fewer"
        )
    if n_rounds == 1:
        return [np.arange(n_people)]
    order = np.random.default_rng(_PUBLIC_ORDER).permutation(n_people)
    size = n_people // n_rounds
    cuts = [size * t for t in range(1, n_rounds)]
    return [np.sort(group) for group in np.split(order, cuts)]


def run_rounds(
    sample: Sample, params: P, transcript: Transcript, algorithm: Callable[[P, int, int], LocalAlgorithm]
) -> FloatArray:
    """Simulate devices and server on the rows of a sample, and return the final estimate, (d, R).

    ``algorithm`` maps parameters, columns and people to what devices and server compute. Notes state what
    shuffling the reports, or showing only their sum, would give centrally at δ.
    """

    def simulate(X: FloatArray, y: FloatArray, transcript: Transcript) -> FloatArray:
        return _simulate(X, y, transcript, algorithm(params, X.shape[1], len(X)))

    y = sample.response()
    if sample.row_mask is None:
        return simulate(sample.X, y, transcript)
    # Replicates that use different rows are different populations.
    states, intervals = [], []
    for replicate, rows in enumerate(sample.row_mask.T):
        part_of_replicate = Transcript(
            transcript.noise.select(slice(replicate, replicate + 1)), Relation.LOCAL
        )
        states.append(simulate(sample.X[rows], y[rows], part_of_replicate))
        if part_of_replicate.interval is not None:
            intervals.append(part_of_replicate.interval)
    transcript.events.extend(part_of_replicate.events)
    transcript.diagnostics.update(part_of_replicate.diagnostics)
    if intervals:
        transcript.interval = Interval.joined(intervals)
    return np.concatenate(states, axis=1)


def _simulate(X: FloatArray, y: FloatArray, transcript: Transcript, algorithm: LocalAlgorithm) -> FloatArray:
    """Simulate one population, all of whose replicates use the same rows."""
    state = first_state(X.shape[1], transcript.n_replicates)
    group_number = 0
    for people in public_groups(len(X), algorithm.n_rounds):
        parts = algorithm.client(state)
        sums: list[FloatArray] = [np.zeros((part.randomizer.size, transcript.n_replicates)) for part in parts]
        at_once = max(1, _ENTRIES_AT_ONCE // sum(part.randomizer.size for part in parts))
        for start in range(0, len(people), at_once):
            rows = people[start : start + at_once]
            for part, total in zip(parts, sums, strict=True):
                total += _reports(X[rows], y[rows], part, transcript, group_number)
            group_number += 1
        state = algorithm.server(state, [total / len(people) for total in sums], len(people))
    for name, note in state.notes.items():
        transcript.note(name, note)
    transcript.interval = state.interval
    return state.coef


def _reports(
    X: FloatArray, y: FloatArray, part: ReportPart, transcript: Transcript, group: int
) -> FloatArray:
    """Return the sum of the reports of some people, (p, R).

    They are released as one long vector: a neighbor changes the entries of one person.
    """
    m, p, n_replicates = len(X), part.randomizer.size, transcript.n_replicates
    values = part.vectors(X, y)
    with transcript.among(group):
        reports = transcript.publish(
            np.broadcast_to(values, (m, p, n_replicates)).reshape(m * p, n_replicates),
            lambda: part.randomizer.perturb(values, transcript.noise).reshape(m * p, n_replicates),
            part.randomizer.event(part.label),
        )
    return np.asarray(reports.reshape(m, p, n_replicates).sum(axis=0))
