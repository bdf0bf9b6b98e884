"""Survival curves, logrank test, hazard ratios and restricted means, from released counts of persons by cell.

A cell is a group, a period, and whether the person had the event in the period or was censored in it. The
last period is the time after the longest. For periods k = 1 … K of a group, with E events and C censored:

    at risk n_k = Σ_{i ≥ k} (E_i + C_i),   in effect m_k = n_k − C_k / 2,   hazard h_k = E_k / m_k

    survival S_k = Π_{i ≤ k} (1 − h_i): Kaplan–Meier of grouped times (the life-table estimate)

Counts do not say when in a period persons leave. Limits hold for two cases each; finer periods narrow them:

- Curves: persons are censored after a quarter or after three quarters of their period, on average.
- Restricted means: within a period S falls from the lower curve at a constant rate, or from the upper one
  along a line. Hazard ratios: persons leave a period at an even pace or at constant rates, of which a tenth
  stays at least where all are censored. The middle of the two cases is reported.

Counts have noise. Cumulative counts are made monotone first (isotonic regression), so S falls within [0, 1].
Limits are pointwise and account for both errors. H is −log S, z the normal quantile. The standard errors of H
are s from sampling (Greenwood) and e from noise. The limits of H are those of MOVER (Zou & Donner 2008):

    H + √((H e^{zs/H} − H)² + (ze)²),   H − √((H − H e^{−zs/H})² + (ze)²)

Without noise and that doubt, these are the limits of the complementary log-log transform. H and s are at
least those of one event in the first period. Limits also fall with time: each is extended to the largest one
after it, or the smallest before it.
A period is hidden if fewer persons are at risk than five standard deviations of the noise of their number.

The logrank test compares E with what the hazard of all groups together predicts. Its covariance is the
hypergeometric one plus that of the noise, to first order. The hazard ratio of two groups is the root of a
similar score. Its variance has the same two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from dpalgos.accounting.events import Event
from dpalgos.answers.names import cut_names
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown
from dpalgos.intervals.half_widths import normal_quantile
from dpalgos.typing import FloatArray

_TINY = 1e-9
_VISIBLE = 5.0  # persons at risk must exceed so many standard deviations of their noise
_LARGEST_LOG = 8.0  # of a hazard ratio
_STAY = 0.1  # of those at risk, where all are censored in one period at a constant rate


@dataclass(frozen=True, eq=False, kw_only=True)
class _LifeTable:
    """One group: counts of events and of censored persons by period (K + 1,), and their noise."""

    events: FloatArray
    censored: FloatArray
    noise: FloatArray  # covariance of either, (K + 1, K + 1)

    @cached_property
    def remaining(self) -> FloatArray:
        """The matrix (K, K + 1) that brings counts to persons at risk at the start of periods."""
        return np.triu(np.ones((len(self.events) - 1, len(self.events))))

    @cached_property
    def halved(self) -> FloatArray:
        return self.remaining - np.eye(*self.remaining.shape) / 2

    @cached_property
    def at_risk(self) -> FloatArray:
        return self.remaining @ (self.events + self.censored)

    @cached_property
    def exposed(self) -> FloatArray:
        """Persons at risk, less half of those censored in the period."""
        return np.maximum(self.remaining @ self.events + self.halved @ self.censored, 1.0)

    @cached_property
    def left(self) -> FloatArray:
        """The share of persons at risk who are left at the end of a period, for constant rates, (K,)."""
        events, censored, at_risk = self.events[:-1], self.censored[:-1], np.maximum(self.at_risk, 1.0)
        least = np.maximum(_STAY * censored / np.maximum(events + censored, 1.0), 1 / (2 * self.exposed))
        return np.clip(1 - (events + censored) / at_risk, least, 1.0)

    @cached_property
    def person_periods(self) -> tuple[FloatArray, FloatArray]:
        """The time at risk in each period, in periods, (K,): at an even pace, and at constant rates."""
        even = np.maximum(self.exposed - self.events[:-1] / 2, 0.5)
        rate = np.maximum(-np.log(self.left), _TINY)
        return even, np.maximum(self.at_risk * -np.expm1(-rate) / rate, 0.5)

    @cached_property
    def hazard(self) -> FloatArray:
        return self._hazard(0.5)

    def _hazard(self, early: float) -> FloatArray:
        """Return the hazards, (K,), if the ``early`` part of those censored is not at risk."""
        exposed = np.maximum(self.at_risk - early * self.censored[:-1], 1.0)
        return np.asarray(np.minimum(self.events[:-1] / exposed, 1 - 1 / (2 * exposed)))

    @cached_property
    def visible(self) -> Any:
        """Whether the number at risk is clear of its noise, in this period and all before, (K,)."""
        std = np.sqrt(2 * np.diag(self.remaining @ self.noise @ self.remaining.T))
        return np.logical_and.accumulate(self.at_risk > _VISIBLE * std)

    @cached_property
    def cumulative(self) -> tuple[FloatArray, FloatArray]:
        """The cumulative hazard −log S, (K,): of persons who are censored late, and early."""
        late, early = (np.cumsum(-np.log1p(-self._hazard(part))) for part in (0.25, 0.75))
        return late, early

    @cached_property
    def survival(self) -> FloatArray:
        return np.asarray(np.cumprod(1 - self.hazard))

    def restricted_means(self, cuts: FloatArray) -> tuple[float, float]:
        """Return the longest and the shortest mean time up to the last of the cut points."""
        late, early = (np.append(0.0, H[: len(cuts) - 1]) for H in self.cumulative)
        rates = np.maximum(np.diff(early), _TINY)
        shortest = np.exp(-early[:-1]) * -np.expm1(-rates) / rates
        return cuts[0] + np.trapezoid(np.exp(-late), cuts), cuts[0] + float(np.diff(cuts) @ shortest)

    def covariances(self, weights: FloatArray, hazard: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariances, of sampling and noise, of weights (q, K) times dE − hazard dm."""
        m = hazard[:, None]
        of_events = weights @ (np.eye(*self.remaining.shape) - m * self.remaining)
        of_censored = -weights @ (m * self.halved)
        parts = ((of_events, self.events), (of_censored, self.censored))
        sampling = sum((rows * counts) @ rows.T for rows, counts in parts)
        return np.asarray(sampling), np.asarray(sum(rows @ self.noise @ rows.T for rows, _ in parts))

    @cached_property
    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Covariances of −log S, (K, K): of sampling and noise."""
        weights = np.tril(np.ones((len(self.hazard),) * 2)) / (self.exposed * (1 - self.hazard))
        return self.covariances(weights, self.hazard)

    def limits(self, z: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper pointwise limits of S, (K,) each."""
        sampling, noise = (np.diag(each) for each in self.errors)
        H, (late, early) = -np.log(self.survival), self.cumulative
        one = 1 / self.exposed[0]  # H, and the standard error, of one event in the first period
        least = np.maximum(H, one)
        relative = np.maximum(np.sqrt(sampling), one) / least
        above = H + np.sqrt((least * np.expm1(z * relative)) ** 2 + z**2 * noise)
        below = H - np.sqrt((least * np.expm1(-z * relative)) ** 2 + z**2 * noise)
        above = np.maximum.accumulate(above + early - H)
        below = np.minimum.accumulate((below - H + late)[::-1])[::-1]
        return np.exp(-above), np.exp(-np.maximum(below, 0.0))


def _middle(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the middle of two cases, and how far it is from either."""
    return (one + other) / 2, np.abs(one - other) / 2


def _monotone(counts: FloatArray) -> FloatArray:
    """Return counts of at least 0, from the isotonic regression of their cumulative sums."""
    sums = scipy.optimize.isotonic_regression(np.cumsum(counts)).x
    return np.diff(np.maximum(sums, 0.0), prepend=0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class LogrankResult:
    """A logrank test: its statistic, p-value and degrees of freedom."""

    statistic: float
    pvalue: float
    df: int


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SurvivalCurves:
    """Released survival curves by group.

    Attributes
    ----------
    counts : (G, 2, K + 1) array
        Released counts: by group, events and censored persons by period; the last is after the longest.
    noise : (K + 1, K + 1) array
        Covariance of the noise of counts of one kind in one group.
    periods : tuple of float
        The K + 1 public cut points, from 0 to the longest time.
    groups : tuple
        The public levels.
    group : str
        Their column, or "".
    time : str
        Their time.
    level : float
        Confidence level of the limits.
    promise : str
        The guarantee in one sentence.
    events : tuple of Event
    certified_epsilon : float
    """

    counts: FloatArray
    noise: FloatArray
    periods: tuple[float, ...]
    groups: tuple[Any, ...] = ("all",)
    group: str = ""
    time: str = "time"
    level: float = 0.95
    promise: str = ""
    events: tuple[Event, ...] = ()
    certified_epsilon: float = field(default=np.nan)

    @cached_property
    def _tables(self) -> list[_LifeTable]:
        return [
            _LifeTable(events=_monotone(events), censored=_monotone(censored), noise=self.noise)
            for events, censored in self.counts
        ]

    def curves(self) -> Any:
        """Return the curves, a row per group and cut point.

        Returns
        -------
        DataFrame
            Columns group, time, at_risk, events (since the cut point before), survival, ci_low and ci_high;
            survival is NaN where too few persons are at risk.
        """
        frames: dict[str, list[Any]] = {
            name: [] for name in ("group", "time", "at_risk", "events", "survival")
        }
        frames |= {"ci_low": [], "ci_high": []}
        for name, table in zip(self.groups, self._tables, strict=True):
            limits = table.limits(normal_quantile(self.level))
            hidden = [np.where(table.visible, each, np.nan) for each in (table.survival, *limits)]
            frames["group"] += [name] * len(self.periods)
            frames["time"] += self.periods
            frames["at_risk"] += [*table.at_risk, table.events[-1] + table.censored[-1]]
            frames["events"] += [0.0, *table.events[:-1]]
            for column, values in zip(("survival", "ci_low", "ci_high"), hidden, strict=True):
                frames[column] += [1.0, *values]
        return frame_of(frames)

    def rows(self) -> list[dict[str, Any]]:
        """Return survival at the cut points that are shown, with its limits, as rows of plain data."""
        rows = [
            {
                "name": name_at(row["group"], row["time"], self.group, self.periods),
                "estimate": row["survival"],
                "lower": row["ci_low"],
                "upper": row["ci_high"],
            }
            for row in self.curves().to_dict("records")
            if row["survival"] == row["survival"]
        ]
        n_groups = len(self.groups)
        return rows if len(rows) == n_groups else [each for each in rows if each["lower"] < 1]

    def frame(self) -> Any:
        """Return all numbers as a data frame: :meth:`curves`."""
        return self.curves()

    @property
    def shown_until(self) -> float:
        """The last cut point at which every group is shown."""
        return self.periods[int(min(table.visible.sum() for table in self._tables))]

    def logrank(self) -> LogrankResult:
        """Test that all groups have the same survival, by the periods that are shown in all of them."""
        tables, n_groups = self._tables, len(self.groups)
        if n_groups < 2:
            raise InputError("logrank must have two groups or more, got one; name a group after ~")
        used = np.logical_and.reduce([table.visible for table in tables])
        if not used.any():
            return LogrankResult(statistic=np.nan, pvalue=np.nan, df=n_groups - 1)
        exposed = np.array([table.exposed for table in tables])
        events = np.array([table.events[:-1] for table in tables])
        all_events, everyone = events.sum(axis=0), exposed.sum(axis=0)
        shares, hazard = exposed / everyone, np.minimum(all_events / everyone, 1.0)
        weights = (np.eye(n_groups)[:, :, None] - shares[:, None]) * used  # (g, h, k)
        excess = np.einsum("ghk,hk->g", weights, self.counts[:, 0, :-1])
        ties = all_events * np.maximum(everyone - all_events, 0) / np.maximum(everyone - 1, 1)
        sampling = np.einsum("gk,hgk,k->gh", shares, weights, ties)
        noise = sum(table.covariances(weights[:, h], hazard)[1] for h, table in enumerate(tables))
        covariance = (sampling + noise)[1:, 1:]
        statistic = float(excess[1:] @ np.linalg.solve(covariance, excess[1:]))
        return LogrankResult(
            statistic=statistic,
            pvalue=float(scipy.special.chdtrc(n_groups - 1, statistic)),
            df=n_groups - 1,
        )

    def restricted_means(self, until: float | None = None) -> Any:
        """Return mean survival times up to a cut point, and differences to the first group.

        They are means of persons who reach the first cut point.

        Parameters
        ----------
        until : float, optional
            A cut point; by default the last one at which every group is shown.

        Returns
        -------
        DataFrame
            Columns group, mean, ci_low and ci_high, then difference with its limits.
        """
        if self.shown_until == self.periods[0]:
            raise InputError("restricted_means needs a period that is shown in every group; enlarge ε or n")
        last = _index_of(self.shown_until if until is None else until, self.periods)
        if not 0 < last <= self.periods.index(self.shown_until):
            raise InputError(
                f"until must be at most {self.shown_until:g}, the last time at which every group is "
                f"shown, got {shown(until)}"
            )
        cuts, z = np.array(self.periods[: last + 1]), normal_quantile(self.level)
        weights = (np.diff(cuts) + np.append(np.diff(cuts)[1:], 0.0)) / 2
        scaled = [weights * table.survival[:last] for table in self._tables]
        variances = np.array(
            [
                at @ np.add(*table.errors)[:last, :last] @ at
                for at, table in zip(scaled, self._tables, strict=True)
            ]
        )
        means = np.array([table.restricted_means(cuts) for table in self._tables]).T
        mean, doubt = _middle(*means)
        difference, doubt_apart = _middle(*(means - means[:, :1]))
        half = z * np.sqrt(variances) + doubt
        apart = z * np.sqrt(variances + variances[0]) + doubt_apart
        apart[0] = difference[0] = np.nan
        low, high = (np.clip(mean + side * half, 0.0, self.periods[last]) for side in (-1, 1))
        columns = {"group": list(self.groups), "mean": mean, "ci_low": low, "ci_high": high}
        columns |= {"difference": difference}
        return frame_of(
            columns | {"difference_low": difference - apart, "difference_high": difference + apart}
        )

    def hazard_ratios(self) -> Any:
        """Return the hazard ratio of each group to the first, if hazards are proportional.

        Returns
        -------
        DataFrame
            Columns group, hazard_ratio, ci_low and ci_high, for all groups but the first. NaN where the noise
            hides the ratio.
        """
        used = np.logical_and.reduce([table.visible for table in self._tables])
        paces = [
            [self._log_hazard_ratio(g, used, pace) for g in range(1, len(self.groups))] for pace in (0, 1)
        ]
        (even, errors), (constant, _) = (np.reshape(found, (-1, 2)).T for found in paces)
        logs, doubt = _middle(even, constant)
        half = normal_quantile(self.level) * errors + doubt
        columns: dict[str, Any] = {"group": list(self.groups[1:]), "hazard_ratio": np.exp(logs)}
        return frame_of(columns | {"ci_low": np.exp(logs - half), "ci_high": np.exp(logs + half)})

    def _log_hazard_ratio(self, g: int, used: Any, pace: int) -> tuple[float, float]:
        """Return the root β of Σ (1 − p) E_g − p E_0 over periods that are shown, and its standard error.

        p = t_g e^β / (t_0 + t_g e^β), t the time at risk, is the probability that an event is in group g.
        """
        first, other = self._tables[0], self._tables[g]
        events = np.where(used, self.counts[[0, g], 0, :-1], 0.0)
        log_ratio = np.log(other.person_periods[pace] / first.person_periods[pace])

        def score(beta: float) -> float:
            p = scipy.special.expit(beta + log_ratio)
            return float(((1 - p) * events[1] - p * events[0]).sum())

        if not score(-_LARGEST_LOG) > 0 > score(_LARGEST_LOG):
            return np.nan, np.nan
        beta = float(scipy.optimize.brentq(score, -_LARGEST_LOG, _LARGEST_LOG))
        p = scipy.special.expit(beta + log_ratio)
        total = np.maximum(first.events + other.events, 0.0)[:-1]
        information = float((used * total * p * (1 - p)).sum())
        of_other = other.covariances((used * (1 - p))[None], np.minimum(total * p / other.exposed, 1.0))[1]
        of_first = first.covariances((used * p)[None], np.minimum(total * (1 - p) / first.exposed, 1.0))[1]
        noise = float(of_other[0, 0] + of_first[0, 0])
        if information < _VISIBLE * np.sqrt(noise):
            return np.nan, np.nan
        return beta, float(np.sqrt(information + noise)) / information

    def __repr__(self) -> str:
        title = f"Survival by {self.group}" if self.group else "Survival"
        return "\n".join(
            [title, self.curves().to_string(index=False, float_format="{:.4g}".format), self.promise]
        )


def name_at(group: Any, time: float, column: str, periods: tuple[float, ...]) -> str:
    """Return the name of survival at a cut point in a group of a column; "" is one group."""
    text = cut_names(periods)[periods.index(time)]
    return f"{group} at {text}" if column else f"at {text}"


def _index_of(time: float, periods: Sequence[float]) -> int:
    if time not in periods:
        raise InputError(f"until must be one of the cut points {tuple(periods)}, got {shown(time)}")
    return list(periods).index(time)
