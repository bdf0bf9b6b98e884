"""Survival curves, logrank test, hazard ratios and restricted means, from released counts and times at risk.

A cell is a group, a period, and whether the person had the event in the period or left otherwise. The last
period is the time after the longest. For period k = 1 … K of width w_k, a group has D events, C other exits
and L = D + C. F is the sum of f − 1/2 over those who leave, f the part of the period that each spent at risk:

    at risk at the start n_k = Σ_{i ≥ k} L_i       time at risk Y_k = w_k (n_k − L_k/2 + F_k − 12 a_k s_k)
    in effect at risk m_k = n_k − ρ_k C_k          survival S_k = Π_{i ≤ k} (1 − D_i/m_i)
    m'_k = n_k − ρ'_k C_k                          area of a period S_{k−1} w_k (1 − (D_k/2 − F_k^D)/m'_k)

A restricted mean is the sum of areas. S is Kaplan–Meier of grouped times. F says when in a period persons
leave. An exit at part 1 − x misses x of the period's events if these are even. In general, to second order,

    ρ  = E[x] + (h/2 + 6a) E[x (1 − x)]            ρ' = E[x²] + (h/3 + 8a) E[x² (1 − x)]

h is the hazard of the period. It changes along a line within the period if a is not 0. a_k is the mean of
f − 1/2 over events of all groups, less what it is at a constant hazard, shrunk by its noise. The moments of x
are those of Beta(2x̄, 2 − 2x̄), an even law if x̄ = 1/2; s_k is L_k E[f (1 − f)]/2.

Counts have noise. Cumulative counts are made monotone first (isotonic regression), so S falls within [0, 1].
Limits are pointwise and account for both errors. H is −log S, z the normal quantile. The standard errors of H
are s from sampling (Greenwood) and e from noise. The limits of H are those of MOVER (Zou & Donner 2008):

    H + √((H e^{zs/H} − H)² + (ze)²),   H − √((H − H e^{−zs/H})² + (ze)²)

Without noise, these are the limits of the complementary log-log transform. H and s are at least those of one
event in the first period. Limits also fall with time. S cannot rise: an upper limit is at most that at each cut
point before. A lower one is extended to the smallest before it.
A period is hidden if fewer persons are at risk than six standard deviations of the noise of their number. Since
noise takes part in that choice, e is enlarged as if persons at risk were one standard deviation fewer.

The logrank test compares D with Y times the hazard of all groups together. The hazard ratio of two groups is
the maximum of the Poisson likelihood of events given times at risk, with a hazard of its own for each period.
If hazards are not proportional, it estimates their ratio averaged over periods, with weights that depend on
events and times at risk. Variances have two parts, of sampling and of noise, to first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from dpalgos.accounting.events import Event
from dpalgos.answers.contrasts import WaldResults
from dpalgos.answers.names import cut_names
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown
from dpalgos.interval import normal_quantile
from dpalgos.typing import FloatArray

_VISIBLE = 6.0  # persons at risk must exceed so many standard deviations of their noise
_NEARLY_ALL = 0.95  # of the persons, at which units are in doubt
_LARGEST_LOG = 8.0  # of a hazard ratio
_LARGEST_EARLY = 1 / 6  # of a period: the hazard falls to 0 at its end


@dataclass(frozen=True, eq=False, kw_only=True)
class _Noise:
    """Covariance of the noise of counts of one kind, (K + 1, K + 1), and std of that of sums, (K,)."""

    counts: FloatArray
    std: FloatArray

    def of(self, events: FloatArray, exits: FloatArray, *sums: FloatArray) -> FloatArray:
        """Return the covariance of linear forms: coefficients (q, K + 1) of counts, (q, K) of sums."""
        of_sums = sum((each * self.std**2) @ each.T for each in sums)
        return events @ self.counts @ events.T + exits @ self.counts @ exits.T + of_sums


@dataclass(frozen=True, eq=False, kw_only=True)
class _LifeTable:
    """One group: events, other exits and sums of centered parts by period, (K,) each."""

    raw_events: FloatArray  # as released
    events: FloatArray
    exits: FloatArray
    event_sums: FloatArray
    exit_sums: FloatArray
    at_risk: FloatArray
    after: float  # persons followed beyond the last cut point
    widths: FloatArray
    noise: _Noise
    early: FloatArray = field(default_factory=lambda: np.zeros(1))  # a_k

    @classmethod
    def of(cls, counts: FloatArray, sums: FloatArray, widths: FloatArray, noise: _Noise) -> _LifeTable:
        """Return the table of released counts (2, K + 1) and sums (2, K)."""
        events, exits = map(_monotone, counts)
        remaining = np.cumsum((events + exits)[::-1])[::-1]
        half_events, half_exits = events[:-1] / 2, exits[:-1] / 2
        return cls(
            raw_events=counts[0, :-1],
            events=events[:-1],
            exits=exits[:-1],
            event_sums=np.clip(sums[0], -half_events, half_events),
            exit_sums=np.clip(sums[1], -half_exits, half_exits),
            at_risk=remaining[:-1],
            after=float(remaining[-1]),
            widths=widths,
            noise=noise,
        )

    @cached_property
    def rest(self) -> FloatArray:
        """The matrix (K, K + 1) that brings counts to persons at risk at the start of periods."""
        return np.triu(np.ones((len(self.events), len(self.events) + 1)))

    @cached_property
    def in_period(self) -> FloatArray:
        """The matrix (K, K + 1) that picks the counts of each period, without those after the last."""
        return np.eye(*self.rest.shape)

    @property
    def leavers(self) -> FloatArray:
        return self.events + self.exits

    @cached_property
    def unweighted_time(self) -> FloatArray:
        """The time at risk in each period, in periods, (K,)."""
        return np.maximum(self.at_risk - self.leavers / 2 + self.event_sums + self.exit_sums, 0.5)

    @cached_property
    def spread_of_leavers(self) -> FloatArray:
        """The sum of f (1 − f)/3 over those who leave, f the part of the period spent at risk, (K,)."""
        f = _mean_part(self.event_sums + self.exit_sums, self.leavers)
        return self.leavers * f * (1 - f) / 3

    @property
    def earliness(self) -> FloatArray:
        """Minus the sum of centered parts of events that a constant hazard leads to, (K,)."""
        return self.events * self.spread_of_leavers / self.unweighted_time

    @cached_property
    def time_at_risk(self) -> FloatArray:
        """The time at risk in each period, (K,), weighted by the hazard within the period."""
        weighted = self.unweighted_time - 12 * self.early * self.spread_of_leavers
        return self.widths * np.maximum(weighted, 0.5)

    @cached_property
    def _left_of_exits(self) -> tuple[FloatArray, FloatArray]:
        """What exits miss of a period: the part of its events, and of the time that these cost, (K,) each."""
        x = 1 - _mean_part(self.exit_sums, self.exits)
        square, cube = x * (2 * x + 1) / 3, x * (2 * x + 1) * (x + 1) / 6
        rate = self.events / self.unweighted_time
        events = x + (rate / 2 + 6 * self.early) * (x - square)
        return np.clip(events, 0, 1), np.clip(square + (rate / 3 + 8 * self.early) * (square - cube), 0, 1)

    @cached_property
    def exposed(self) -> FloatArray:
        """Persons in effect at risk of the event, (K,)."""
        return np.maximum(self.at_risk - self.exits * self._left_of_exits[0], 1.0)

    @cached_property
    def _exposed_to_loss(self) -> FloatArray:
        """Persons in effect at risk of losing time in the period, (K,)."""
        return np.maximum(self.at_risk - self.exits * self._left_of_exits[1], 1.0)

    @cached_property
    def hazard(self) -> FloatArray:
        """The probability of the event in each period, (K,)."""
        return np.minimum(self.events / self.exposed, 1 - 1 / (2 * self.exposed))

    @cached_property
    def visible(self) -> Any:
        """Whether the number at risk is clear of its noise, in this period and all before, (K,)."""
        return np.logical_and.accumulate(self.at_risk > _VISIBLE * self._noise_at_risk)

    @cached_property
    def _noise_at_risk(self) -> FloatArray:
        return np.sqrt(np.diag(self.noise.of(self.rest, self.rest)))

    @cached_property
    def _chosen(self) -> FloatArray:
        """How much larger noise in H may be than the released number at risk says, (K,).

        A period is shown if that number is large, so it may be by noise: one standard deviation too large.
        """
        return np.asarray(1 / np.maximum(1 - self._noise_at_risk / np.maximum(self.at_risk, 1e-9), 0.5))

    @cached_property
    def survival(self) -> FloatArray:
        return np.asarray(np.cumprod(1 - self.hazard))

    @cached_property
    def greenwood(self) -> FloatArray:
        """The sampling variance of log(1 − hazard), (K,)."""
        return np.asarray(self.events / (self.exposed * np.maximum(self.exposed - self.events, 0.5)))

    def noise_of_excess(self, weights: FloatArray, rate: FloatArray) -> FloatArray:
        """Return the covariance of noise in weights (q, K) times D − rate Y, for rates (K,)."""
        spent = weights * rate * self.widths
        half = self.rest - self.in_period / 2
        return self.noise.of(weights @ self.in_period - spent @ half, -spent @ half, spent, spent)

    @cached_property
    def noise_of_cumulative(self) -> FloatArray:
        """The covariance of noise in −log S, (K, K)."""
        p = self.hazard[:, None]
        weights = np.tril(np.ones((len(p), len(p)))) / (self.exposed * (1 - self.hazard))
        exits = self.rest - self.in_period / 2
        return self.noise.of(
            weights @ (self.in_period - p * self.rest), -weights @ (p * exits), weights * p.T
        )

    def limits(self, z: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper pointwise limits of S, (K,) each."""
        noise = np.maximum(np.diag(self.noise_of_cumulative), 0.0)
        H, sampling = -np.log(self.survival), np.cumsum(self.greenwood)
        one = 1 / max(self.at_risk[0], 1.0)  # H, and the standard error, of one event in the first period
        least = np.maximum(H, one)
        relative = np.maximum(np.sqrt(sampling), one) / least
        noise = noise * self._chosen**2
        above = H + np.sqrt((least * np.expm1(z * relative)) ** 2 + z**2 * noise)
        below = H - np.sqrt((least * np.expm1(-z * relative)) ** 2 + z**2 * noise)
        above = np.maximum.accumulate(above)
        below = np.maximum.accumulate(np.where(self.visible, below, 0.0))  # S cannot rise again
        return np.exp(-above), np.exp(-np.maximum(below, 0.0))

    def restricted_mean(self, n_periods: int) -> tuple[float, float]:
        """Return the mean time from the first cut point to the end of a period, and its variance."""
        used = slice(n_periods)
        hidden = np.zeros(len(self.events) - n_periods)
        widths, exposed, p, in_period, rest = (
            each[used] for each in (self.widths, self.exposed, self.hazard, self.in_period, self.rest)
        )
        before = widths * np.append(1.0, self.survival[: n_periods - 1])
        lost = ((self.events / 2 - self.event_sums) / self._exposed_to_loss)[used]
        areas = before * (1 - lost)
        later = np.append(np.cumsum(areas[::-1])[::-1][1:], 0.0)
        by_event = -(before / 2 + later / (1 - p)) / exposed
        by_exposed = (before * lost + later * p / (1 - p)) / exposed
        events, exits = by_event @ in_period + by_exposed @ rest, by_exposed @ (rest - in_period / 2)
        noise = self.noise.of(
            events[None],
            exits[None],
            *(np.append(each, hidden)[None] for each in (before / exposed, by_exposed)),
        )
        late = 1 - lost * exposed / np.maximum(self.events[used], 1e-9)
        gain = before * (1 - np.clip(late, 0, 1)) * (1 - p) + later
        return float(areas.sum()), float(noise[0, 0] + (gain**2 * self.greenwood[used]).sum())


def _mean_part(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the mean part of a period, in [0, 1], from sums of centered parts."""
    return np.clip(0.5 + sums / np.maximum(counts, 1.0), 0.0, 1.0)


def _with_early(tables: list[_LifeTable]) -> list[_LifeTable]:
    """Return tables that know how early in their periods events happen, from all of them together."""
    events = np.sum([table.events for table in tables], axis=0)
    # At a constant hazard, events are early by the spread over the time at risk, since persons leave.
    early = np.sum([table.event_sums + table.earliness for table in tables], axis=0) / np.maximum(events, 1)
    noise = len(tables) * tables[0].noise.std ** 2
    variance = noise / np.maximum(events, 1) ** 2 + 1 / 12 / np.maximum(events, 1)
    kept = np.maximum(0, 1 - variance / np.maximum(early**2, 1e-12))
    early = np.clip(early * kept, -_LARGEST_EARLY, _LARGEST_EARLY)
    return [replace(table, early=early) for table in tables]


def _monotone(counts: FloatArray) -> FloatArray:
    """Return counts of at least 0, from the isotonic regression of their cumulative sums."""
    sums = scipy.optimize.isotonic_regression(np.cumsum(counts)).x
    return np.diff(np.maximum(sums, 0.0), prepend=0.0)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SurvivalCurves:
    """Released survival curves by group.

    Attributes
    ----------
    counts : (G, 2, K + 1) array
        Released counts: by group, events and other exits by period; the last is after the longest.
    sums : (G, 2, K) array
        Released sums of the centered parts of periods that those who leave spent at risk.
    noise : (K + 1, K + 1) array
        Covariance of the noise of counts of one kind in one group.
    noise_of_sums : (K,) array
        Standard deviations of the noise of sums by period.
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
    sizes : tuple of float
        The sizes of the groups from another release, shown as the numbers at risk at the first cut point.
    promise : str
        The guarantee in one sentence.
    events : tuple of Event
    certified_epsilon : float
    """

    counts: FloatArray
    sums: FloatArray
    noise: FloatArray
    noise_of_sums: FloatArray
    periods: tuple[float, ...]
    groups: tuple[Any, ...] = ("all",)
    group: str = ""
    time: str = "time"
    level: float = 0.95
    sizes: tuple[float, ...] = ()
    promise: str = ""
    events: tuple[Event, ...] = ()
    certified_epsilon: float = field(default=np.nan)

    @cached_property
    def _tables(self) -> list[_LifeTable]:
        noise, widths = _Noise(counts=self.noise, std=self.noise_of_sums), np.diff(self.periods)
        pairs = zip(self.counts, self.sums, strict=True)
        return _with_early([_LifeTable.of(counts, sums, widths, noise) for counts, sums in pairs])

    @property
    def events_and_times(self) -> list[tuple[FloatArray, FloatArray]]:
        """The number of events, and the time at risk, by period, (K,) each, for each group."""
        return [(table.events, table.time_at_risk) for table in self._tables]

    @property
    def cautions(self) -> list[str]:
        """Warnings about the cut points, based on released numbers only."""
        tables = self._tables
        n = max(sum(float(table.at_risk[0]) for table in tables), 1.0)
        std = np.sqrt(len(tables) * float(tables[0].noise.of(tables[0].rest[:1], tables[0].rest[:1])[0, 0]))
        if n < _VISIBLE * std:
            return []
        beyond = sum(table.after for table in tables) / n
        first = sum(float(table.leavers[0]) for table in tables) / n if len(self.periods) > 2 else 0.0
        where = [f"followed beyond the last cut point, {self.periods[-1]:g}"] * (beyond > _NEARLY_ALL)
        where += [f"followed for less than the first period, to {self.periods[1]:g}"] * (first > _NEARLY_ALL)
        return [
            f"Nearly all persons are {each}. Check that times and cut points have the same unit."
            for each in where
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
            at_first = [float(self.sizes[self.groups.index(name)])] if self.sizes else table.at_risk[:1]
            frames["at_risk"] += [*at_first, *table.at_risk[1:], table.after]
            frames["events"] += [0.0, *table.events]
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

    def logrank(self) -> WaldResults:
        """Test that all groups have the same survival, by the periods that are shown in all of them."""
        tables, n_groups = self._tables, len(self.groups)
        if n_groups < 2:
            raise InputError("logrank must have two groups or more, got one; name a group after ~")
        used = np.logical_and.reduce([table.visible for table in tables])
        if not used.any():
            return WaldResults(statistic=np.nan, df_num=n_groups - 1)
        times = np.array([table.time_at_risk for table in tables])
        events = np.sum([table.events for table in tables], axis=0)
        shares, rate = times / times.sum(axis=0), events / times.sum(axis=0)
        weights = (np.eye(n_groups)[:, :, None] - shares[:, None]) * used  # (g, h, k)
        raw = np.array([table.raw_events for table in tables])
        excess = np.einsum("ghk,hk->g", weights, raw - rate * times)
        sampling = np.einsum("gk,hgk,k->gh", shares, weights, events)
        noise = sum(table.noise_of_excess(weights[:, h], rate) for h, table in enumerate(tables))
        covariance = (sampling + noise)[1:, 1:]
        statistic = float(excess[1:] @ np.linalg.solve(covariance, excess[1:]))
        return WaldResults(statistic=statistic, df_num=n_groups - 1)

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
        z = normal_quantile(self.level)
        means, variances = np.array([table.restricted_mean(last) for table in self._tables]).T
        mean, difference = self.periods[0] + means, means - means[0]
        half, apart = z * np.sqrt(variances), z * np.sqrt(variances + variances[0])
        apart[0] = difference[0] = np.nan
        low, high = (np.clip(mean + side * half, 0.0, self.periods[last]) for side in (-1, 1))
        columns = {"group": list(self.groups), "mean": mean, "ci_low": low, "ci_high": high}
        columns |= {"difference": difference}
        return frame_of(
            columns | {"difference_low": difference - apart, "difference_high": difference + apart}
        )

    def hazard_ratios(self) -> Any:
        """Return the hazard ratio of each group to the first.

        If hazards are not proportional, it is an average over the periods that are shown, with weights that
        depend on events and times at risk.

        Returns
        -------
        DataFrame
            Columns group, hazard_ratio, ci_low and ci_high, for all groups but the first. NaN where the noise
            hides the ratio.
        """
        logs, low, high = self.log_hazard_ratios()
        columns: dict[str, Any] = {"group": list(self.groups[1:]), "hazard_ratio": np.exp(logs)}
        return frame_of(columns | {"ci_low": np.exp(low), "ci_high": np.exp(high)})

    def log_hazard_ratios(self) -> FloatArray:
        """Return the log hazard ratio of each group to the first with its limits, (3, G − 1)."""
        used = np.logical_and.reduce([table.visible for table in self._tables])
        found = [self._log_hazard_ratio(g, used) for g in range(1, len(self.groups))]
        logs, errors = np.reshape(found, (-1, 2)).T
        half = normal_quantile(self.level) * errors
        return np.array([logs, logs - half, logs + half])

    def _log_hazard_ratio(self, g: int, used: Any) -> tuple[float, float]:
        """Return the root β of Σ D_g − p (D_0 + D_g) over periods that are shown, and its standard error.

        p = Y_g e^β / (Y_0 + Y_g e^β) is the probability that an event is in group g.
        """
        first, other = self._tables[0], self._tables[g]
        events, of_other = used * (first.events + other.events), float((used * other.events).sum())
        log_ratio = np.log(other.time_at_risk / first.time_at_risk)

        def score(beta: float) -> float:
            return of_other - float(events @ scipy.special.expit(beta + log_ratio))

        if not score(-_LARGEST_LOG) > 0 > score(_LARGEST_LOG):
            return np.nan, np.nan
        beta = float(scipy.optimize.brentq(score, -_LARGEST_LOG, _LARGEST_LOG))
        p = scipy.special.expit(beta + log_ratio)
        information = float(events @ (p * (1 - p)))
        rate = (first.events + other.events) / (first.time_at_risk + np.exp(beta) * other.time_at_risk)
        of_first = first.noise_of_excess((-p * used)[None], rate)
        of_second = other.noise_of_excess(((1 - p) * used)[None], rate * np.exp(beta))
        noise = float(of_first[0, 0] + of_second[0, 0])
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
