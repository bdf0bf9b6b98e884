"""Build the page of a study from its file, its results table and its manifest."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import scipy

import dpalgos
from data.results.table import AUC, POOLED_AUC, TRUE_POSITIVE_RATES, with_form
from dpalgos.accounting.composition import exact_mu
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.risk import risk_of_events
from dpalgos.catalog import Estimator
from dpalgos.tuning.descent import BY_FORECAST
from reports.cells import CALIBRATION_WORDS, ROUNDING, nearest_value
from reports.page import ZERO, AttackFindings, Axis, DataCard, Guide, Section, StudyPage
from reports.writing import num
from tasks.papers import paper_names
from tasks.problems.attack_rates import (
    auc_ceiling,
    clopper_pearson,
    gaussian_auc,
    gaussian_tpr_ceiling,
    tpr_ceiling,
)
from tasks.problems.kinds import measure_of
from tasks.problems.problem import DatasetSource, RowSource
from tasks.report.manifest import released_events
from tasks.size_rules import delta_at
from tasks.study.spec import Panel, StudySpec

_FINE = 20  # points of a ceiling's curve
_ERROR = 0.01  # of all tests of certificates together
# Metrics that are reference values of the data, and the lines that show them.
_LIMITS = {
    "chance": "difference of two random groups",
    "sparse_floor": "smallest error with s entries",
}


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


def build_page(
    spec: StudySpec,
    results: pd.DataFrame,
    manifest: dict[str, Any],
    exhibits: Mapping[str, Any] = MappingProxyType({}),
) -> StudyPage:
    """Return everything on the study's page that is not in the results table."""
    head = spec.headline
    problem = spec.head_panel.problem
    measure, traits = measure_of(problem), problem.traits
    symbol = traits.size_symbol if spec.axis == "n" else "n"
    estimators = [item for panel in spec.panels for item in spec.estimators_of(panel)]
    cards = tuple(
        DataCard(spec.about(one["name"]), one, one["data_source"] != "stand-in" and not spec.analyst_table)
        for one in manifest["data"]
    )
    known = {card.dataset.name: str(card.read["data_source"]) for card in cards}
    sources = {panel.name: known.get(panel.problem.source, "simulated") for panel in spec.panels}
    findings: Any = None
    if measure.layout == "attack_page":
        findings = attack_findings(spec, results)
    label_guide = []
    if rate := _label_rate(exhibits):
        label = f"the more frequent label: {num(rate)} (not private)"
        label_guide.append(Guide(label, (), (rate,), head.panel))
    problems = {panel.name: panel.problem for panel in spec.panels}
    ran = results[["panel", "n"]].drop_duplicates().itertuples(index=False, name=None)
    return StudyPage(
        name=spec.name,
        title=spec.title,
        question=spec.question.strip(),
        estimators=tuple(_estimators(spec)),
        sections=tuple(_sections(spec, results, manifest, exhibits)),
        sparse=frozenset(item.name for item in estimators if "sparsity" in item.params),
        headline={
            "epsilon": head.epsilon,
            "delta_rule": head.delta,
            "n": head.s or head.steps or head.n,
            "panel": head.panel,
        },
        axis=Axis(spec.size_label, spec.axis, {"n": symbol, "steps": "T", "s": "s"}[spec.axis], symbol),
        metric=measure.metric(traits),
        metric_label=spec.metric_label,
        guides=(
            *(guide for panel in spec.panels for guide in _guides(spec, panel)),
            *label_guide,
            *_limit_guides(results),
        ),
        manifest=manifest,
        unprotected_panels=tuple(panel.name for panel in spec.panels if not panel.problem.traits.protected),
        panel_word=traits.panel_word if len({each.source for each in problems.values()}) == 1 else "panel",
        population=_population(problem, manifest["data"]),
        populations={p.name: _population(p.problem, manifest["data"])[0] for p in spec.panels},
        without_signal=_without_signal(results),
        layout=measure.layout,
        beyond_errors=findings,
        data_cards=cards,
        simulated=spec.data if any(source == "simulated" for source in sources.values()) else "",
        panel_sources=sources,
        about=head.about,
        n_coefficients=traits.n_coefficients,
        people={(panel, n): problems[panel].n_people(n) for panel, n in ran if panel in problems},
        full_sizes={panel.name: max(spec.grid_of(panel).n) for panel in spec.panels},
        figures=spec.figures,
        papers=paper_names() if spec.figures else {},
    )


def _estimators(spec: StudySpec) -> Iterator[Estimator]:
    """Yield each estimator once, as it protects rows or people in the first panel that has it."""
    of_people: dict[str, bool] = {}
    for panel in spec.panels:
        for item in spec.estimators_of(panel):
            of_people.setdefault(item.name, panel.problem.traits.of_people)
    for name, people in of_people.items():
        yield dpalgos.get_estimator(name).for_unit(people=people)


def _sections(
    spec: StudySpec, results: pd.DataFrame, manifest: dict[str, Any], exhibits: Mapping[str, Any]
) -> Iterator[Section]:
    """Yield the page's own sections, in its order."""
    tables = [
        {**each.model_dump(), "content": each.lines or exhibits.get(each.exhibit, {}).get("rows", ())}
        for each in spec.tables
    ]
    for name, content in exhibits.items():
        if name not in ("classification", *(each["exhibit"] for each in tables)):
            yield Section(name, content)
    yield Section("tables", {"tables": tables})
    notes = (*(note.text.strip() for note in spec.notes), *manifest.get("not_run", {}).values())
    yield Section("trust", {"measured": spec.head_panel.problem.traits.measured, "notes": notes})
    if risk := _risk(_as_ran(spec, results)):
        yield Section("risk", {"text": risk})
    if rate := _label_rate(exhibits):
        yield Section("label_rate", {"rate": rate})
    yield Section("certified")
    yield Section("budgets")
    yield Section("public", {"rows": _assumptions(spec)})
    estimators = [item for panel in spec.panels for item in spec.estimators_of(panel)]
    about = {panel.name: panel.about for panel in spec.panels if panel.about}
    about |= {item.form: item.about for item in estimators if item.about}
    yield Section("variants", {"about": about})
    settings: dict[str, dict[str, None]] = {item.name: {} for item in estimators}
    for item in estimators:
        if item.params:
            keywords = ", ".join(f"{key} = {value}" for key, value in item.params.items())
            settings[item.name][f"{item.form}: {keywords}" if item.form else keywords] = None
    yield Section("estimators", {"settings": settings})


def _as_ran(spec: StudySpec, results: pd.DataFrame) -> StudySpec:
    """Return the study with its headline at the size that ran, the nearest one to its own."""
    sizes = results.loc[(results["panel"] == spec.headline.panel) & results["epsilon"].notna(), "n"]
    if (nearest := nearest_value(sizes, spec.headline.n)) is None:
        return spec
    headline = spec.headline.model_copy(update={"n": int(nearest)})
    return spec.model_copy(update={"headline": headline})


def _risk(spec: StudySpec) -> str:
    """Say what the most revealing private release of the headline lets an attacker learn, from its events."""
    head, panel = spec.headline, spec.head_panel
    if not panel.problem.traits.protected:
        return ""
    delta = delta_at(head.delta, head.n)
    risks = [
        (
            risk_of_events(released_events(spec, panel, item), delta),
            with_form(dpalgos.get_estimator(item.name).title, item.form),
        )
        for item in spec.estimators_of(panel)
        if item.calibrations
    ]
    if not risks:
        return ""
    most = max(risk.log_odds for risk, _ in risks)
    risk, name = next(each for each in risks if each[0].log_odds >= (1 - ROUNDING) * most)  # not by rounding
    sentence = risk.sentence.replace(f"{risk.delta:.2g}", num(risk.delta))
    return f"Most is learned from {name}: at ε = {head.epsilon:g} and δ = {num(delta)}, {sentence}."


def _population(problem: RowSource, data: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """Return how many rows or users there are, and which; of two groups the harmonic mean of their sizes.

    With equal variances, the difference of means of m people per group has the variance of a sample of m out
    of that many.
    """
    declared, units = problem.traits.population
    if not declared:
        return 0, units
    about = next((one for one in data if one["name"] == problem.source), {})
    if sizes := about.get("group_sizes"):
        return round(len(sizes) / sum(1 / size for size in sizes)), units
    return int(about.get(f"n_{units}", declared)), units


def _guides(spec: StudySpec, panel: Panel) -> Iterator[Guide]:
    """Yield the theory's lines at every ε and δ; they are of the size, and flat along steps."""
    grid, problem = spec.grid_of(panel), panel.problem
    if measure_of(problem).of_intervals:
        return
    task, steps = spec.task_of(panel), grid.steps
    for epsilon, rule in product(grid.epsilon, grid.delta):
        rates = [problem.rates(task, n, epsilon, delta_at(rule, n)) for n in grid.n]
        for label in rates[0]:
            values = tuple(at[label] for at in rates) * max(1, len(steps))
            places = tuple(map(float, steps or grid.n))
            yield Guide(label, places, values, panel.name, epsilon, rule)


def _assumptions(spec: StudySpec) -> tuple[tuple[str, str, str], ...]:
    problem = spec.head_panel.problem
    columns = problem.columns() if isinstance(problem, DatasetSource) else ()
    units = []
    for column in columns:
        if column.center is not None and column.scale is not None:
            value, unit = f"{column.center:,.10g} ± {column.scale:,.10g}", column.unit
            value = f"{value}, in {unit}" if unit[:1].isdigit() else f"{value} {unit}".strip()
            units.append((f"Center and scale of {column.name.replace('_', ' ')}", value, column.source))
    stated = ((each.what, each.value, each.source) for each in spec.assumptions)
    return (*units, *stated, *_chosen_by_forecast(spec))


def _chosen_by_forecast(spec: StudySpec) -> Iterator[tuple[str, str, str]]:
    """Yield the settings that a forecast chose at the headline, by estimator and calibration."""
    items = {(item.name, item.form): item for item in spec.estimators_of(spec.head_panel)}
    if not any(item.by_forecast for item in items.values()):
        return
    spec = spec.without({panel.name for panel in spec.panels} - {spec.headline.panel})
    for cell in spec.headline_cells(spec.blocks("standard", replicates=1, seed=0)):
        item = items[cell.estimator, cell.form]
        stated = {name for name, value in item.params.items() if value != BY_FORECAST}
        values = [f"{name} = {value:.4g}" for name, value in cell.params.items() if name not in stated]
        if item.by_forecast:
            title = with_form(dpalgos.get_estimator(cell.estimator).title, cell.form)
            setting = f"ε = {cell.epsilon:g}, n = {cell.n:,}"
            description = f"{title}, {CALIBRATION_WORDS[cell.calibration]}, at {setting}"
            source = "by forecast on synthetic tables of the study's guesses; no row of the data"
            yield description, ", ".join(values), source


def _label_rate(exhibits: Mapping[str, Any]) -> float:
    """Return the error of always predicting the more frequent label; 0 where it is not known."""
    counts = exhibits.get("classification", {}).get("label_counts", ())
    return min(counts) / sum(counts) if counts else 0.0


def _limit_guides(results: pd.DataFrame) -> Iterator[Guide]:
    """Yield the reference values of each panel's data as flat lines."""
    for name, label in _LIMITS.items():
        for panel, values in results[results["metric"] == name].groupby("panel", sort=False)["value"]:
            yield Guide(label, (), (float(values.iloc[0]),), str(panel), shown=True)


def _without_signal(results: pd.DataFrame) -> tuple[str, ...]:
    """Return the panels whose truth, the zero baseline's error, is no larger than chance explains."""
    of_zero = results[results["estimator"] == ZERO]
    errors = of_zero.pivot_table(index="panel", columns="metric", values="value", sort=False)
    if "largest_by_chance" not in errors:
        return ()
    return tuple(errors.index[errors["rms_error"] <= errors["largest_by_chance"]].astype(str))
