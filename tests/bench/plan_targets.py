"""How often a plan's target half-width is met, on ten shapes of data.

Each shape declares bounds, and guesses that an owner would know. A plan chooses ε for a target, which is two
or three times the half-width without privacy. Eight targets were widened, and some spreads were stated, after
the first plans were refused; the spreads of counts after a later one. At least 80% of releases from new rows
should meet the target, for each of two seeds.

Run: ``python -m tests.bench.plan_targets [SHAPE …]``; ``--bare`` states no guesses.
"""

import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from dpalgos import InputError
from dpalgos.protocol import Plan

N, RELEASES, SEEDS = 4000, 25, (7, 8)
BOUNDS = {"age": (18, 90), "score": (0, 10)}
KNOWN = {"age": 12, "score": 2}  # standard deviations
LEVELS = {"arm": ["a", "b", "c"]}


@dataclass(frozen=True)
class Shape:
    formula: str
    family: str
    target: tuple[str, float]
    response: tuple[float, float]  # bounds
    slopes: tuple[float, float]  # of age and score
    level: float  # a rate, or a mean
    noise: float = 1.0
    age: tuple[float, float] = (50, 12)  # mean and standard deviation
    correlation: float = 0.0
    skewed: bool = False  # age has a long upper tail
    guesses: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)


LINE = {"formula": "y ~ age + score", "family": "", "response": (0, 2000), "noise": 190, "level": 700}
LOGIT = {"formula": "y ~ age + score", "family": "logistic", "response": (0, 1)}
COUNT = {"formula": "y ~ age + score", "family": "poisson", "response": (0, 20)}
SHAPES = {
    "logistic, rate .4": Shape(
        **LOGIT,
        target=("score", 0.08),
        slopes=(0.01, 0.15),
        level=0.4,
        guesses={"mean": {"y": 0.4}, "std": KNOWN},
    ),
    "logistic, rate .1": Shape(
        **LOGIT,
        target=("score", 0.14),
        slopes=(0.01, 0.15),
        level=0.1,
        guesses={"mean": {"y": 0.1}, "std": KNOWN},
    ),
    "logistic, strong effects": Shape(
        **LOGIT,
        target=("score", 0.17),
        slopes=(0.04, 0.5),
        level=0.3,
        guesses={"mean": {"y": 0.3}, "std": KNOWN},
    ),
    "logistic, categories": Shape(
        **{**LOGIT, "formula": "y ~ age + score + arm"},
        target=("score", 0.14),
        slopes=(0.01, 0.15),
        level=0.2,
        guesses={"mean": {"y": 0.2}, "std": KNOWN},
    ),
    "line, as declared": Shape(
        **LINE,
        target=("age", 1.2),
        slopes=(3, 20),
        guesses={"std": {"age": 12, "score": 2, "y": 200}, "correlation": 0.0},
    ),
    "line, columns narrower than declared": Shape(
        **LINE, target=("age", 3.0), slopes=(3, 20), age=(50, 6), guesses={"mean": {"y": 700}}
    ),
    "line, skewed column": Shape(
        **LINE,
        target=("age", 2.0),
        slopes=(3, 20),
        age=(28, 9),
        skewed=True,
        guesses={"mean": {"age": 28}, "std": {"age": 9, "y": 200}},
    ),
    "line, correlated columns": Shape(
        **LINE, target=("age", 2.0), slopes=(3, 20), correlation=0.7, guesses={"correlation": 0.7}
    ),
    "counts": Shape(
        **COUNT,
        target=("age", 0.005),
        slopes=(0.01, 0.1),
        level=2.0,
        guesses={"mean": {"y": 2.0}, "std": {**KNOWN, "y": 1.5}},
    ),
    "counts, overdispersed": Shape(
        **COUNT,
        target=("age", 0.010),
        slopes=(0.01, 0.1),
        level=1.0,
        noise=2.0,
        guesses={"mean": {"y": 1.0}, "std": {**KNOWN, "y": 1.8}},
    ),
}


def rows(shape: Shape, rng: np.random.Generator) -> pd.DataFrame:
    z = rng.multivariate_normal([0, 0], [[1, shape.correlation], [shape.correlation, 1]], N)
    (mean, std), (by_age, by_score) = shape.age, shape.slopes
    age = np.clip(
        mean - std + std * rng.exponential(size=N) if shape.skewed else mean + std * z[:, 0], 18, 90
    )
    score = np.clip(5 + 2 * z[:, 1], 0, 10)
    effect = by_age * (age - age.mean()) + by_score * (score - score.mean())
    low, high = shape.response
    if shape.family == "logistic":
        shifts = np.linspace(-8, 8, 1601)
        means = np.array([expit(effect + shift).mean() for shift in shifts])
        y = (rng.random(N) < expit(effect + np.interp(shape.level, means, shifts))).astype(int)
    elif shape.family == "poisson":
        rates = np.exp(effect)
        rates *= (
            shape.level
            / rates.mean()
            * (rng.gamma(1 / (shape.noise**2 - 1), shape.noise**2 - 1, N) if shape.noise > 1 else 1)
        )
        y = np.clip(rng.poisson(rates), low, high)
    else:
        y = np.clip(shape.level + effect + shape.noise * rng.normal(size=N), low, high)
    return pd.DataFrame({"age": age, "score": score, "arm": rng.choice(LEVELS["arm"], N), "y": y})


def plan_of(shape: Shape, guesses: dict[str, Any]) -> Plan:
    (term, target), uses_arm = shape.target, "arm" in shape.formula
    question = {"name": "q", "formula": shape.formula, "precision": {term: target}}
    question |= {"family": shape.family} if shape.family else {}
    declared = {"bounds": {**BOUNDS, "y": shape.response}, "levels": LEVELS if uses_arm else {}}
    declared |= {"guesses": guesses} if guesses else {}
    content = {"plan": {"epsilon": 20.0, "delta": 1e-6}, "question": [question]}
    return Plan.from_toml(content, n_rows=N, **declared, **shape.declared)


def measure(name: str, *, bare: bool) -> str:
    shape = SHAPES[name]
    plan = plan_of(shape, {} if bare else shape.guesses)
    try:
        forecast = plan.forecast().set_index("term").loc[shape.target[0]]
    except InputError as error:
        return f"{name}: refused: {error}"
    widths = np.empty((len(SEEDS), RELEASES))
    for i, j in np.ndindex(widths.shape):
        frame = rows(shape, np.random.default_rng([SEEDS[i], j]))
        table = plan.release(frame, random_state=j)["q"].coefficients()
        k = list(table.terms).index(shape.target[0])
        widths[i, j] = (table.limits[1][k] - table.limits[0][k]) / 2
    met = (widths <= shape.target[1]).sum(axis=1)  # NaN is not met
    known = forecast.to_dict()
    shown = ", ".join(f"{key} {value:.3g}" for key, value in known.items() if isinstance(value, float))
    matters = known.get("guess", "")
    counts = " and ".join(map(str, met))
    return f"{name}: {counts} of {RELEASES}, median {np.nanmedian(widths):.3g}; {shown}; {matters}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = [each for each in sys.argv[1:] if not each.startswith("--")] or list(SHAPES)
    for name in chosen:
        print(measure(name, bare="--bare" in sys.argv), flush=True)
