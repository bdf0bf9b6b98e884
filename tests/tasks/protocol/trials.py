"""A trial simulated from public numbers, with its study file and two analysis plans next to this module."""

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from dpalgos.hardened_release import release_plan
from tasks.advice.releases import simulate_release

N, SMALL_N = 6000, 1500
STUDY, PLAN, SMALL = (
    Path(__file__).with_name(f"{name}.toml").read_text() for name in ("trial", "plan", "small_plan")
)
COLUMNS = {each["name"]: each for each in tomllib.loads(STUDY)["data"]["columns"]}
EXTRA = """
[[question]]
name = "extra"
mean = "age"
"""


def _within_bounds(rng, name, n):
    """Return normal numbers within inclusion criteria."""
    lower, upper, mean, std = (COLUMNS[name][key] for key in ("lower", "upper", "center", "scale"))
    ends = (lower - mean) / std, (upper - mean) / std
    return scipy.stats.truncnorm.rvs(*ends, loc=mean, scale=std, size=n, random_state=rng)


def trial(seed, n=N):
    rng = np.random.default_rng(seed)
    age, baseline, bmi = (_within_bounds(rng, name, n) for name in ("age", "baseline", "bmi"))
    drug = rng.integers(0, 2, n)
    systolic = 137 + 0.6 * (baseline - 146) + 0.1 * (age - 60) + 0.2 * (bmi - 28) - 6 * (drug - 0.5)
    systolic += rng.normal(0, 9.5, n)
    adherent = rng.random(n) < 1 / (1 + np.exp(-1.0 + 0.02 * (age - 60) + 0.3 * (drug - 0.5)))
    events = np.minimum(rng.poisson(np.exp(np.log(0.7) + 0.01 * (age - 60) - 0.2 * (drug - 0.5))), 20)
    table = pd.DataFrame({"age": age, "baseline": baseline, "bmi": bmi, "systolic": systolic}).round(1)
    for name in ("sex", "smoker", "diabetes", "race", "region"):
        table[name] = rng.choice(COLUMNS[name]["categories"], n)
    return table.assign(arm=np.where(drug, "drug", "placebo"), adherent=adherent.astype(int), events=events)


def written(folder, n=N, plan=PLAN, seed=0):
    (folder / "trial.toml").write_text(STUDY.replace(str(N), str(n)))
    (folder / "trial-plan.toml").write_text(plan)
    trial(seed, n).to_parquet(folder / "trial.parquet")
    return folder / "trial-plan.toml"


def edit(file, *pairs):
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


def remembered(function):
    """Call a function once for equal arguments; its results are made of them alone."""
    results = {}

    def call(*arguments, **keywords):
        key = repr((arguments, keywords))
        if key not in results:
            results[key] = function(*arguments, **keywords)
        return results[key]

    return call


@remembered
def _simulated_on_few(request):
    simulated = simulate_release(request, 8)
    object.__setattr__(simulated, "half_widths", cache(simulated.half_widths))
    return simulated


def simulate_on_few(request):
    """Simulate a release on 8 tables: once for a question, wherever its file is."""
    data = request.own.data.model_copy(update={"path": "trial.parquet"})
    own = request.own.model_copy(update={"data": data})
    return _simulated_on_few(replace(request, own=own))


plan_once = remembered(release_plan)
