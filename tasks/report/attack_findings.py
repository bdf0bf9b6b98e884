"""Facts for the page of a study of attacks: intervals, ceilings, predictions, claims."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import scipy

from data.results.table import AUC, POOLED_AUC, TRUE_POSITIVE_RATES
from dpalgos.accounting.composition import exact_mu
from dpalgos.accounting.gaussian_dp import gaussian_mu
from reports.cells import ROUNDING
from reports.page import AttackFindings, Guide
from tasks.problems.attack_rates import (
    auc_ceiling,
    clopper_pearson,
    gaussian_auc,
    gaussian_tpr_ceiling,
    tpr_ceiling,
)
from tasks.problems.problem import DatasetSource
from tasks.report.manifest import released_events
from tasks.size_rules import delta_at
from tasks.study.spec import Panel, StudySpec

_FINE = 20  # points of a ceiling's curve
_ERROR = 0.01  # of all tests of certificates together


def attack_findings(spec: StudySpec, results: pd.DataFrame) -> AttackFindings:
    noisy = {panel.name: _gaussian_estimators(spec, panel) for panel in spec.panels}
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    allowed: dict[tuple[str, str], float] = {}
    gaussian: dict[tuple[str, str], float] = {}
    tested: dict[tuple[str, str], tuple[np.ndarray, int, float | None, float, float]] = {}
    predicted: dict[str, float] = {}
    for (cell, metric), rows in results[results["status"] == "ok"].groupby(["cell", "metric"], sort=False):
        key, first, rate = (str(cell), str(metric)), rows.iloc[0], TRUE_POSITIVE_RATES.get(str(metric))
        values, n, panel = rows["value"].to_numpy(), int(first["n"]), str(first["panel"])
        if metric == "l2_error" and spec.panel(panel).problem.traits.separation_is_known:
            predicted[key[0]] = gaussian_auc(first["d"] / (n * values.mean()))
        if rate is None and metric not in (AUC, POOLED_AUC):
            continue
        if rate is None:
            intervals[key] = _mean_interval(values)
        else:  # as if all candidates were independent
            interval = clopper_pearson(round(float(values.sum()) * n), n * len(values))
            intervals[key] = interval.low, interval.high
        epsilon, delta = float(rows["estimator_epsilon"].max()), float(first["delta"])
        if not (math.isfinite(epsilon) and epsilon > 0):
            continue
        allowed[key] = (
            auc_ceiling(epsilon, delta) if rate is None else float(tpr_ceiling(rate, epsilon, delta))
        )
        tested[key] = (values, n, rate, epsilon, delta)
        if (first["estimator"], first["form"]) in noisy[panel]:
            mu = gaussian_mu(epsilon, delta)
            gaussian[key] = gaussian_auc(mu) if rate is None else float(gaussian_tpr_ceiling(rate, mu))
    ceilings, roc_ceilings = _ceilings(spec)
    return AttackFindings(
        intervals=intervals,
        allowed=allowed,
        allowed_gaussian=gaussian,
        exceeding=tuple(key for key, test in tested.items() if _exceeds(*test, _ERROR / len(tested))),
        predicted=predicted,
        claimed_sums=_claimed_sums(spec),
        ceilings=ceilings,
        roc_ceilings=roc_ceilings,
    )


def _claimed_sums(spec: StudySpec) -> dict[str, float]:
    """Return what the paper claims of each panel's sum of scores, over what an unbiased estimate gives.

    NaN where it claims no more than a constant, nothing of real data, whose truth is not known.
    """
    simulated = [panel for panel in spec.panels if not isinstance(panel.problem, DatasetSource)]
    sizes = {panel.name: panel.problem.sizes(spec.headline.n) for panel in simulated}
    return {name: math.log(each["d"]) if "s" in each else math.nan for name, each in sizes.items()}


def _exceeds(
    values: np.ndarray, n: int, rate: float | None, epsilon: float, delta: float, level: float
) -> bool:
    """Whether the values of a cell's metric contradict its certificate, at a level of error.

    A rate's bound is taken at the highest false positive rate that the non-members' counts leave open.
    """
    if rate is None:
        ceiling = auc_ceiling(epsilon, delta)
        if values.std() <= ROUNDING * values.mean():  # equal values have no standard error: the sign test
            return bool(values.mean() > ceiling) and 0.5 ** len(values) <= level
        return bool(values.mean() - _reach(values, level) > ceiling)
    trials = n * len(values)
    above = clopper_pearson(math.floor(rate * trials + 1e-9), trials, confidence=1 - level).high
    hits = clopper_pearson(round(float(values.sum()) * n), trials, confidence=1 - level)
    return hits.low > float(tpr_ceiling(above, epsilon, delta))


def _reach(values: np.ndarray, level: float) -> float:
    """Return how far a one-sided confidence limit of the mean, Student's, lies from it."""
    return float(scipy.stats.t.isf(level, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def _mean_interval(values: np.ndarray) -> tuple[float, float]:
    if len(values) < 2:
        return math.nan, math.nan
    reach = _reach(values, 0.025)
    return max(0.0, float(values.mean() - reach)), min(1.0, float(values.mean() + reach))


def _gaussian_estimators(spec: StudySpec, panel: Panel) -> set[tuple[str, str]]:
    """Return (name, form) of the estimators whose releases are all Gaussian."""
    return {
        (item.name, item.form)
        for item in spec.estimators_of(panel)
        if item.calibrations and exact_mu(released_events(spec, panel, item)) is not None
    }


def _ceilings(spec: StudySpec) -> tuple[tuple[Guide, ...], tuple[Guide, ...]]:
    """Return the limits of the AUC over ε, and of the true positive rate over the false positive rate."""
    of_auc, of_roc = list[Guide](), list[Guide]()
    rates, head = np.geomspace(1e-3, 1.0, _FINE), spec.headline
    for panel in spec.panels:
        grid = spec.grid_of(panel)
        epsilons = np.geomspace(min(grid.epsilon), max(grid.epsilon), _FINE)
        for n in grid.n:
            name, delta = f"{panel.name}:{n}", delta_at(head.delta, n)
            general = [auc_ceiling(float(e), delta) for e in epsilons]
            normal = [gaussian_auc(gaussian_mu(float(e), delta)) for e in epsilons]
            of_auc += _both_limits(epsilons, general, normal, name)
            normal_rates = gaussian_tpr_ceiling(rates, gaussian_mu(head.epsilon, delta))
            of_roc += _both_limits(rates, tpr_ceiling(rates, head.epsilon, delta), normal_rates, name)
    return tuple(of_auc), tuple(of_roc)


def _both_limits(
    at: Iterable[float], general: Iterable[float], normal: Iterable[float], panel: str
) -> Iterator[Guide]:
    for label, values in (("limit by (ε, δ)", general), ("limit by Gaussian noise", normal)):
        yield Guide(label, tuple(map(float, at)), tuple(map(float, values)), panel)
