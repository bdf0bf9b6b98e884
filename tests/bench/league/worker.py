"""Runs one script in its own environment: ``python worker.py SCRIPT``, a request and a reply per line.

It imports nothing of this project, for any environment to run it. A request is a JSON object with
``seconds``, after which it ends. ``table`` names the file of the next fits' table. Fits have ``method``,
``seeds``, ``epsilon`` and ``delta``, and ``X`` and ``y`` if an audit has rows of its own. A reply has
``families`` and ``fits``, each with ``coef`` and the ``releases`` that the method shows, or ``error``.
"""

import itertools
import json
import os
import resource
import runpy
import signal
import sys
import warnings
from typing import Any

import numpy as np

MEMORY = 4 * 2**30  # bytes of a worker


class Table:
    """The input of a method: the rows, public facts, and what several libraries need around their call."""

    family: str
    X: np.ndarray
    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y_lower: float
    y_upper: float

    def __init__(self, **public: Any) -> None:
        self.__dict__.update(public)
        self.releases: list[dict[str, float]] = []

    def shows(self, multiplier: float, rate: float = 1.0, times: int = 1) -> None:
        """Record Gaussian releases: the noise over what replacing a row moves, and the share drawn."""
        self.releases.append({"multiplier": float(multiplier), "rate": float(rate), "times": float(times)})

    def products(self) -> list[tuple[np.ndarray, float, float]]:
        """Return the columns whose sums make the estimate, each with its public bounds.

        Those of means are the covariates, those of a regression the products of its normal equations.
        """
        if self.family == "means":
            return list(zip(self.X.T, self.lower.tolist(), self.upper.tolist(), strict=True))
        Z = [*self.X.T, np.ones(len(self.X)), self.y]
        lower, upper = [*self.lower, 1.0, self.y_lower], [*self.upper, 1.0, self.y_upper]
        products = []
        for i, j in self._pairs():
            ends = [float(a * b) for a in (lower[i], upper[i]) for b in (lower[j], upper[j])]
            low = 0.0 if i == j and lower[i] < 0 < upper[i] else min(ends)
            products.append((Z[i] * Z[j], low, max(ends)))
        return products

    def solved(self, sums: Any) -> np.ndarray:
        """Return the means, or the least squares, that noisy sums of the products imply."""
        if self.family == "means":
            return np.array(list(sums)) / len(self.X)
        size = self.X.shape[1] + 2
        moments = np.full((size, size), float(len(self.X)))
        for (i, j), total in zip(self._pairs(), sums, strict=True):
            moments[i, j] = moments[j, i] = total
        return np.asarray(np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1], rcond=None)[0])

    def _pairs(self) -> list[tuple[int, int]]:
        one = self.X.shape[1]  # the place of the constant: the number of rows is public
        pairs = itertools.combinations_with_replacement(range(one + 2), 2)
        return [pair for pair in pairs if pair not in ((one, one), (one + 1, one + 1))]

    def regression(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the ordinary regression of synthetic rows, by Newton steps with a ridge of 10⁻⁴ of them."""
        X = np.column_stack([X, np.ones(len(X))])
        if self.family == "linear":
            return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])
        coef = np.zeros(X.shape[1])
        for _ in range(100):
            u = np.clip(X @ coef, -30, 30)
            mean = np.exp(u) if self.family == "counts" else 1 / (1 + np.exp(-u))
            weights = mean if self.family == "counts" else mean * (1 - mean)
            ridge = 1e-4 * len(X)
            hessian = (X * weights[:, None]).T @ X + ridge * np.eye(X.shape[1])
            step = np.linalg.solve(hessian, X.T @ (mean - y) + ridge * coef)
            coef = coef - step / max(1.0, np.abs(step).max())
        return coef


def main(file: str) -> None:
    """Answer requests until there are no more; a request that takes too long ends the process."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr  # what libraries print is no answer
    warnings.simplefilter("ignore")
    script, table = None, Table()
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        try:
            script = script or runpy.run_path(file)
            if request.get("table"):
                stored = np.load(request["table"]).items()
                table = Table(**{key: value if value.ndim else value.item() for key, value in stored})
            function = script["METHODS"].get(request.get("method"))
            reply = {
                "families": script["FAMILIES"],
                "fits": [_fit(function, table, seed, request) for seed in request.get("seeds", ())],
            }
        except MemoryError:
            reply = {"error": "it needs more than 4 GB"}
        except Exception as error:
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            reply = {"error": f"{type(error).__name__}: {first.strip()}"[:200]}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(reply), file=answers, flush=True)


def _fit(function: Any, table: Any, seed: int, request: dict[str, Any]) -> dict[str, Any]:
    rows = {name: np.array(request[name]) for name in ("X", "y") if name in request}
    table = Table(**{**vars(table), **rows})
    np.random.seed(seed)  # noqa: NPY002 (of libraries that take no seed)
    coef = np.asarray(function(table, request["epsilon"], request["delta"], seed), dtype=float)
    return {"coef": coef.tolist(), "releases": table.releases}


if __name__ == "__main__":
    main(sys.argv[1])
