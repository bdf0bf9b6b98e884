"""How often a plan's target half-width is met, on ten shapes of data.

Each shape declares bounds, and guesses that an owner would know. A plan chooses ε for a target, which is two
or three times the half-width without privacy. Eight targets were widened, and some spreads were stated, after
the first plans were refused; the spreads of counts after a later one. At least 80% of releases from new rows
should meet the target, for each of two seeds.

Run: ``python -m tests.bench.plan_targets [SHAPE …]``; ``--bare`` states no guesses.
"""

import sys
import tomllib
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from dpalgos import InputError
from dpalgos.protocol import Plan

N, RELEASES, SEEDS = 4000, 25, (7, 8)
BOUNDS = {"age": (18, 90), "score": (0, 10)}
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


CONTENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SHAPES = {
    name: Shape(**CONTENT["families"][given.pop("of")] | given) for name, given in CONTENT["shapes"].items()
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
    return Plan.from_toml(content, n_rows=N, **declared)


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
