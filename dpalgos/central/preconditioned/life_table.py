"""The pooled life table of followed persons: the first release of a regression of times to an event.

Events D_k and the time at risk Y_k, in parts of period k = 1 … K, are released for all persons together.
Their ratio is the pooled hazard h_k. Operational time is the pooled cumulative hazard up to a time, as a part
of the whole. It is a monotone function of time, so covariates and risk sets stay. In it, the pooled hazard
is even:

    h(t | x) = h_pooled(t) · exp(a + b_1 φ_1(τ) + b_2 φ_2(τ) + x'β),   φ_1 = 2τ − 1,  φ_2 = (3 φ_1² − 1)/2

The slope b_1 and the curve b_2 are estimated with β. The baseline hazard differs from the pooled one if
covariates change the risk sets, or change themselves: both are smooth in operational time.

The hazards h_k that are used follow a smooth curve, exp(c_0 + c_1 φ_1 + c_2 φ_2) per unit of time, from all
released numbers. Deviations of periods from it are kept as far as noise does not explain them. The slope and
the curve are effects of the regression, too. So noise along them does no harm. Other noise would move the
effects of covariates that follow time.

Sensitivity: a person's events by period are nonnegative numbers with a norm of at most 1. The time at risk
lies in [0, 1] in each period, and is divided by √K
(:func:`dpalgos.central.preconditioned.life_table.life_table_sensitivity`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from dpalgos.core.record import Noisy
from dpalgos.core.rows import Rows
from dpalgos.mechanisms.sensitivity import Bounded, lemma
from dpalgos.rows.follow_up import FollowUpOfRows
from dpalgos.rows.products import clip_factor
from dpalgos.typing import BoolArray, FloatArray, Number

LIFE_TABLE_NOTE = "life_table"  # of diagnostics: events and times at risk by period, and the noise of events
LEAST_PART = 1e-12  # of the pooled cumulative hazard, for a row
_LEAST_EVENTS = 0.5  # by which the hazard of a period is drawn towards the mean hazard, without noise
_STEEPEST = 8.0  # a logarithm of the smooth curve
_EXACT = 1e-15  # so that the curve does not depend on rounding
_VISIBLE = 3.0  # noise standard deviations of the events of a period whose hazard is shown


@dataclass(frozen=True, eq=False, kw_only=True)
class LifeTable:
    """A released life table.

    Attributes
    ----------
    events, at_risk : (K,) arrays
        Events and the time at risk in parts of each period, as released.
    lengths : (K,) array
        The public lengths of periods, in any unit.
    std : float
        The standard deviation of the noise of events; that of times at risk is √K times as large.
    """

    events: FloatArray
    at_risk: FloatArray
    lengths: FloatArray
    std: float

    @classmethod
    def of(cls, released: Noisy, n_units: float, lengths: FloatArray) -> "LifeTable":
        """Return the table of a released mean of :func:`life_table`."""
        events, at_risk = released.value.reshape(2, -1) * n_units
        at_risk = at_risk * np.sqrt(len(events))
        return cls(events=events, at_risk=at_risk, lengths=lengths, std=float(released.std) * n_units)

    @classmethod
    def of_note(cls, note: FloatArray, lengths: FloatArray) -> "LifeTable":
        """Return the table that a result keeps in its diagnostics."""
        *both, std = np.ravel(note)
        events, at_risk = np.reshape(both, (2, -1))
        return cls(events=events, at_risk=at_risk, lengths=lengths, std=float(std))

    @property
    def as_note(self) -> FloatArray:
        """The table as a diagnostic, (2K + 1,)."""
        return np.concatenate([self.events, self.at_risk, [self.std]])

    @cached_property
    def hazards(self) -> FloatArray:
        """The hazard of each period, (K,), drawn towards a smooth curve as far as noise explains the rest."""
        K, least = len(self.events), max(self.std, _LEAST_EVENTS)
        at_risk, lengths = np.maximum(self.at_risk, least), self.lengths / self.lengths.sum()
        rate = max(float(np.maximum(self.events, 0).sum()), least) / float(at_risk @ lengths)
        of_time = functions_of(lengths)

        def smooth(curve: FloatArray) -> FloatArray:
            even = lengths * np.exp(_limited(of_time @ curve[1:]))
            columns = functions_of(even / even.sum())
            return np.asarray(rate * lengths * np.exp(_limited(curve[0] + columns @ curve[1:])))

        def excess(hazards: FloatArray) -> FloatArray:
            return np.asarray((self.events - at_risk * hazards) / (least * np.sqrt(1 + K * hazards**2)))

        def errors(curve: FloatArray) -> FloatArray:
            return np.append(excess(smooth(curve)), curve[1:])

        fit = scipy.optimize.least_squares(
            errors, np.zeros(3), method="lm", ftol=_EXACT, xtol=_EXACT, gtol=_EXACT
        )
        hazards = smooth(fit.x)
        expected, beyond = at_risk * hazards, float((excess(hazards) ** 2).sum())
        factor = max(1 - (K - 3) / beyond, 0.0) if K > 3 and beyond > 0 else float(K <= 3)
        events = expected + factor * (self.events - expected)
        return np.asarray(np.maximum(events, np.minimum(expected, least) / 2) / at_risk)

    @property
    def parts(self) -> FloatArray:
        """The part of the pooled cumulative hazard that lies in each period, (K,)."""
        return np.asarray(self.hazards / self.hazards.sum())

    @property
    def times(self) -> FloatArray:
        """The functions φ of operational time in the middle of each period, (K, 2)."""
        return functions_of(self.parts)

    @property
    def weights(self) -> FloatArray:
        """The part of the events that is expected in each period, (K,)."""
        expected = self.hazards * np.maximum(self.at_risk, max(self.std, _LEAST_EVENTS))
        return np.asarray(expected / expected.sum())

    @property
    def late(self) -> int:
        """The first period of the later half of the events; K if that is a part of the last period."""
        events = np.maximum(self.events, 0.0)
        later = np.flatnonzero(np.cumsum(events) - events / 2 > events.sum() / 2)
        return int(later[0]) if len(later) else len(events)

    @property
    def is_visible(self) -> BoolArray:
        """Whether a period has more events than noise may make, (K,)."""
        return np.asarray(self.events > _VISIBLE * self.std)

    @property
    def log_variance(self) -> FloatArray:
        """The variance of the logarithm of hazards, of sampling and of noise, (K,)."""
        events = np.maximum(self.events, self.std)
        return np.asarray(1 / np.maximum(events, _LEAST_EVENTS) + self._noise_variance)

    @property
    def _noise_variance(self) -> FloatArray:
        """The variance of the logarithm of hazards that noise makes, (K,)."""
        events = np.maximum(self.events, self.std)
        at_risk = np.maximum(self.at_risk, self.std)
        return np.asarray((self.std / events) ** 2 + len(events) * (self.std / at_risk) ** 2)

    def applied(self, follow_up: FollowUpOfRows) -> FollowUpOfRows:
        """Return follow-up with the functions of operational time."""
        functions = self.times[:, : len(follow_up.time_columns)]
        return replace(follow_up, parts=self.parts, weights=self.weights, functions=functions, late=self.late)


def _limited(logarithms: FloatArray) -> FloatArray:
    return np.asarray(np.clip(logarithms, -_STEEPEST, _STEEPEST))


def functions_of(parts: FloatArray) -> FloatArray:
    """Return φ of operational time in the middle of periods, (K, 2), of parts of the cumulative hazard."""
    middle = 2 * (np.cumsum(parts) - parts / 2) - 1
    return np.column_stack([middle, (3 * middle**2 - 1) / 2])


def life_table(rows: Rows, follow_up: FollowUpOfRows) -> Bounded:
    """Return the mean over persons of events by period, and of times at risk over √K, (2K,)."""
    units, K = rows.sample.units, len(follow_up.lengths)
    assert units is not None
    assert units.codes is not None
    codes, n_units = units.codes, int(units.codes.max()) + 1
    weights = units.weights if units.whole is None else units.whole
    has_event, last = rows.sample.response() > 0, follow_up.last_period

    def by_person(values: FloatArray, of: BoolArray | slice = slice(None)) -> FloatArray:
        return np.asarray(np.bincount(codes[of], weights[of] * values, n_units), dtype=float)

    def events_in(period: int) -> FloatArray:
        own = has_event & (last == period)
        return by_person(np.ones(np.count_nonzero(own)), own)

    squares, at_risk = np.zeros(n_units), []
    for k in range(K):
        squares += events_in(k) ** 2
    factors = clip_factor(np.sqrt(squares), 1.0)
    events = [factors @ events_in(k) for k in range(K)]
    for k in range(K):
        time = np.clip(follow_up.end - k, 0, 1) - np.clip(follow_up.begin - k, 0, 1)
        at_risk.append(np.clip(by_person(time), 0, 1).sum() / np.sqrt(K))
    return life_table_sensitivity.of(np.array([*events, *at_risk]) / rows.n, rows.n)


@lemma("√3/n")
def life_table_sensitivity(n_rows: Number) -> FloatArray:
    """Return √3/n: nonnegative vectors of norm 1 at most, and vectors in [0, 1/√K]^K, next to each other.

    The former are at most √2 apart, as their product is not negative. The latter are at most 1 apart. Both
    are attained: events in two periods, and a time at risk in all periods or in none.
    """
    return np.asarray(np.divide(np.sqrt(3), n_rows))
