"""Build the page of a study from its file, its results table and its manifest."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pandas as pd

import dpalgos
from data.dataset import Column, Dataset
from data.store.folders import sha256_file
from dpalgos.accounting.risk import risk_of_events
from dpalgos.audit.deletion_shifts import two_point_bound
from dpalgos.catalog import Estimator
from dpalgos.plugins import outside_plugins
from reports.analysis.results import DELETION_SHIFT
from reports.page import (
    Assumption,
    BudgetPart,
    DataCard,
    EstimatorInfo,
    Finding,
    Guide,
    PrintedRow,
    Provenance,
    StudyPage,
)
from reports.writing import num
from tasks.problems.problem import (
    CountsSigns,
    DrawsFromPopulation,
    HasFindings,
    PredictsErrors,
    Problem,
    ReadsTable,
)
from tasks.report.attack_facts import attack_facts
from tasks.report.manifest import released_events
from tasks.rules import delta_at
from tasks.study.panel import EstimatorSpec, Panel
from tasks.study.spec import StudySpec

# What the layouts of `reports.pages.study` show in addition to the results table.
LAYOUT_FACTS = {"attack_page": attack_facts}


def build_page(
    spec: StudySpec,
    results: pd.DataFrame,
    manifest: dict[str, Any],
    exhibits: Mapping[str, Any] = MappingProxyType({}),
) -> StudyPage:
    """Return everything on the study's page that is not in the results table."""
    head = spec.headline
    problem = spec.head_panel.problem
    symbol = problem.size_symbol if spec.axis == "n" else "n"
    estimators = [item for panel in spec.panels for item in spec.estimators_of(panel)]
    cards = tuple(_card(spec, spec.about(one["name"]), one) for one in manifest["data"])
    return StudyPage(
        name=spec.name,
        title=spec.title,
        question=spec.question.strip(),
        dataset=_provenance(spec, manifest, cards),
        estimators=tuple(
            _estimator(name, [item for item in estimators if item.name == name])
            for name in dict.fromkeys(item.name for item in estimators)
        ),
        headline={
            "epsilon": head.epsilon,
            "delta_rule": head.delta,
            "n": head.s or head.steps or head.n,
            "panel": head.panel,
        },
        axis_label=spec.size_label,
        metric=problem.metric,
        metric_label=spec.metric_label,
        panels_and_forms={
            **{panel.name: panel.about for panel in spec.panels if panel.about},
            **{item.form: item.about for item in estimators if item.about},
        },
        guides=tuple(guide for panel in spec.panels for guide in _guides(spec, panel)),
        assumptions=_assumptions(spec),
        budgets=tuple(
            BudgetPart(part["estimator"], part["form"], tuple(part["shares"].items()))
            for part in manifest["budgets"]
        ),
        findings=(
            *_findings(spec, results),
            *(problem.findings(exhibits) if isinstance(problem, HasFindings) else ()),
        ),
        notes=(*(note.text.strip() for note in spec.notes), *manifest.get("not_run", {}).values()),
        manifest=manifest,
        unprotected_panels=tuple(panel.name for panel in spec.panels if not panel.problem.protected),
        panel_word=problem.panel_word,
        x_column=spec.axis,
        x_symbol={"n": symbol, "steps": "T", "s": "s"}[spec.axis],
        rows_symbol=symbol,
        population=_population(problem, manifest["data"]),
        printed=tuple(
            PrintedRow(row.delta, row.epsilon, float(s), mean, spread)
            for row in spec.printed
            for s, mean, spread in zip(row.s, row.mean, row.spread, strict=True)
        ),
        exhibits=exhibits,
        layout=problem.layout,
        layout_facts=LAYOUT_FACTS[problem.layout](spec, results) if problem.layout in LAYOUT_FACTS else None,
        warning=manifest.get("warning", ""),
        measured=problem.measured,
        data_cards=cards,
        risk=_risk(spec),
        kind=spec.task,
        about=head.about,
        n_coefficients=problem.n_coefficients if isinstance(problem, CountsSigns) else 0,
    )


def _risk(spec: StudySpec) -> str:
    """Say what the most revealing private answer of the headline lets an attacker learn, from its events."""
    head, panel = spec.headline, spec.head_panel
    delta = delta_at(head.delta, head.n)
    risks = [
        (risk_of_events(released_events(spec, panel, item), delta), dpalgos.get_estimator(item.name).title)
        for item in spec.estimators_of(panel)
        if item.calibrations
    ]
    if not risks:
        return ""
    risk, title = max(risks, key=lambda each: each[0].log_odds)
    sentence = risk.sentence.replace(f"{risk.delta:.2g}", num(risk.delta))
    return f"Most is learned from {title}: at ε = {head.epsilon:g} and δ = {num(delta)}, {sentence}."


def _population(problem: Problem, data: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    if not isinstance(problem, DrawsFromPopulation):
        return 0, "rows"
    declared, units = problem.population
    left = [int(one[f"n_{units}"]) for one in data if one["name"] == problem.source]
    return (left or [declared])[0], units


def _estimator(name: str, items: Sequence[EstimatorSpec]) -> EstimatorInfo:
    entry = dpalgos.get_estimator(name)
    required = [item["name"] for item in entry.to_dict()["parameters"] if item["required"]]
    public = [key for key in required if key not in ("epsilon", "delta")]
    return EstimatorInfo(
        name=entry.name,
        title=entry.title,
        reference=_outside(entry) or entry.reference,
        privacy_model=entry.privacy_model,
        unit=entry.unit_of_privacy,
        neighbors=entry.neighboring_relation,
        public_inputs=(*public, *([entry.public] if entry.public else [])),
        summary=entry.summary,
        order=entry.order,
        settings=tuple(dict.fromkeys(_settings(item) for item in items if item.params)),
        is_sparse=any("sparsity" in item.params for item in items),
    )


def _outside(entry: Estimator) -> str:
    """Say which file an estimator from outside is in; empty for one of the project."""
    module = outside_plugins().modules.get(entry.function.__module__)
    if module is None:
        return ""
    file = Path(str(module.__file__))
    return f"from outside of dpcost: {file.name}, sha256 {sha256_file(file)[:12]}"


def _settings(item: EstimatorSpec) -> str:
    """Return a form's public keywords: "residual-clipped: covariate_bound = 3.0, residual_bound = 1.0"."""
    keywords = ", ".join(f"{key} = {value}" for key, value in item.params.items())
    return f"{item.form}: {keywords}" if item.form else keywords


def _provenance(spec: StudySpec, manifest: dict[str, Any], cards: Sequence[DataCard]) -> Provenance:
    """Return where the rows come from; what differs among several datasets is listed, each once."""
    problems = {panel.name: panel.problem for panel in spec.panels}
    if not cards:
        models = ", ".join(dict.fromkeys(problem.source for problem in problems.values()))
        return Provenance(dataset=models, title=spec.data, data_source="simulated")
    sources = {card.name: card.data_source for card in cards}
    simulated = any(problem.source not in sources for problem in problems.values())

    def listed(field: str, between: str) -> str:
        return between.join(dict.fromkeys(filter(None, (getattr(card, field) for card in cards))))

    return Provenance(
        dataset=listed("name", ", "),
        title=listed("title", " — and "),
        data_source="stand-in" if "stand-in" in sources.values() else "real",
        n_rows=sum(card.n_rows for card in cards),
        rows_read=sum(card.rows_read for card in cards),
        repairs=tuple(repair for card in cards for repair in card.repairs),
        source_url=listed("source_url", " "),
        source_sha256=listed("sha256", " "),
        license=listed("license", "; "),
        citation=listed("citation", " "),
        origin=listed("origin", ", "),
        privacy_unit=listed("privacy_unit", "; "),
        reasons=tuple(dict.fromkeys(reason for one in manifest["data"] for reason in one["reasons"])),
        simulated_too=spec.data if simulated else "",
        earlier=tuple(
            (one["source_sha256"], one["finished"]) for one in manifest.get("earlier_contents", [])
        ),
        of_panels=tuple((name, sources.get(each.source, "simulated")) for name, each in problems.items()),
    )


def _card(spec: StudySpec, dataset: Dataset, one: dict[str, Any]) -> DataCard:
    stand_in = one["data_source"] == "stand-in"
    return DataCard(
        name=dataset.name,
        title=dataset.title,
        description=dataset.description,
        privacy_unit=dataset.privacy_unit,
        data_source=one["data_source"],
        license=dataset.license,
        citation=dataset.citation,
        source_url=one["source_url"],
        origin=one["origin"],
        sha256=one["source_sha256"],
        table_sha256=one["sha256"],
        rows_read=one["rows_read"],
        n_rows=one["n_rows"],
        repairs=tuple((repair["reason"], repair["count"]) for repair in one["repairs"]),
        columns=tuple(map(_column, dataset.columns)),
        checks=() if stand_in or spec.analyst_table else tuple(_checks(dataset, one)),
        notes=(*one.get("notes", ()), *one["reasons"]),
    )


def _column(column: Column) -> tuple[str, str, str, str, str]:
    known = column.center is not None
    scaled = f"(value − {column.center:,.10g}) / {column.scale:,.10g}" if known else ""
    return (
        column.name,
        column.unit,
        f"{column.lower:,.10g} to {column.upper:,.10g}".replace("-", "−"),
        scaled,
        column.bounds_source,
    )


def _checks(dataset: Dataset, one: dict[str, Any]) -> Iterator[str]:
    """Yield what ingestion refuses a file for: a table that lies in the store has passed."""
    known = next((s for s in dataset.sources if s.layout == one["layout"]), None)
    if known is not None and not known.checksum_is_unknown:
        yield f"the file’s SHA-256 is the published one, {known.expected_checksum}"
    if dataset.table_sha256:
        yield "the table’s digest, the same for every layout of the file, is the known one"
    if dataset.columns:
        yield "columns and their types are the declared ones, and every value lies within its public bounds"
    yield "no more rows were dropped than the registry allows"


def _guides(spec: StudySpec, panel: Panel) -> Iterator[Guide]:
    """Yield the theory's lines at every ε and δ; they are of the size, and flat along steps."""
    grid, problem = spec.grid_of(panel), panel.problem
    if not isinstance(problem, PredictsErrors):
        return
    task, steps = spec.task_of(panel), spec.steps_of(panel) if spec.axis == "steps" else ()
    for epsilon, rule in product(grid.epsilon, grid.delta):
        rates = [problem.rates(task, n, epsilon, delta_at(rule, n)) for n in grid.n]
        for label in rates[0]:
            values = tuple(at[label] for at in rates) * max(1, len(steps))
            places = tuple(map(float, steps or grid.n))
            yield Guide(label, places, values, panel.name, epsilon, rule)


def _assumptions(spec: StudySpec) -> tuple[Assumption, ...]:
    problem = spec.head_panel.problem
    columns = problem.columns() if isinstance(problem, ReadsTable) else ()
    units = [
        Assumption(
            what=f"Center and scale of {column.name.replace('_', ' ')}",
            value=_in_units(column.center, column.scale, column.unit),
            source=column.bounds_source,
        )
        for column in columns
        if column.center is not None and column.scale is not None
    ]
    if rows := spec.public_rows:
        value = f"{rows.n_rows:,} rows of {rows.file}, sha256 {rows.sha256[:8]}"
        units.append(Assumption("Public rows, none of them a private one", value, rows.source))
    return (*units, *(Assumption(**each.model_dump()) for each in spec.assumptions))


def _in_units(center: float, scale: float, unit: str) -> str:
    """Write "4 ± 2, in 10,000 dollars", "500 ± 400 households"."""
    value = f"{center:,.10g} ± {scale:,.10g}"
    return f"{value}, in {unit}" if unit[:1].isdigit() else f"{value} {unit}".strip()


def _findings(spec: StudySpec, results: pd.DataFrame) -> Iterator[Finding]:
    """Yield how far deleting influential rows moves an answer, and what follows for private ones."""
    epsilon, table = spec.headline.epsilon, results[results["metric"] == DELETION_SHIFT]
    table = table[table["cell"].str.endswith(":deleted=1")]
    for row in table.itertuples():
        shift = cast(float, row.value)
        bound = two_point_bound(shift, epsilon)
        answer = "full-sample least squares" if row.estimator == "ols" else "the difference among everybody"
        yield Finding(
            label="deleting the most influential row",
            value=shift,
            text=f"Deleting the most influential row of {row.n:,} moves {answer} by {num(shift)}, so that no "
            f"answer which is private at ε = {epsilon:g} (and δ = 0) can be closer than {num(bound)} on "
            "average, both on these data and on the data without that row.",
            drawn=str(row.panel) == spec.headline.panel,
            panel=str(row.panel) if table["panel"].nunique() > 1 else "",
            floor=bound,
        )
