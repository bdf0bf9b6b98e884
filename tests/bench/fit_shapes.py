"""How often R² and the residual standard deviation lie in their intervals, on six shapes of the response."""

from collections.abc import Callable

import numpy as np

import dpalgos.formula as private
from tests.bench.goals import Measurement, shares_held

_ROWS, _REPETITIONS, _BOUND = 100_000, 30, 4.0
_SLOPES = np.array([0.5, -0.3, 0.2])

Response = Callable[[np.random.Generator, np.ndarray], np.ndarray]
SHAPES: dict[str, tuple[Response, tuple[float, float]]] = {  # with public bounds
    "normal": (lambda rng, u: u + rng.standard_normal(len(u)), (-5, 5)),
    "uniform": (lambda rng, u: u + rng.uniform(-2, 2, len(u)), (-5, 5)),
    "yes or no": (lambda rng, u: 1.0 * (rng.random(len(u)) < 1 / (1 + np.exp(-u))), (0, 1)),
    "heavy tails": (lambda rng, u: u + rng.standard_t(4, len(u)), (-15, 15)),
    "log-normal": (lambda rng, u: np.exp(u + rng.standard_normal(len(u))), (0, 100)),
    "zeros and log-normal": (
        lambda rng, u: np.exp(u + 1.2 * rng.standard_normal(len(u))) * (rng.random(len(u)) < 0.3),
        (0, 200),
    ),
}


def covered(shape: str, n: int, seed: int) -> tuple[bool, bool] | None:
    """Return whether both intervals hold the numbers of ten times the rows; None where there are none."""
    draw, ends = SHAPES[shape]
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10 * n, len(_SLOPES))).clip(-_BOUND, _BOUND)
    y = draw(rng, X @ _SLOPES)
    names = [f"x{j}" for j in range(X.shape[1])]
    answer = private.ols(
        f"y ~ {' + '.join(names)}",
        {**dict(zip(names, X[:n].T, strict=True)), "y": y[:n]},
        epsilon=1.0,
        delta=n**-2.0,
        bounds={**dict.fromkeys(names, (-_BOUND, _BOUND)), "y": ends},
        random_state=rng,
    )
    found = answer.glance().iloc[0]
    if "residual_std" not in found:
        return None
    y = y.clip(*ends)
    errors = y - np.column_stack([np.ones(len(X)), X]) @ answer.shrunk.to_numpy()
    held = found["residual_std_low"] <= np.sqrt(np.mean(errors**2)) <= found["residual_std_high"]
    return held, found["r_squared_low"] <= 1 - np.mean(errors**2) / y.var() <= found["r_squared_high"]


def bench_fit_shapes(small: bool = False) -> Measurement:
    """Count the intervals that cover, of those that are stated."""
    n, repetitions = (2000, 1) if small else (_ROWS, _REPETITIONS)
    runs = [covered(shape, n, seed) for shape in SHAPES for seed in range(repetitions)]
    stated = np.array([each for each in runs if each is not None])
    facts = {"shapes": len(SHAPES), "runs": len(runs), "stated": len(stated)}
    found = f"{stated.sum():.0f} of {stated.size}"
    return Measurement(
        figure=f"{found} intervals cover",
        goals=shares_held([("intervals that cover", stated, 94)]),
        facts={name: str(value) for name, value in facts.items()} | {"covered": found},
    )
