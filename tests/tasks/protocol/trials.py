"""A trial simulated from public numbers, its study file, and an analysis plan of five questions."""

import numpy as np
import pandas as pd
import scipy

N = 6000
# Lower and upper bounds, means and standard deviations, as trials of antihypertensives print them.
COLUMNS = {
    "age": (40, 80, 60, 9),
    "baseline": (110, 200, 146, 11),
    "bmi": (18, 45, 28, 5),
    "systolic": (80, 220, 137, 12),
    "adherent": (0, 1, None, None),
    "events": (0, 20, None, None),
}
CATEGORIES = {
    "arm": ["placebo", "drug"],
    "sex": ["female", "male"],
    "smoker": ["no", "yes"],
    "diabetes": ["no", "yes"],
    "race": ["Asian", "Black", "Hispanic", "White"],
    "region": [f"region {number}" for number in range(1, 9)],
}
STUDY = """
title = "A trial"
question = "How do arms differ?"
task = "linear_regression"
size_label = "rows"
metric_label = "error"
formula = "systolic ~ arm + baseline + age"
grid = {{ n = [{n}], epsilon = [1.0], delta = ["1/n^2"] }}
replicates = {{ smoke = 1, standard = 1, paper = 1 }}
headline = {{ n = {n}, epsilon = 1.0, delta = "1/n^2", panel = "public" }}
[data]
path = "trial.parquet"
rows = {n}
privacy_unit = "one row, a patient"
clusters = "none"
{columns}
[[panels]]
name = "public"
problem = {{ kind = "subsamples", units = "public" }}
[[estimators]]
name = "ols"
[[estimators]]
name = "preconditioned_regression"
calibrations = ["tight"]
[guesses]
shares = {{ {shares} }}
std = {{ age = 9.0, baseline = 11.0, bmi = 5.0, systolic = 12.0 }}
mean = {{ age = 60.0, baseline = 146.0, bmi = 28.0, systolic = 137.0, adherent = 0.73, events = 0.7 }}
correlation = 0.0
explained = 0.4
source = "the protocol and published trials"
"""
PLAN = """
[plan]
dataset = "trial"
data = "trial.parquet"
study = "trial.toml"
epsilon = 2.0
delta = 1e-6

[[question]]
name = "primary"
formula = "systolic ~ arm + baseline + age + bmi + sex + smoker + diabetes + race + region"
precision = { "C(arm)[T.drug]" = 1.08 }

[[question]]
name = "adherence"
formula = "adherent ~ arm + age"
family = "logistic"

[[question]]
name = "unadjusted"
submodel = "primary"
formula = "systolic ~ arm"

[[question]]
name = "mean baseline"
mean = "baseline"

[[question]]
name = "events"
formula = "events ~ arm + age"
family = "poisson"
precision = { "arm[T.drug]" = 0.8 }

[[table]]
out = "table2.tex"
columns = ["unadjusted", "primary"]
"""

SMALL_N = 1500
SMALL = """
[plan]
dataset = "trial"
study = "trial.toml"
epsilon = 3.0
delta = 1e-6
[[question]]
name = "primary"
formula = "systolic ~ C(arm) + baseline"
precision = { "arm[T.drug]" = 2.5 }
[[question]]
name = "unadjusted"
submodel = "primary"
formula = "systolic ~ C(arm)"
[[question]]
name = "mean baseline"
mean = "baseline"
[[table]]
out = "table.tex"
columns = ["unadjusted", "primary"]
"""
EXTRA = """
[[question]]
name = "extra"
mean = "age"
"""


def _between(rng, lower, upper, mean, std, n):
    """Return normal numbers within inclusion criteria."""
    ends = (lower - mean) / std, (upper - mean) / std
    return scipy.stats.truncnorm.rvs(*ends, loc=mean, scale=std, size=n, random_state=rng)


def trial(seed, n=N):
    rng = np.random.default_rng(seed)
    age, baseline, bmi = (_between(rng, *COLUMNS[name], n) for name in ("age", "baseline", "bmi"))
    drug = rng.integers(0, 2, n)
    systolic = 137 + 0.6 * (baseline - 146) + 0.1 * (age - 60) + 0.2 * (bmi - 28) - 6 * (drug - 0.5)
    systolic += rng.normal(0, 9.5, n)
    adherent = rng.random(n) < 1 / (1 + np.exp(-1.0 + 0.02 * (age - 60) + 0.3 * (drug - 0.5)))
    events = np.minimum(rng.poisson(np.exp(np.log(0.7) + 0.01 * (age - 60) - 0.2 * (drug - 0.5))), 20)
    table = pd.DataFrame({"age": age, "baseline": baseline, "bmi": bmi, "systolic": systolic}).round(1)
    for name in ("sex", "smoker", "diabetes", "race", "region"):
        table[name] = rng.choice(CATEGORIES[name], n)
    return table.assign(arm=np.where(drug, "drug", "placebo"), adherent=adherent.astype(int), events=events)


def written(folder, n=N, plan=PLAN, seed=0):
    """Write the table, the study and the plan into a folder; return the plan's file."""
    blocks = [
        f'[[data.columns]]\nname = "{name}"\ncategories = {levels}\nsource = "the protocol"\n'
        for name, levels in CATEGORIES.items()
    ]
    for name, (lower, upper, center, scale) in COLUMNS.items():
        units = "" if center is None else f"center = {center}\nscale = {scale}\n"
        blocks.append(
            f'[[data.columns]]\nname = "{name}"\nlower = {lower}\nupper = {upper}\n{units}source = "public"\n'
        )
    shares = ", ".join(f"{name} = {[1 / len(each)] * len(each)}" for name, each in CATEGORIES.items())
    (folder / "trial.toml").write_text(STUDY.format(n=n, columns="".join(blocks), shares=shares))
    (folder / "trial-plan.toml").write_text(plan)
    trial(seed, n).to_parquet(folder / "trial.parquet")
    return folder / "trial-plan.toml"


def edit(file, *pairs):
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
