"""Survival curves, logrank test, hazard ratios and restricted means, from released counts and times at risk.

A cell is a group, a period, and whether the person had the event in the period or left otherwise. The last
period is the time after the longest. For period k = 1 … K of width w_k, a group has D events, C other exits
and L = D + C. F is the sum of f − 1/2 over those who leave, f the part of the period that each spent at risk.
E is half the number of those with f = 1.

    at risk at the start    n_k = Σ_{i ≥ k} L_i
    time at risk            Y_k = w_k (n_k − D_k (1 − M_D(c)) − C_k (1 − M_C(c)))
    in effect at risk       m_k = n_k − ρ_k C_k,   m'_k = n_k − ρ'_k C_k
    survival                S_k = Π_{i ≤ k} (1 − D_i/m_i)
    area of a period        S_{k−1} w_k (1 − (D_k/2 − F_k^D)/m'_k)
    printed number at risk  of times ≥ t, at the end of the period: n_{k+1} + 2 E_k

A restricted mean is the sum of areas. S is Kaplan–Meier of grouped times. The E_k of a group are shrunk by
their noise (James–Stein), since times are rarely cut points unless they are whole numbers.

Within a period, the cumulative hazard is h G(f), with h the hazard of the period and G(f) = fᶜ. A constant
hazard has c = 1. If nobody leaves otherwise, events have the mean part c/(c + 1). So c is
(1/2 + a)/(1/2 − a). Here a is the mean of f − 1/2 over events of all groups, less what it is at a constant
hazard. It is shrunk by its noise. M(s) is the mean of fˢ over those who leave. Their parts have the released
mean m and the law Beta(2m, 2 − 2m), an even law if m = 1/2:

    M(s) = Γ(2m + s) / (Γ(2m) Γ(2 + s))

An exit at f counts for e^{hG(f)} persons who would leave then. It misses the part ρ of the events of one who
stays, and the part ρ' of the time that these cost. To second order in h, with x = 1 − f:

    ρ  = E[(1 − e^{−h(1 − G)}) / (1 − e^{−h})] = 1 − M(c) + (h/2) (M(c) − M(2c))
    ρ' = 1 − (c + 1) M(c) + c M(c + 1) + (h/3) E[x² (1 − x)]

Counts have noise. Cumulative counts are made monotone first (isotonic regression), so S falls within [0, 1].
Limits are pointwise and account for both errors. H is −log S, z the normal quantile. The standard errors of H
are s from sampling (Greenwood) and e from noise. The limits of H are those of MOVER (Zou & Donner 2008):

    H + √((H e^{zs/H} − H)² + (ze)²),   H − √((H − H e^{−zs/H})² + (ze)²)

Without noise, these are the limits of the complementary log-log transform. H is at least that of one event in
the first period. s² is Greenwood's sum plus 1/m_k², the variance of one event in the last period: without it,
a period without events would add no error. With few events, s/H is large. Then the upper limit of H is the
gamma limit of Fay & Feuer (1997): the quantile of a gamma law with the mean and the variance of H and one
event more in the last period. S cannot rise: an upper limit is at most that at each cut point before. A lower
one is extended to the smallest before it.

A curve ends before the first period in which m_k is below 10, or below six standard deviations τ of the noise
of n_k. Noise takes part in that choice: a period with m = 5τ is shown if noise adds more than τ. It then adds
1.5 τ on average, and S is too large. So lower limits of S are those of a table with 9 τ²/m_k fewer persons at
risk. That is 1.5 τ where a curve ends, and next to nothing where m_k is far above τ. Then a lower limit holds
whether or not luck decided that its cut point is shown.

The logrank test compares D with Y times the hazard of all groups together. A period compares the groups that
are shown in it. A hazard ratio maximizes the Poisson likelihood of the events of two groups given their times
at risk. Each period that both show has a hazard of its own. If hazards are not proportional, it estimates
their ratio averaged over periods, with weights that depend on events and times at risk. Variances have two
parts, of sampling and of noise, to first order.
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
from dpalgos.models.newton_steps import james_stein
from dpalgos.typing import FloatArray

_VISIBLE = 6.0  # persons at risk must exceed so many standard deviations of their noise
_FEWEST = 10.0  # persons at risk of a period that is shown
_AT_END = 1.5  # standard deviations; the mean of a normal variable above its 84 % quantile
_NEARLY_ALL = 0.95  # of the persons, at which units are in doubt
_LARGEST_LOG = 8.0  # of a hazard ratio
_LARGEST_EXCESS = 50.0  # logarithm of a factor, beyond which survival is 0
_LARGEST_EARLY = 0.45  # of a period


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
    at_end: FloatArray  # who leave at the end of the period, (K,)
    widths: FloatArray
    noise: _Noise
    power: FloatArray = field(default_factory=lambda: np.ones(1))  # c_k

    @classmethod
    def of(
        cls,
        counts: FloatArray,
        sums: FloatArray,
        ends: FloatArray,
        widths: FloatArray,
        noise: _Noise,
        resolution: float = 0.0,
    ) -> _LifeTable:
        """Return the table of released counts (2, K + 1), sums (2, K) and ends (2, K)."""
        sums = sums + ends * [1 - resolution / widths, np.ones_like(widths)]
        events, exits = map(_monotone, counts)
        remaining = np.cumsum((events + exits)[::-1])[::-1]
        half_events, half_exits = events[:-1] / 2, exits[:-1] / 2
        noise_at_end = 2 * noise.std  # of the sum of both ends: each sum is of a part and an end
        at_end = noise_at_end * james_stein(2 * ends.sum(axis=0) / noise_at_end, 1.0)
        return cls(
            raw_events=counts[0, :-1],
            events=events[:-1],
            exits=exits[:-1],
            event_sums=np.clip(sums[0], -half_events, half_events),
            exit_sums=np.clip(sums[1], -half_exits, half_exits),
            at_risk=remaining[:-1],
            after=float(remaining[-1]),
            at_end=np.clip(at_end, 0.0, (events + exits)[:-1]),
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

    @property
    def earliness(self) -> FloatArray:
        """Minus the sum of centered parts of events that a constant hazard leads to, (K,)."""
        f = _mean_part(self.event_sums + self.exit_sums, self.leavers)
        return self.events * self.leavers * f * (1 - f) / (3 * self.unweighted_time)

    @cached_property
    def time_at_risk(self) -> FloatArray:
        """The time at risk in each period, (K,), weighted by the hazard within the period."""
        of_events = 1 - _moment(_mean_part(self.event_sums, self.events), self.power)
        of_exits = 1 - _moment(_mean_part(self.exit_sums, self.exits), self.power)
        spent = self.at_risk - self.events * of_events - self.exits * of_exits
        return self.widths * np.maximum(spent, 0.5)

    @cached_property
    def _left_of_exits(self) -> tuple[FloatArray, FloatArray]:
        """The parts of a period's events, and of the time that these cost, that exits miss, (K,) each."""
        f, c = _mean_part(self.exit_sums, self.exits), self.power
        rate = self.events / self.unweighted_time
        events = 1 - _moment(f, c) + rate / 2 * (_moment(f, c) - _moment(f, 2 * c))
        time = 1 - (c + 1) * _moment(f, c) + c * _moment(f, c + 1)
        time = time + rate / 3 * (_moment(f, 1) - 2 * _moment(f, 2) + _moment(f, 3))
        return np.clip(events, 0, 1), np.clip(time, 0, 1)

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
        """Whether persons at risk are many, and clear of their noise, in this period and all before, (K,)."""
        return np.logical_and.accumulate(self.exposed > np.maximum(_VISIBLE * self._noise_at_risk, _FEWEST))

    @cached_property
    def _noise_at_risk(self) -> FloatArray:
        return np.sqrt(np.diag(self.noise.of(self.rest, self.rest)))

    @property
    def _with_fewer(self) -> _LifeTable:
        """The table with fewer persons at risk, by what noise adds to a period that is just shown."""
        fewer = _AT_END * _VISIBLE * self._noise_at_risk**2 / np.maximum(self.exposed, 1.0)
        return replace(self, at_risk=self.at_risk - np.minimum(fewer, self.exposed / 2))

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
        above = np.maximum.accumulate(self._with_fewer.limit_of_cumulative(z))
        below = np.maximum(self.limit_of_cumulative(-z), 0.0)
        below = np.maximum.accumulate(np.where(self.visible, below, 0.0))  # S cannot rise again
        return np.exp(-above), np.exp(-below)

    def limit_of_cumulative(self, z: float) -> FloatArray:
        """Return a limit of H = −log S, (K,), the upper one if z is positive."""
        H, noise = -np.log(self.survival), np.maximum(np.diag(self.noise_of_cumulative), 0.0)
        sampling = np.cumsum(self.greenwood) + 1 / self.exposed**2  # with one event more
        least = np.maximum(H, 1 / max(self.at_risk[0], 1.0))  # one event in the first period
        excess = least * np.expm1(np.minimum(z * np.sqrt(sampling) / least, _LARGEST_EXCESS))
        if z > 0:
            excess = np.minimum(excess, self._gamma_limit(H, z) - H)
        return np.asarray(H + np.sign(z) * np.sqrt(excess**2 + z**2 * noise))

    def _gamma_limit(self, H: FloatArray, z: float) -> FloatArray:
        """Return the upper limit of H, (K,), of weighted Poisson counts: the law of H with one event more."""
        weight = np.maximum.accumulate(1 / self.exposed)  # of an event in the last period
        mean, variance = H + weight, np.cumsum(self.greenwood) + weight**2
        share = float(scipy.special.ndtr(z))
        return np.asarray(scipy.special.gammaincinv(mean**2 / variance, share) * variance / mean)

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


def _with_powers(tables: list[_LifeTable]) -> list[_LifeTable]:
    """Return tables with the power of the cumulative hazard in each period, from all of them together."""
    events = np.sum([table.events for table in tables], axis=0)
    # At a constant hazard, events are early by the spread over the time at risk, since persons leave.
    early = np.sum([table.event_sums + table.earliness for table in tables], axis=0) / np.maximum(events, 1)
    noise = len(tables) * tables[0].noise.std ** 2
    variance = noise / np.maximum(events, 1) ** 2 + 1 / 12 / np.maximum(events, 1)
    shrinkage = np.maximum(0, 1 - variance / np.maximum(early**2, 1e-12))
    early = np.clip(early * shrinkage, -_LARGEST_EARLY, _LARGEST_EARLY)
    return [replace(table, power=(0.5 + early) / (0.5 - early)) for table in tables]


def _moment(mean: FloatArray, power: FloatArray | float) -> FloatArray:
    """Return the mean of fᶜ for a part f with the law Beta(2m, 2 − 2m), whose mean is m."""
    m = np.clip(mean, 1e-9, 1.0)
    log = scipy.special.gammaln
    return np.asarray(np.exp(log(2 * m + power) - log(2 * m) - log(2 + power)))


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
        Released sums of the centered parts of periods that those who leave within them spent at risk.
    ends : (G, 2, K) array
        Released halves of the numbers of those who leave at the end of periods.
    noise : (K + 1, K + 1) array
        Covariance of the noise of counts of one kind in one group.
    noise_of_sums : (K,) array
        Standard deviations of the noise of sums, and of ends, by period.
    periods : tuple of float
        The K + 1 public cut points, from 0 to the longest time.
    groups : tuple
        The public levels.
    group : str
        Their column, or "".
    time : str
        Their time.
    resolution : float
        The public number of which times are multiples; 0 if they are not.
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
    ends: FloatArray
    noise: FloatArray
    noise_of_sums: FloatArray
    periods: tuple[float, ...]
    groups: tuple[Any, ...] = ("all",)
    group: str = ""
    time: str = "time"
    resolution: float = 0.0
    level: float = 0.95
    sizes: tuple[float, ...] = ()
    promise: str = ""
    events: tuple[Event, ...] = ()
    certified_epsilon: float = field(default=np.nan)

    @cached_property
    def _tables(self) -> list[_LifeTable]:
        noise = _Noise(counts=self.noise, std=np.sqrt(2) * self.noise_of_sums)
        facts = np.diff(self.periods), noise, self.resolution
        released = zip(self.counts, self.sums, self.ends, strict=True)
        return _with_powers([_LifeTable.of(*each, *facts) for each in released])

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
            beyond = np.append(table.at_risk[1:], table.after)
            frames["at_risk"] += [*at_first, *(beyond + table.at_end)]
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

    @cached_property
    def _seen(self) -> Any:
        """Which periods of each group are shown, (G, K)."""
        return np.array([table.visible for table in self._tables])

    @property
    def shown_until(self) -> float:
        """The last cut point at which every group is shown that is shown at all."""
        seen = self._seen[self._seen[:, 0]]
        return self.periods[int(seen.sum(axis=1).min()) if len(seen) else 0]

    def logrank(self) -> WaldResults:
        """Test that all groups have the same survival.

        A period compares the groups that are shown in it. A group that is not shown at all takes no part.
        """
        if len(self.groups) < 2:
            raise InputError("logrank must have two groups or more, got one; name a group after ~")
        seen = self._seen[self._seen[:, 0]]
        tables = [table for table in self._tables if table.visible[0]]
        n_groups = len(tables)
        if n_groups < 2:
            return WaldResults(statistic=np.nan, df_num=len(self.groups) - 1)
        times = seen * [table.time_at_risk for table in tables]
        events = (seen * [table.events for table in tables]).sum(axis=0)
        total = np.maximum(times.sum(axis=0), 1e-9)
        shares, rate = times / total, events / total
        weights = (np.eye(n_groups)[:, :, None] - shares[:, None]) * seen  # (g, h, k)
        raw = np.array([table.raw_events for table in tables])
        excess = np.einsum("ghk,hk->g", weights, raw - rate * times)
        sampling = np.einsum("gk,hgk,k->gh", shares, weights, events)
        noise = sum(table.noise_of_excess(weights[:, h], rate) for h, table in enumerate(tables))
        covariance = (sampling + noise)[1:, 1:]
        statistic = float(excess[1:] @ np.linalg.solve(covariance, excess[1:]))
        return WaldResults(statistic=statistic, df_num=n_groups - 1)

    def restricted_means(self, until: float | None = None) -> Any:
        """Return mean survival times up to a cut point, and differences to the first group.

        They are means of persons who reach the first cut point; NaN for a group that is not shown.

        Parameters
        ----------
        until : float, optional
            A cut point; by default the last one at which all groups are shown that are shown at all.

        Returns
        -------
        DataFrame
            Columns group, until, mean, ci_low and ci_high, then difference with its limits.
        """
        if self.shown_until == self.periods[0]:
            raise InputError("restricted_means needs a period that is shown; enlarge ε or n")
        last = _index_of(self.shown_until if until is None else until, self.periods)
        if not 0 < last <= self.periods.index(self.shown_until):
            raise InputError(
                f"until must be at most {self.shown_until:g}, the last time at which every group is "
                f"shown, got {shown(until)}"
            )
        z = normal_quantile(self.level)
        means, variances = np.array([table.restricted_mean(last) for table in self._tables]).T
        means[~self._seen[:, 0]] = np.nan
        mean, difference = self.periods[0] + means, means - means[0]
        half, apart = z * np.sqrt(variances), z * np.sqrt(variances + variances[0])
        apart[0] = difference[0] = np.nan
        low, high = (np.clip(mean + side * half, 0.0, self.periods[last]) for side in (-1, 1))
        columns = {"group": list(self.groups), "until": self.periods[last], "mean": mean}
        columns |= {"ci_low": low, "ci_high": high, "difference": difference}
        return frame_of(
            columns | {"difference_low": difference - apart, "difference_high": difference + apart}
        )

    def hazard_ratios(self) -> Any:
        """Return the hazard ratio of each group to the first.

        If hazards are not proportional, it is an average over the periods that are shown in both groups. Its
        weights depend on events and times at risk.

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
        pairs = [self._log_hazard_ratio(g) for g in range(1, len(self.groups))]
        logs, errors = np.reshape(pairs, (-1, 2)).T
        half = normal_quantile(self.level) * errors
        return np.array([logs, logs - half, logs + half])

    def _log_hazard_ratio(self, g: int) -> tuple[float, float]:
        """Return the root β of Σ D_g − p (D_0 + D_g) over periods shown in both, and its standard error.

        p = Y_g e^β / (Y_0 + Y_g e^β) is the probability that an event is in group g.
        """
        first, other = self._tables[0], self._tables[g]
        used = self._seen[0] & self._seen[g]
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
