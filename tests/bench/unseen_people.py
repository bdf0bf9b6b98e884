"""Regressions of persons on public tables that were not used before: for docs/guide/compared.md.

The tables were chosen before their first fit, by the rule in ``unseen_people.toml``. Five have a time to an
event. In the other five, persons or firms have several rows. The private estimate protects each person. It is
compared with Cox regression of the same rows, or with a regression in which each person counts once. Their
standard errors are by person.

Files are read from the folder ``R_DATASETS``, a checkout of vincentarelbundock/Rdatasets.
"""

import hashlib
import io
import os
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

from dpalgos.formula import logit, ols, phreg
from tests.bench.goals import Measurement

CHOICE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CANDIDATES: dict[str, dict[str, str]] = CHOICE.pop("candidates")
TABLES: dict[str, dict[str, Any]] = CHOICE
EPSILONS, REPETITIONS = (1.0, 3.0), 20
SMALL: dict[str, Any] = {  # ships with statsmodels
    "source": ["statsmodels", "heart"],
    "response": "Surv(survival, censors)",
    "bounds": {"survival": [0, 5000], "age": [0, 100]},
    "levels": {"censors": [0, 1]},
}


def rows_of(about: dict[str, Any]) -> pd.DataFrame:
    """Return the declared columns of a table, without rows that lack a value."""
    package, item = about["source"]
    if package == "statsmodels":
        return pd.DataFrame(getattr(sm.datasets, item).load_pandas().data)
    content = (Path(os.environ["R_DATASETS"]) / "csv" / package / f"{item}.csv").read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != about["sha256"]:
        raise ValueError(f"{package}-{item}.csv must have the sha256 {about['sha256']}, got {found}")
    user = [about["user"]] if "user" in about else []
    frame = pd.read_csv(io.BytesIO(content))[[*user, *about["bounds"], *about["levels"]]]
    return frame.dropna(ignore_index=True)


def persons_in(frame: pd.DataFrame, about: dict[str, Any]) -> int:
    """Return the number of persons, each of whom has one row unless the table names their column."""
    return int(frame[about["user"]].nunique()) if "user" in about else len(frame)


def formula_of(about: dict[str, Any]) -> str:
    """Return the regression of the response on all other columns."""
    covariates = [name for name in (*about["bounds"], *about["levels"]) if name not in response_of(about)]
    return f"{about['response']} ~ " + " + ".join(f'Q("{name}")' for name in covariates)


def response_of(about: dict[str, Any]) -> list[str]:
    """Return the columns of the response."""
    text = about["response"].removeprefix("Surv(").removeprefix("log(").removesuffix(")")
    return [name.strip() for name in text.split(",")]


def without_privacy(frame: pd.DataFrame, about: dict[str, Any]) -> tuple[pd.Series, pd.Series]:
    """Return slopes and their standard errors."""
    frame, names = frame.copy(), response_of(about)
    for name, levels in about["levels"].items():
        if name in names:
            frame[name] = (frame[name] == levels[-1]).astype(float)
        else:
            frame[name] = pd.Categorical(frame[name], levels)
    formula = formula_of(about)
    if len(names) == 2:
        time, event = names
        right = formula.partition("~")[2]
        fit = smf.phreg(f'Q("{time}") ~ {right}', frame, status=frame[event].to_numpy(), ties="efron").fit()
        terms = fit.model.exog_names
        return pd.Series(fit.params, terms), pd.Series(fit.bse, terms)
    groups = frame[about["user"]]
    weights = 1 / groups.map(groups.value_counts())
    formula = formula.replace("log(", "np.log(")
    family = sm.families.Binomial() if about.get("family") == "logistic" else sm.families.Gaussian()
    fit = smf.gee(formula, groups, frame, family=family, weights=weights).fit()
    return fit.params.drop("Intercept"), fit.bse.drop("Intercept")


def private(frame: pd.DataFrame, about: dict[str, Any], epsilon: float, seed: int) -> pd.DataFrame:
    """Return the table of slopes of one private fit."""
    user, n = about.get("user"), persons_in(frame, about)
    options = {name: {key: tuple(ends) for key, ends in about[name].items()} for name in ("bounds", "levels")}
    fit = {"logistic": logit, "": ols}[about.get("family", "")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (phreg if len(response_of(about)) == 2 else fit)(
            formula_of(about),
            frame,
            epsilon=epsilon,
            delta=n**-2.0,
            random_state=seed,
            **options,
            **({"user": user} if user else {}),
        )
    return found.table().set_index("term")


def errors(frame: pd.DataFrame, about: dict[str, Any], repetitions: int) -> Iterator[dict[str, float]]:
    """Yield, of each slope at each ε in each repetition, the error and the half-width in standard errors."""
    slopes, std_errors = without_privacy(frame, about)
    for epsilon in EPSILONS:
        for seed in range(repetitions):
            table = private(frame, about, epsilon, seed).loc[slopes.index]
            low, high = table["ci_low"], table["ci_high"]
            of_slopes = {
                "error": (table["estimate"] - slopes) / std_errors,
                "half_width": (high - low) / 2 / std_errors,
                "contains": ((low <= slopes) & (slopes <= high)).where(low.notna()).astype(float),
            }
            for values in pd.DataFrame(of_slopes).to_dict("records"):
                yield {"epsilon": epsilon, **values}


def bench_unseen_people(small: bool = False) -> Measurement:
    """Compare with estimates without privacy; the smallest size is two repetitions of one table."""
    tables = {"heart": SMALL} if small else TABLES
    facts = {}
    for name, about in tables.items():
        frame = rows_of(about)
        rows = pd.DataFrame(errors(frame, about, 2 if small else REPETITIONS))
        sizes = f"{persons_in(frame, about):,} persons, {len(frame):,} rows"
        facts[f"{name}/table"] = f"{' '.join(about['source'])}: {sizes}"
        for epsilon, of_epsilon in rows.groupby("epsilon"):
            known = of_epsilon["half_width"].notna()
            place = f"{name}/{epsilon:g}"
            facts[f"{place}/error"] = f"{np.sqrt((of_epsilon['error'] ** 2).mean()):.3g}"
            facts[f"{place}/known"] = f"{100 * known.mean():.0f}%"
            facts[f"{place}/half-width"] = f"{of_epsilon['half_width'].median():.3g}" if known.any() else "–"
            facts[f"{place}/contains"] = f"{100 * of_epsilon['contains'].mean():.0f}%" if known.any() else "–"
    return Measurement(figure=f"{len(tables)} tables", goals=[], data=", ".join(tables), facts=facts)
