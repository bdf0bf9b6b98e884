"""Synthetic trials with a time to an event: hazard ratios from persons' scores or from counts, and curves.

Hazards are constant within four periods. The log hazard ratios are −0.5 of the arm and 0.4 of the age, which
is uniform from −2 to 2. Persons are censored uniformly from 1.5 to 4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

import dpalgos
from tasks.cells import Cell, Replicates
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.measures.intervals import INTERVALS
from tasks.problems.problem import Cost, Draw, Kind, RowSource, Traits, fit_cell
from tasks.size_rules import RuleError

if TYPE_CHECKING:
    from dpalgos.survival.curves import SurvivalCurves

_CUTS, _HAZARDS, _EFFECTS = np.arange(5.0), np.array([0.15, 0.25, 0.2, 0.3]), np.array([-0.5, 0.4])
_BANDS = np.linspace(-2, 2, 5)  # of ages, for counts
_STEPS = 25  # of Newton's method for counts


class SimulatedTrial(RowSource):
    """Persons of a synthetic trial; ``estimate`` says what is estimated, and from what."""

    estimate: Literal["hazards by scores", "hazards by counts", "curves"]

    source: ClassVar[str] = "synthetic trial"

    @property
    def traits(self) -> Traits:
        if self.estimate != "hazards by scores":
            error = "l2_error" if self.estimate == "hazards by counts" else "sup_error"
            return Traits(task="counts", errors=(error,))
        from dpalgos.central.preconditioned.life_table import LEAST_PART

        bounds = float(np.log(LEAST_PART)), 0.0
        names = {"offset": "log(exposure)", "offset_bounds": bounds, "has_intercept": True}
        return Traits(task="glm", family="poisson", of_people=True, **names)  # type: ignore[arg-type]

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        if n < 100:
            raise RuleError(f"n must be at least 100 persons, got {n}")

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": {"hazards by scores": 5, "hazards by counts": 208, "curves": 52}[self.estimate]}

    def cost(self, n: int) -> Cost:
        return Cost(elements=100 * n, n_bytes=8 * 100 * n)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        for replicate, rng in replicates.generators("data"):
            yield self._draw(replicate, replicates.n, rng)

    def _draw(self, replicate: int, n: int, rng: np.random.Generator) -> Draw:
        from dpalgos.rows.follow_up import FollowUpOfRows  # loaded if a trial is simulated
        from dpalgos.survival.periods import cell_rows, followed_rows

        arm, age = rng.integers(0, 2, n), rng.uniform(-2, 2, n)
        reached = rng.exponential(size=n) / np.exp(np.stack([arm, age], axis=1) @ _EFFECTS)
        total = np.append(0, np.cumsum(_HAZARDS))
        event = np.where(reached < total[-1], np.interp(reached, total, _CUTS), np.inf)
        censored = rng.uniform(1.5, 4, n)
        time, happened = np.minimum(event, censored), event <= censored
        if self.estimate == "hazards by scores":
            own = followed_rows(np.zeros(n), time, happened, np.arange(n), _CUTS)
            periods = np.full(4, 0.25)
            follow_up = FollowUpOfRows.of_lengths(own.begin, own.end, periods, np.eye(1, 4, 2))
            columns = (np.log(follow_up.exposure), arm, age, np.zeros(n), np.ones(n))
            sample = dpalgos.Sample(
                np.column_stack(columns),
                own.response,
                user_ids=own.person,
                row_shares=own.share,
                follow_up=follow_up,
            )
            pick = np.eye(2, 5, 1)
            return Draw(sample=sample, first=replicate, target=_EFFECTS, to_target=pick)
        is_curve = self.estimate == "curves"
        bands = np.searchsorted(_BANDS[1:-1], age)
        group, n_groups = (arm, 2) if is_curve else (arm * 4 + bands, 8)
        sample = dpalgos.Sample(cell_rows(time, happened, group, n_groups, _CUTS))
        target = _survival() if is_curve else _EFFECTS
        pick = np.eye(len(target), sample.n_features)
        return Draw(sample=sample, first=replicate, target=target, to_target=pick, fit=_from_counts)


def _survival() -> np.ndarray:
    """Return survival at the cut points by arm, (8,), over uniform ages."""
    ages = np.linspace(-2, 2, 2001)
    risks = np.exp(_EFFECTS[0] * np.arange(2)[:, None] + _EFFECTS[1] * ages)
    return np.asarray(np.exp(-risks[:, None] * np.cumsum(_HAZARDS)[:, None]).mean(axis=2).ravel())


def _from_counts(draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    """Return curves, or log hazard ratios, as the first numbers of an estimate from counts."""
    from dpalgos.formula.group_table import noise_std_of, released_curves

    result = fit_cell(draw, cell, replicates)
    n_groups = result.estimate.size // (2 * (3 * len(_CUTS) - 2))
    noise_std = noise_std_of(result.events)
    curves = released_curves(result.estimate, noise_std, tuple(_CUTS), range(n_groups))
    assert draw.target is not None
    if len(draw.target) > 2:
        table = curves.curves()
        target = table[table["time"] > 0]["survival"].fillna(0.5).to_numpy()
    else:
        target = _ratios(curves)
    estimate = np.zeros(draw.sample.n_features)
    estimate[: len(target)] = target
    return replace(result, estimate=estimate)


def _ratios(curves: "SurvivalCurves") -> np.ndarray:
    """Return two log hazard ratios by Poisson regression of events by period, arm and quarter of the ages."""
    events, exposure = (np.array(each) for each in zip(*curves.events_and_times, strict=True))
    exposure = exposure.ravel()
    arm, band = np.divmod(np.arange(len(events)), 4)
    cells = np.column_stack([arm, (_BANDS[band] + _BANDS[band + 1]) / 2])
    X = np.column_stack([np.repeat(cells, 4, axis=0), np.tile(np.eye(4), (len(events), 1))])
    beta = np.append([0.0, 0.0], np.full(4, np.log(events.sum() / exposure.sum() + 1e-9)))
    for _ in range(_STEPS):
        mean = exposure * np.exp(np.clip(X @ beta, -20, 20))
        step = np.linalg.solve(X.T * mean @ X + 1e-3 * np.eye(6), X.T @ (events.ravel() - mean))
        beta = beta + np.clip(step, -1, 1)
    return np.asarray(beta[:2])


KINDS = {"trial_simulation": Kind(SimulatedTrial, ESTIMATION, intervals=INTERVALS)}
