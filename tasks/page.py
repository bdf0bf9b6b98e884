"""Build the page of a study from its file, its results table and its manifest."""

from typing import Any, cast

import pandas as pd

import dpalgos
from data.registry import get_dataset
from dpalgos.audit.influence import two_point_bound
from dpalgos.theory.rates import linear_regression_upper
from reports.page import (
    Assumption,
    BudgetPart,
    CellLabel,
    EstimatorInfo,
    Finding,
    Guide,
    Provenance,
    StudyPage,
)
from tasks.limit import METRIC as DELETION_SHIFT
from tasks.spec import StudySpec, delta_at

_PREPARE_NOTES = {
    "public": "Columns are put into public units and an intercept is fitted; the guarantee covers this.",
    "paper": "Columns are standardised by the full data, as in the paper. This step is not private.",
    "residual-clipped": "Residuals are clipped to a public bound; coefficients need none.",
}


def build_page(spec: StudySpec, results: pd.DataFrame, manifest: dict[str, Any]) -> StudyPage:
    """Return everything on the study's page that is not in the results table."""
    head = spec.headline
    cells = results.drop_duplicates("cell")
    rules = {_rule_text(rule) for rule in spec.grid.delta}
    return StudyPage(
        name=spec.name,
        title=spec.title,
        question=spec.question.strip(),
        dataset=_provenance(manifest["data"]),
        estimators=tuple(_estimator(item) for item in dict.fromkeys(e.name for e in spec.estimators)),
        headline={
            "epsilon": head.epsilon,
            "delta_label": _rule_text(head.delta),
            "n": head.n,
            "variant": head.prepare,
        },
        axis_label=spec.size_label,
        metric="l2_error",
        metric_label=spec.metric_label,
        variants=_PREPARE_NOTES,
        guides=(_guide(spec),),
        assumptions=_assumptions(spec),
        budgets=_budgets(manifest["budgets"]),
        findings=_findings(results, head.epsilon),
        notes=tuple(note.text.strip() for note in spec.notes),
        manifest=manifest,
        command=manifest["command"],
        rerun_commands=tuple(manifest["rerun_commands"]),
        profile=manifest["profile"],
        started=manifest["started"],
        finished=manifest["finished"],
        machine=manifest["machine"],
        cells={cell: CellLabel(delta_rule=_rule_of(cell, rules)) for cell in cells["cell"]},
    )


def _rule_text(rule: str) -> str:
    return rule.replace("/n", "/m")


def _rule_of(cell: str, rules: set[str]) -> str:
    for part in cell.split(":"):
        if part.startswith("delta="):
            return _rule_text(part.removeprefix("delta="))
    return ""


def _estimator(name: str) -> EstimatorInfo:
    entry = dpalgos.get_estimator(name)
    required = [item["name"] for item in entry.to_dict()["parameters"] if item["required"]]
    return EstimatorInfo(
        name=entry.name,
        title=entry.title,
        reference=entry.reference,
        privacy_model=entry.privacy_model,
        unit=entry.unit_of_privacy,
        neighbors=entry.neighboring_relation,
        public_inputs=tuple(key for key in required if key not in ("epsilon", "delta")),
        summary=entry.summary,
        order=entry.order,
    )


def _provenance(data: dict[str, Any]) -> Provenance:
    dataset = get_dataset(data["name"])
    return Provenance(
        dataset=dataset.name,
        title=dataset.title,
        data_source=data["data_source"],
        n_rows=data["n_rows"],
        rows_read=data["rows_read"],
        repairs=tuple((repair["reason"], repair["count"]) for repair in data["repairs"]),
        source_url=data["source_url"],
        source_sha256=data["source_sha256"],
        license=dataset.license,
        citation=dataset.citation,
        origin=data["origin"],
        privacy_unit=dataset.privacy_unit,
        reasons=tuple(data["reasons"]),
    )


def _guide(spec: StudySpec) -> Guide:
    head, sizes = spec.headline, spec.grid.n
    deltas = [delta_at(head.delta, n) for n in sizes]
    rate = linear_regression_upper(sizes, len(spec.covariates), head.epsilon, deltas)
    return Guide(
        label="the paper's rate, constant 1", n=tuple(map(float, sizes)), value=tuple(map(float, rate))
    )


def _assumptions(spec: StudySpec) -> tuple[Assumption, ...]:
    dataset = get_dataset(spec.dataset)
    units = [
        Assumption(
            what=f"Centre and scale of {column.name.replace('_', ' ')}",
            value=f"{column.center:g} ± {column.scale:g} {column.unit}".strip(),
            source=column.bounds_source,
        )
        for column in (dataset.column(name) for name in (*spec.covariates, spec.response))
        if column.center is not None and column.scale is not None
    ]
    return (*units, *(Assumption(what=a.what, value=a.value, source=a.source) for a in spec.assumptions))


def _budgets(budgets: dict[str, dict[str, float]]) -> tuple[BudgetPart, ...]:
    parts = []
    for name, shares in budgets.items():
        estimator, _, form = name.partition("|")
        parts.append(BudgetPart(estimator=estimator, variant=form, parts=tuple(shares.items())))
    return tuple(parts)


def _findings(results: pd.DataFrame, epsilon: float) -> tuple[Finding, ...]:
    findings = []
    for row in results[results["metric"] == DELETION_SHIFT].itertuples():
        deleted = int(str(row.cell).rpartition("=")[2])
        shift = cast(float, row.value)
        what = "the most influential row" if deleted == 1 else f"the {deleted} most influential rows"
        text = f"Deleting {what} of {row.n:,} moves full-sample least squares by {shift:.3f}."
        if deleted == 1:
            bound = two_point_bound(shift, epsilon)
            text += (
                f" So no answer that is private at ε = {epsilon:g} (and δ = 0) can be closer than "
                f"{bound:.3f} on average, both on these data and on the data without that row."
            )
        findings.append(Finding(label=f"deleting {what}", value=shift, text=text))
    return tuple(findings)
