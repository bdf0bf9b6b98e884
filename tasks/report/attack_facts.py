"""Facts for the page of a study of attacks: intervals, ceilings, predictions, claims."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

import dpalgos
from dpalgos.accounting.events import GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.audit.roc import (
    auc_ceiling,
    clopper_pearson,
    gaussian_auc_ceiling,
    gaussian_tpr_ceiling,
    predicted_auc,
    tpr_ceiling,
)
from reports.page import AttackFacts, Guide
from tasks.problems.abilities import KnowsSeparation
from tasks.problems.attack_metrics import AUC, L2_ERROR, POOLED_AUC, RATES, rate_metric, rate_of
from tasks.problems.problem import DatasetProblem
from tasks.rules import delta_at, evaluate_all
from tasks.study.panel import EstimatorSpec, Panel
from tasks.study.spec import StudySpec

_FINE = 40  # points of a ceiling's curve
_NORMAL_95 = 1.959964
_ERROR = 0.01  # of all tests of certificates together


def attack_facts(spec: StudySpec, results: pd.DataFrame) -> AttackFacts:
    """Return the facts that the results table does not contain."""
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    allowed: dict[tuple[str, str], float] = {}
    gaussian: dict[tuple[str, str], float] = {}
    predicted: dict[str, float] = {}
    plain = _plainly_gaussian(spec)
    noisy = {panel.name: _gaussian_estimators(spec, panel) for panel in spec.panels}
    ok = results[results["status"] == "ok"]
    measured = {
        (str(cell), str(metric)): rows for (cell, metric), rows in ok.groupby(["cell", "metric"], sort=False)
    }
    for place, rows in measured.items():
        first = rows.iloc[0]
        panel, form = str(first["panel"]), str(first["form"])
        rate = rate_of(place[1])
        if place[1] == L2_ERROR and panel in plain:
            separation = first["d"] / (first["n"] * rows["value"].mean())
            predicted[place[0]] = predicted_auc(separation)
        if rate is None and place[1] not in (AUC, POOLED_AUC):
            continue
        intervals[place] = _interval(
            rows["value"].to_numpy(), int(first["n"]), of_candidates=rate is not None
        )
        epsilon, delta = rows["estimator_epsilon"].max(), float(first["delta"])
        if not (math.isfinite(epsilon) and epsilon > 0):
            continue
        allowed[place] = (
            auc_ceiling(epsilon, delta) if rate is None else float(tpr_ceiling(rate, epsilon, delta))
        )
        if (first["estimator"], form) in noisy[panel]:
            mu = gaussian_mu(float(epsilon), delta)
            gaussian[place] = (
                gaussian_auc_ceiling(mu) if rate is None else float(gaussian_tpr_ceiling(rate, mu))
            )
    exceeding = tuple(
        place for place in allowed if _exceeds(measured[place], rate_of(place[1]), len(allowed))
    )
    return AttackFacts(
        rates={rate_metric(digits): float(f"0.{digits}") for digits in RATES},
        intervals=intervals,
        allowed=allowed,
        allowed_gaussian=gaussian,
        exceeding=exceeding,
        predicted=predicted,
        claimed_sums={
            panel.name: math.log(sizes["d"]) if "s" in sizes else math.nan
            for panel in spec.panels
            if not isinstance(panel.problem, DatasetProblem)
            and (sizes := panel.problem.sizes(spec.headline.n))
        },
        ceilings=tuple(_auc_ceilings(spec)),
        roc_ceilings=tuple(_roc_ceilings(spec)),
    )


def _exceeds(rows: pd.DataFrame, rate: float | None, n_tests: int) -> bool:
    """Whether a cell's metric contradicts its certificate, so that all tests together err in 1 % at most.

    A rate's bound is taken at the highest false positive rate that the non-members' counts leave open.
    """
    values, first = rows["value"].to_numpy(), rows.iloc[0]
    epsilon, delta = float(rows["estimator_epsilon"].max()), float(first["delta"])
    level = _ERROR / n_tests
    if rate is None:
        if len(values) < 2:
            return False
        reach = stats.t.isf(level, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        return bool(values.mean() - reach > auc_ceiling(epsilon, delta))
    trials = int(first["n"]) * len(values)
    above = clopper_pearson(math.floor(rate * trials + 1e-9), trials, confidence=1 - level).high
    hits = clopper_pearson(round(float(values.sum()) * int(first["n"])), trials, confidence=1 - level)
    return hits.low > float(tpr_ceiling(above, epsilon, delta))


def _interval(values: np.ndarray, n: int, *, of_candidates: bool) -> tuple[float, float]:
    if of_candidates:
        trials = n * len(values)
        found = clopper_pearson(round(float(values.sum()) * n), trials)
        return found.low, found.high
    if len(values) < 2:
        return math.nan, math.nan
    reach = _NORMAL_95 * values.std(ddof=1) / math.sqrt(len(values))
    return max(0.0, float(values.mean() - reach)), min(1.0, float(values.mean() + reach))


def _plainly_gaussian(spec: StudySpec) -> set[str]:
    """Return the panels with rows N(μ, I) that are attacked on all coordinates: there d' is known."""
    problems = {panel.name: panel.problem for panel in spec.panels}
    return {
        name
        for name, each in problems.items()
        if isinstance(each, KnowsSeparation) and each.separation_is_known
    }


def _gaussian_estimators(spec: StudySpec, panel: Panel) -> set[tuple[str, str]]:
    """Return (name, form) of the estimators whose releases are all Gaussian, by running them on noise."""
    sizes = panel.problem.sizes(min(spec.grid_of(panel).n))
    return {
        (item.name, item.form)
        for item in spec.estimators_of(panel)
        if item.calibrations and _only_gaussian(item, sizes, spec.task_of(panel))
    }


def _only_gaussian(item: EstimatorSpec, sizes: dict[str, int], task: str) -> bool:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, sizes["d"])), rng.integers(0, 2, 20)  # responses to every model
    result = dpalgos.estimate(
        item.name,
        X,
        None if task == "mean" else y,
        rng=rng,
        epsilon=1.0,
        delta=1e-3,
        calibration=item.calibrations[0],
        **evaluate_all(item.params, sizes),
    )
    return all(isinstance(event, GaussianEvent) for event in result.events)


def _auc_ceilings(spec: StudySpec) -> Iterator[Guide]:
    for panel, n, delta in _places(spec):
        epsilons = np.geomspace(min(spec.grid_of(panel).epsilon), max(spec.grid_of(panel).epsilon), _FINE)
        general = [auc_ceiling(float(e), delta) for e in epsilons]
        normal = [gaussian_auc_ceiling(gaussian_mu(float(e), delta)) for e in epsilons]
        for label, values in (("(ε, δ) allows", general), ("Gaussian noise allows", normal)):
            yield Guide(label, tuple(map(float, epsilons)), tuple(values), f"{panel.name}:{n}")


def _roc_ceilings(spec: StudySpec) -> Iterator[Guide]:
    rates, epsilon = np.geomspace(1e-3, 1.0, _FINE), spec.headline.epsilon
    for panel, n, delta in _places(spec):
        general = tpr_ceiling(rates, epsilon, delta)
        normal = gaussian_tpr_ceiling(rates, gaussian_mu(epsilon, delta))
        for label, values in (("(ε, δ) allows", general), ("Gaussian noise allows", normal)):
            yield Guide(label, tuple(map(float, rates)), tuple(map(float, values)), f"{panel.name}:{n}")


def _places(spec: StudySpec) -> Iterator[tuple[Panel, int, float]]:
    for panel in spec.panels:
        for n in spec.grid_of(panel).n:
            yield panel, n, delta_at(spec.headline.delta, n)
