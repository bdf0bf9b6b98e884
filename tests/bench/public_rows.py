"""What public rows without responses are worth: errors of a regression with them and without them.

200 random rows of a table are public and the others private, as in the guides to releases and to the library.
Permuted columns are public rows of another shape.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import dpalgos
from data.prepare.table_design import PreparedTable
from data.store.references import read_table
from dpalgos.typing import FloatArray
from flows.studies.find_study import find_study
from tasks.run.tables import fetch, parquet
from tests.bench.goals import Goal, Measurement
from tests.tasks.blocks import prepared_data

_PUBLIC, _REPETITIONS = 200, 20
# Public centers and scales; median_house_value is the response.
_HOUSING = {
    "longitude": (-119.5, 5.0),
    "latitude": (37.0, 4.0),
    "housing_median_age": (26.0, 26.0),
    "total_rooms": (2500.0, 2500.0),
    "total_bedrooms": (500.0, 500.0),
    "population": (1500.0, 1500.0),
    "households": (500.0, 500.0),
    "median_income": (4.0, 3.0),
    "median_house_value": (250_000.0, 250_000.0),
}


def bench_public_rows(small: bool = False) -> Measurement:
    """Measure distances to least squares, excess risks, and how often a shape is used."""
    repetitions = 2 if small else _REPETITIONS
    facts: dict[str, str] = {}
    ratios = []
    for name, table in (("housing", _housing()), ("visits", _visits())):
        for epsilon in (0.5, 1.0, 3.0):
            found = np.array([_compared(table, epsilon, seed) for seed in range(repetitions)])
            facts |= {f"{name}/{epsilon:g}/{what}": text for what, text in _told(found).items()}
            ratios.append(_ratio(found[:, 1, 1], found[:, 0, 1])[0])
    return Measurement(
        figure="excess risks with public rows over those without them",
        goals=[Goal(what="of the right shape", values=ratios, wanted=1.1, at_least=False)],
        data="housing, visits to doctors",
        facts=facts,
    )


def _housing() -> PreparedTable:
    rows = read_table(parquet(fetch(find_study("housing").panel("public").problem.source, offline=True)))
    units = [(rows[name] - center) / scale for name, (center, scale) in _HOUSING.items()]
    X = np.column_stack([*units[:-1], np.ones(len(rows))])
    spread = np.diag(X.std(axis=0))[:-1]
    return PreparedTable(X=X, y=units[-1].to_numpy(), column_names=tuple(_HOUSING)[:-1], to_standard=spread)


def _visits() -> PreparedTable:
    problem = find_study("rand_visits").panel("public").problem.model_copy(update={"family": "gaussian"})
    with TemporaryDirectory() as folder:
        return prepared_data(problem, parquet(fetch(problem.source, offline=True)), Path(folder))


def _compared(table: PreparedTable, epsilon: float, seed: int) -> list[list[float]]:
    """Return (distance, excess risk, whether the shape was used) without, with and with permuted public rows.

    Last come public rows alone, with their responses.
    """
    assert table.y is not None
    assert table.to_standard is not None
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table.X))
    public, X = table.X[order[:_PUBLIC]], table.X[order[_PUBLIC:]]
    public_y, y = table.y[order[:_PUBLIC]], table.y[order[_PUBLIC:]]
    truth = np.linalg.lstsq(X, y, rcond=None)[0]
    permuted = np.column_stack([public[:, rng.permutation(public.shape[1] - 1)], public[:, -1]])

    def errors(coef: FloatArray, used: float) -> list[float]:
        distance = np.linalg.norm(table.to_standard @ (coef - truth))
        return [float(distance), float(np.mean((X @ (coef - truth)) ** 2)), used]

    lines = []
    for rows in (None, public, permuted):
        found = dpalgos.estimate(
            "preconditioned_regression",
            X,
            y,
            epsilon=epsilon,
            delta=len(X) ** -2.0,
            intercept=True,
            public_X=rows,
            rng=np.random.default_rng(seed),
        )
        used = found.diagnostics.get("public_shape", 0.0)
        lines.append(errors(found.estimate, float(np.mean(used))))
    alone = np.linalg.lstsq(public, public_y, rcond=None)[0]
    return [*lines, errors(alone, 1.0)]


def _told(found: FloatArray) -> dict[str, str]:
    """Return texts for the guides, of (repetitions, 4, 3)."""
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    texts = {
        what: f"{mean[k, 0]:.3f} ± {error[k, 0]:.3f}"
        for k, what in enumerate(("without", "with", "permuted", "alone"))
    }
    for k, what in ((1, "with"), (2, "permuted")):
        ratio, spread = _ratio(found[:, k, 1], found[:, 0, 1])
        texts[f"{what}/risk"] = f"{ratio:.2f} ± {spread:.2f}"
        texts[f"{what}/used"] = f"{int(found[:, k, 2].sum())}"
    return texts


def _ratio(above: FloatArray, below: FloatArray) -> tuple[float, float]:
    """Return the ratio of two means, and its standard error by the delta method."""
    ratio = above.mean() / below.mean()
    return float(ratio), float((above - ratio * below).std(ddof=1) / np.sqrt(len(above)) / below.mean())
