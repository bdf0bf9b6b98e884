"""Synthetic results for the report tests: invented numbers of a plausible shape, no estimator involved."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from data.datasets import get_dataset
from dpalgos.catalog import Estimator, get_estimator
from reports.page import Axis, DataCard, Guide, Section, StudyPage
from reports.pages.index import Entry
from reports.pages.study import Report
from reports.results import COLUMNS, PRIVACY_COLUMNS, validate_results

SIZES = (100, 200, 500, 1000, 2000, 5000, 10000, 20000, 20600)
EPSILONS = (0.2, 0.5, 1.0, 2.0)
RULES = {"10/n^1.1": lambda m: 10 / m**1.1, "1/n^2": lambda m: 1 / m**2}
ZERO_ERROR = 0.912

PRIVATE = (
    # estimator, form, calibration, error at m = 20,000 and ε = 0.5, slope, floor, certified share
    ("dp_linear_regression", "", "tight", 0.62, 0.03, 0.6, 0.9985),
    ("dp_linear_regression", "", "paper", 1.6, 0.02, 1.2, 0.07),
    ("dp_linear_regression", "residual-clipped", "tight", 0.55, 0.09, 0.45, 0.9985),
    ("dp_linear_regression", "residual-clipped", "paper", 1.25, 0.12, 0.6, 0.07),
    ("sheffet_ols", "", "tight", 0.70, 0.2, 0.0, 0.999),
    ("sheffet_ols", "", "paper", 0.86, 0.02, 0.8, 0.04),
    ("adassp", "", "tight", 0.21, 0.45, 0.0, 0.9999),
    ("adassp", "", "paper", 0.27, 0.42, 0.0, 0.86),
    ("preconditioned_regression", "", "tight", 0.109, 0.26, 0.0, 0.9999),
)

BASE = {"study": "housing", "dataset": "california_housing", "data_source": "real", "form": "", "steps": None}
BASE |= {"delta_rule": "", "d": 5, "s": None, "metric": "l2_error", "status": "ok", "message": ""}
BASE |= dict.fromkeys(PRIVACY_COLUMNS, math.nan)


def synthetic_results(replicates=10, data_source="real", sizes=SIZES):
    """Invent a results table with every feature a report must show."""
    rng = np.random.default_rng(2024)
    rows: list[dict[str, object]] = []
    plain = {"calibration": "none", "privacy_model": "none"}
    for panel in ("public", "paper"):
        for m in sizes:
            scale = 0.122 * math.sqrt(2000 / m) * math.sqrt(max(0.0, 1 - m / 20640) / (1 - 2000 / 20640))
            for name, mean in (("zero", ZERO_ERROR), ("ols", scale)):
                cell = BASE | plain | {"estimator": name, "panel": panel, "cell": f"{name}/{panel}/{m}"}
                for r in range(replicates):
                    noise = 1.0 if name == "zero" else float(np.exp(rng.normal(0, 0.3)))
                    rows.append(cell | {"n": m, "replicate": r, "seed": 1000 + r, "value": mean * noise})
            for epsilon, (rule, delta) in itertools.product(EPSILONS, RULES.items()):
                rows += _private_rows(rng, panel, m, epsilon, rule, delta(m), replicates)
    frame = pd.DataFrame(rows)
    frame["data_source"] = data_source
    return validate_results(frame[list(COLUMNS)])


def _private_rows(rng, panel, m, epsilon, rule, delta, replicates):
    rows = []
    for name, form, calibration, at, slope, floor, share in PRIVATE:
        harder = 1.5 if rule == "1/n^2" else 1.0
        mean = max(floor, at * (20000 / m) ** slope * (0.5 / epsilon) ** 0.4 * harder ** (slope * 2))
        if panel == "paper":
            mean *= 0.94
        proved = epsilon * share * (1 - 0.02 * (m < 1000))
        cell = {"estimator": name, "panel": panel, "form": form, "delta_rule": rule, "n": m}
        key = f"{name}/{calibration}/{panel}/{form}/{epsilon}/{rule}/{m}"
        cell |= {"cell": key, "calibration": calibration, "privacy_model": "central"}
        cell |= {"epsilon": epsilon, "delta": delta}
        cell |= dict.fromkeys(("certified_epsilon", "estimator_epsilon"), proved)
        for r in range(replicates):
            status, message, value = "ok", "", float(mean * np.exp(rng.normal(0, 0.18)))
            if name == "sheffet_ols" and calibration == "paper" and m <= 200:
                status, message = "refused", "the sketch needs at least 50 rows more than columns"
            if name == "adassp" and calibration == "tight" and m == 500 and r == 1:
                status, message = "failed", "the noisy matrix is singular"
            answer = {"value": value if status == "ok" else math.nan, "status": status, "message": message}
            rows.append(BASE | cell | answer | {"replicate": r, "seed": r})
    return rows


def _about(order: int, name: str, title: str, reference: str = "") -> Estimator:
    summary = f"What {title} does."
    return replace(get_estimator(name), title=title, reference=reference, summary=summary, order=order)


TITLES = (
    ("zero", "Zero vector"),
    ("ols", "Ordinary least squares"),
    ("dp_linear_regression", "Noisy gradient descent", "The Cost of Privacy, Algorithm 4.1"),
    ("sheffet_ols", "Sketched OLS", "Sheffet 2017, Algorithm 1"),
    ("adassp", "AdaSSP", "Wang 2018"),
    ("preconditioned_regression", "Preconditioned regression", "this project"),
)
ESTIMATORS = tuple(_about(order, *words) for order, words in enumerate(TITLES))

WORDS = {"title": "California housing, 1990 census", "privacy_unit": "a census block group"}
HOUSING = replace(get_dataset("housing"), **WORDS)
READ = {"data_source": "real", "origin": "the local store", "repairs": [], "reasons": []}
READ |= {"source_url": "https://example.org/cal_housing.tgz", "rows_read": 20640, "n_rows": 20640}
READ |= {"source_sha256": "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681"}
CARD = DataCard(HOUSING, READ | {"sha256": "cd" * 32})


MANIFEST = {
    **{"version": "0.1.0", "commit": "745a704", "machine": "2 cores, 8 GiB, Linux", "profile": "standard"},
    **{"started": "2026-03-12T14:05:00+00:00", "finished": "2026-03-12T14:05:48+00:00", "seed": 20240501},
    "rerun_commands": ("dpcost rerun housing --task run_block --cell adassp/tight/public/0.5/2000",),
    "command": "dpcost run housing --profile standard --seed 20240501",
    "budgets": [
        {"estimator": "sheffet_ols", "form": "", "shares": {"sketch": 1.0}},
        {"estimator": "adassp", "form": "", "shares": {"XᵀX": 0.5, "Xᵀy": 0.5}},
    ],
    "blocks": {"computed": 3, "stored": 9},
    "study_file": {"path": "flows/studies/housing.toml", "sha256": "0" * 64},
    "packages": {"numpy": "2.4.0", "pandas": "3.1.1"},
}
QUESTION = (
    "How well can a linear regression of house value on five covariates be learned from m of 20,640 "
    "block groups under differential privacy? Private and non-private ones are compared by their "
    "distance from the regression on all rows."
)
NOTE = "Repetitions are separate hypothetical releases; they are not composed."
VARIANTS = {
    "public": "Centers and scales are public numbers from the registry; the guarantee covers them.",
    "paper": "Standardized with the mean and deviation of all rows, as the paper did. Not private.",
    "residual-clipped": "Residuals are clipped before every step, which lowers the sensitivity.",
}


def replaced(page: StudyPage, **facts: dict[str, Any]) -> StudyPage:
    """Return a page with other facts in its sections, or with a section in front of them."""
    known = tuple(Section(each.kind, facts.pop(each.kind, each.facts)) for each in page.sections)
    return replace(page, sections=(*(Section(kind, each) for kind, each in facts.items()), *known))


def synthetic_page(results: pd.DataFrame) -> StudyPage:
    values = tuple(60.0 * 5 / (m * 0.5) for m in SIZES)
    rate = ("the paper's rate d√log(1/δ)/(mε)", tuple(map(float, SIZES)), values)
    value = ("house value", "0 to 500,001 dollars", "the census caps it there")
    return StudyPage(
        name="housing",
        title="House values in California",
        question=QUESTION,
        data_cards=(CARD,),
        estimators=ESTIMATORS,
        headline={"epsilon": 0.5, "delta_rule": "10/n^1.1", "n": 20000, "panel": "public"},
        axis=Axis("m, number of rows used (of 20,640)"),
        metric="l2_error",
        metric_label="‖β̂ − β_full‖₂ in z-scores",
        sections=(
            Section("trust", {"measured": "An error is a distance.", "notes": (NOTE,)}),
            Section("label_rate", {"rate": 0.051}),
            *map(Section, ("certified", "budgets")),
            Section("public", {"rows": (("row norm ‖x‖₂", "3", "the registry's public units"), value)}),
            Section("variants", {"about": VARIANTS}),
            Section("estimators", {"settings": {"adassp": ("covariate_bound = 3",)}}),
        ),
        guides=(Guide(*rate), Guide("the more frequent label", (), (0.051,), "public")),
        manifest=MANIFEST,
    )


def entry(
    report: Report, name: str = "housing", page: Mapping[str, Any] = MappingProxyType({}), **manifest
) -> Entry:
    """Return a report's entry in the index, with some facts of its manifest changed."""
    about = {"page": {**report.about, **page}, "data": [{"name": "housing"}], "files": list(report.files)}
    about |= {"finished": "2026-03-12T14:05:48+00:00"}
    return Entry.of(name, json.loads(json.dumps(about | manifest)), report.files["summary.csv"])
