"""Errors on public tables that this project did not use before: figures for docs/guide/compared.md.

The tables were chosen before their first fit, by the rule in ``unseen.toml``. The file lists all candidates
in their order, with the table's name or the first reason to leave it out. In each repetition, a random half
of the rows is for training, and the error is measured on the other half.
"""

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from data.collections.league import GROUPS, columns_of, declarations, table_module
from data.datasets import add_dataset, load
from data.errors import DataError
from data.fetch.raw import fetch
from data.store.folders import home, mirror_from_environment
from reports.writing import short
from tasks.cells import Cell, Replicates
from tasks.own_table.row_simulator import Guesses
from tasks.study.forecast_steps import settings_by_forecast
from tests.bench.goals import Measurement
from tests.bench.league.libraries import SCRIPTS, Library
from tests.bench.league.whole_table import WholeTable, missed_of_regression

CHOICE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CANDIDATES: dict[str, str] = CHOICE.pop("candidates")  # "package/item", in order → table or reason
TABLES: dict[str, dict[str, Any]] = CHOICE
EPSILONS, REPETITIONS, LEVEL = (0.3, 1, 3, 10), 20, 1.96
BY_FORECAST, ROOT, CORNER = "AdaSSP", "AdaSSP, norm √d", "AdaSSP, corner norm"
METHODS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {  # title → estimator and keywords
    "linear": {
        "dpcost": ("preconditioned_regression", {"intercept": True}),
        "private constant": ("private_constant", {}),
        BY_FORECAST: ("adassp", {}),  # from the declared bounds, as in studies
        ROOT: ("adassp", {"response_bound": 2.0}),
        CORNER: ("adassp", {"response_bound": 2.0}),
    },
    "logistic": {
        "dpcost": ("preconditioned_glm", {"family": "logistic", "intercept": True}),
        "private constant": ("private_constant", {"family": "logistic"}),
    },
    "counts": {
        "dpcost": ("preconditioned_glm", {"family": "poisson", "intercept": True}),
        "private constant": ("private_constant", {"family": "poisson"}),
    },
}
DIFFPRIVLIB: dict[str, tuple[str, dict[str, float]]] = {  # family → method, and C of each title
    "linear": ("diffprivlib LinearRegression", {"diffprivlib": 1.0}),
    "logistic": ("diffprivlib LogisticRegression", {"diffprivlib": 1.0, "diffprivlib, C = 0.02": 0.02}),
}
NONPRIVATE = "no privacy"


def place(name: str) -> str:
    """Return the digest that orders the candidates."""
    return hashlib.sha256(name.encode()).hexdigest()


def bench_unseen(small: bool = False) -> Measurement:
    """Compare errors on the tables; the smallest size is one table of scikit-learn without diffprivlib."""
    tables = {"progression": declarations()["progression"]} if small else TABLES
    library = None if small else Library(SCRIPTS["diffprivlib"])
    rows = [
        {"table": name, **error}
        for name, about in tables.items()
        for error in errors(name, about, library, 2 if small else REPETITIONS)
    ]
    return Measurement(
        figure=f"{len(rows)} fits of {len(tables)} tables",
        goals=[],
        data=", ".join(tables),
        facts=facts_of(pd.DataFrame(rows), tables),
    )


def errors(
    name: str, about: dict[str, Any], library: Library | None, repetitions: int
) -> Iterator[dict[str, Any]]:
    """Yield the error of each method at each ε in each repetition, and that of the non-private estimate."""
    family = about.get("family", "")
    problem, prepared = prepared_table(name, about)
    X, y, group = prepared.X, prepared.y, GROUPS[family]
    foreign, values_of_C = DIFFPRIVLIB.get(group, ("", {}))
    for repetition in range(repetitions):
        train, test = np.array_split(np.random.default_rng(repetition).permutation(len(X)), 2)
        half, n = replace(prepared, X=X[train], y=y[train]), len(train)
        drawn = Replicates(study="unseen", panel=name, n=n, first=0, count=1, of=1, seed=repetition)
        (draw,) = problem.draws(drawn, half)
        missed = missed_of_regression(X[test], y[test], family)
        table = problem.public_table(half.X, half.y)
        ends = np.maximum(abs(table["lower"]), abs(table["upper"]))
        root = X.shape[1] ** 0.5
        norms = {ROOT: root, CORNER: float(np.hypot(1, np.linalg.norm(ends)))}
        yield {"method": NONPRIVATE, "epsilon": np.inf, "error": missed(problem.full_answer(half).coef)}
        for title, (method, params) in METHODS[group].items():
            for epsilon in EPSILONS:
                budget: dict[str, float] = {"epsilon": epsilon, "delta": n**-2.0}
                bounds = {"covariate_bound": norms[title]} if title in norms else {}
                if title == BY_FORECAST:
                    usual = {"covariate_bound": root, "response_bound": 2.0}
                    asked = [{**budget, "calibration": "tight"}]
                    (bounds,) = settings_by_forecast(method, usual, asked, n, problem, Guesses())
                rule = {"delta_rule": "1/n^2", "calibration": "tight"}
                cell = Cell(estimator=method, panel=name, n=n, params={**params, **bounds}, **budget, **rule)
                error = missed(draw.answer(cell, drawn).estimate)
                yield {"method": title, "epsilon": epsilon, "error": error}
        for title, C in values_of_C.items() if library else ():
            library.load({**table, "C": C})
            for epsilon in EPSILONS:
                (fit,) = library.fits(foreign, [repetition], epsilon=epsilon, delta=n**-2.0)
                error = missed(np.array(fit["coef"]))
                yield {"method": title, "epsilon": epsilon, "error": error}


@cache
def dataset_module(name: str) -> ModuleType:
    """Return a table's dataset and parser; the registry learns those of an unseen table."""
    dataset = f"league_{name}"
    if name in TABLES:
        add_dataset(table_module(dataset, TABLES[name]))
    return load(dataset)


def prepared_table(name: str, about: dict[str, Any]) -> tuple[WholeTable, Any]:
    """Return a table's problem and its rows in public units; refuse rows with other ranges than declared."""
    module = dataset_module(name)
    raw = fetch(module.DATASET, home=home(), mirror=mirror_from_environment(), offline=False)
    rows, response = module.PARSERS[raw.layout](Path(raw.path)), about["response"]
    for column, ends in about.get("ranges", {}).items():
        if [rows[column].min(), rows[column].max()] != ends:
            raise DataError(f"ranges of {name} must be those of the file, got {ends} for {column!r}")
    problem = WholeTable(
        kind="whole_table",
        dataset=module.DATASET.name,
        response=response,
        family=about.get("family", ""),
        covariates=tuple(each.name for each in columns_of(about) if each.name != response),
    )
    return problem, problem.in_units(rows)


def facts_of(rows: pd.DataFrame, tables: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return each mean error ± two standard errors, and the number of settings in which dpcost is better."""
    cells = rows.groupby(["table", "method", "epsilon"], sort=False)["error"]
    means, spreads = cells.mean(), cells.sem()
    facts = {}
    for name, about in tables.items():
        family = GROUPS[about.get("family", "")]
        facts[f"{name}/table"] = f"{' '.join(about['source'])}: {family}, {about['rows']:,} rows"
    for cell, mean in means.items():
        error = float(f"{LEVEL * spreads[cell]:.1g}")
        facts["/".join([*cell[:2], f"{cell[2]:g}"])] = f"{short(mean)} ± {short(error)}"
    for other in sorted({method for _, method, _ in means.index} - {"dpcost", NONPRIVATE}):
        settings = [(table, epsilon) for table, method, epsilon in means.index if method == other]
        pairs = [((table, "dpcost", epsilon), (table, other, epsilon)) for table, epsilon in settings]
        gains = [(means[b] - means[a]) / (LEVEL * np.hypot(spreads[a], spreads[b])) for a, b in pairs]
        better, worse = sum(gain > 1 for gain in gains), sum(gain < -1 for gain in gains)
        facts[f"against/{other}"] = f"smaller in {better}, larger in {worse} of {len(gains)}"
    return facts
