"""Synthetic results for the report tests: invented numbers of a plausible shape, no estimator involved."""

import itertools
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from data.datasets import get_dataset
from data.results.summary import summarize
from data.results.table import COLUMNS, LIMIT, PRIVACY_COLUMNS, PrintedFigure, validate_results
from dpalgos.catalog import get_estimator
from reports.new_sample import page_cells
from reports.page import Axis, DataCard, Guide, Section, StudyPage
from reports.pages.index import Entry
from reports.ranking import headline_of

FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SIZES = (100, 200, 500, 1000, 2000, 5000, 10000, 20000, 20600)
EPSILONS = (0.2, 0.5, 1.0, 2.0)
RULES = {"10/n^1.1": lambda m: 10 / m**1.1, "1/n^2": lambda m: 1 / m**2}
ZERO_ERROR = 0.912

BASE = {"study": "housing", "dataset": "california_housing", "data_source": "real", "form": "", "steps": None}
BASE |= {"delta_rule": "", "d": 5, "s": None, "metric": "l2_error", "status": "ok", "message": ""}
BASE |= dict.fromkeys(PRIVACY_COLUMNS, math.nan)


def synthetic_results(replicates=10, data_source="real", sizes=SIZES):
    """Invent a results table with every feature a report must show."""
    rng = np.random.default_rng(2024)
    rows = []
    plain = {"calibration": "none", "privacy_model": "none"}
    for panel in ("public", "paper"):
        for m in sizes:
            scale = 0.122 * math.sqrt(2000 / m) * math.sqrt(max(0.0, 1 - m / 20640) / (1 - 2000 / 20640))
            for name, mean in (("zero", ZERO_ERROR), ("ols", scale)):
                cell = BASE | plain | {"estimator": name, "panel": panel, "cell": f"{name}/{panel}/{m}"}
                for r in range(replicates):
                    noise = 1.0 if name == "zero" else float(np.exp(rng.normal(0, 0.3)))
                    rows.append(cell | {"n": m, "replicate": r, "seed": 1000 + r, "value": mean * noise})
            every = [*itertools.product(EPSILONS, RULES.items()), (LIMIT, ("1/n^2", RULES["1/n^2"]))]
            for epsilon, (rule, delta) in every:
                rows += _private_rows(rng, panel, m, epsilon, rule, delta(m), replicates)
    frame = pd.DataFrame(rows)
    frame["data_source"] = data_source
    return validate_results(frame[list(COLUMNS)])


def _private_rows(rng, panel, m, epsilon, rule, delta, replicates):
    rows = []
    for name, form, calibration, at, slope, floor, share in FACTS["private"]:
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


def _about(order, name, title, reference):
    summary = f"What {title} does."
    return replace(get_estimator(name), title=title, reference=reference, summary=summary, order=order)


ESTIMATORS = tuple(_about(order, *words) for order, words in enumerate(FACTS["titles"]))

CARD = DataCard(replace(get_dataset("housing"), **FACTS["dataset"]), FACTS["read"])


def replaced(page, **facts):
    """Return a page with other facts in its sections, or with a section in front of them."""
    known = tuple(Section(each.kind, facts.pop(each.kind, each.context)) for each in page.sections)
    return replace(page, sections=(*(Section(kind, each) for kind, each in facts.items()), *known))


def synthetic_page(results):
    values = tuple(60.0 * 5 / (m * 0.5) for m in SIZES)
    rate = ("the paper's rate d√log(1/δ)/(mε)", tuple(map(float, SIZES)), values)
    value = ("house value", "0 to 500,001 dollars", "the census caps it there")
    return StudyPage(
        **FACTS["page"],
        data_cards=(CARD,),
        estimators=ESTIMATORS,
        axis=Axis("m, number of rows used (of 20,640)"),
        sections=(
            Section("trust", {"measured": "An error is a distance.", "notes": (FACTS["note"],)}),
            Section("label_rate", {"rate": 0.051}),
            *map(Section, ("certified", "budgets")),
            Section("public", {"rows": (("row norm ‖x‖₂", "3", "the registry's public units"), value)}),
            Section("variants", {"about": FACTS["variants"]}),
            Section("estimators", {"settings": {"adassp": ("covariate_bound = 3",)}}),
        ),
        guides=(Guide(*rate), Guide("the more frequent label", (), (0.051,), "public")),
        manifest=FACTS["manifest"],
    )


def figure_4b(**changes):
    lines = [
        {"estimator": "dp_linear_regression", "calibration": "paper"},
        {"estimator": "dp_linear_regression", "calibration": "tight"},
        {"estimator": "ols", "label": "without privacy"},
    ]
    about = {"paper": "A", "name": "Figure 4b", "panel": "paper", "same_settings": True, "lines": lines}
    about |= {"differs": "Nothing differs.", "epsilon": 0.5, "delta": "10/n^1.1", "x_range": [1000, 20000]}
    return TypeAdapter(PrintedFigure).validate_python(about | changes)


def measured(results, page):
    """Return a page with the cells and the headline of its results."""
    cells = page_cells(summarize(results), results, page).cells
    return page, cells, headline_of(cells, page)


def entry(report, name="housing", page=MappingProxyType({}), **manifest):
    """Return a report's entry in the index, with some facts of its manifest changed."""
    about = {"page": {**report.about, **page}, "data": [{"name": "housing"}], "files": list(report.files)}
    about |= {"finished": "2026-03-12T14:05:48+00:00"}
    return Entry.of(name, json.loads(json.dumps(about | manifest)), report.files["summary.csv"])
