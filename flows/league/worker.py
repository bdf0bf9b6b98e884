"""Runs one file of methods in its own environment: ``python worker.py FILE``, a request and an answer a line.

Imports nothing of this project, so that any environment can run it. A request is a JSON object: either
``{"table": FILE.npz}``, to load what the next fits are of, or ``{"method", "epsilon", "delta", "seed"}``,
with ``X`` and ``y`` where an audit has rows of its own. An answer holds ``coef`` and ``seconds``, or
``error``.
"""

import importlib.util
import json
import os
import resource
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

MEMORY = 4 * 2**30  # bytes of a worker


def main(file: str) -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr  # what libraries print is no answer
    warnings.simplefilter("ignore")
    methods = _methods(file)
    table = SimpleNamespace()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "table" in request:
                table = SimpleNamespace(
                    **{key: _plain(value) for key, value in np.load(request["table"]).items()}
                )
                answer: dict[str, Any] = {}
            else:
                answer = _answered(methods[request.pop("method")], table, **request)
        except MemoryError:
            answer = {"error": "it needs more than 4 GB"}
        except Exception as error:
            text = str(error).splitlines()
            answer = {"error": f"{type(error).__name__}: {text[0] if text else ''}"[:200]}
        print(json.dumps(answer), file=answers, flush=True)


def _methods(file: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("methods", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.METHODS)


def _plain(value: np.ndarray) -> Any:
    return value if value.ndim else value.item()


def _answered(
    fit: Any, table: Any, epsilon: float, delta: float, seed: int, X: Any = None, y: Any = None
) -> dict[str, Any]:
    if X is not None:
        table = SimpleNamespace(**{**vars(table), "X": np.array(X), "y": np.array(y)})
    np.random.seed(seed)  # noqa: NPY002 (of libraries that take no seed)
    start = time.perf_counter()
    coef = np.asarray(fit(table, epsilon, delta, seed), dtype=float)
    return {"coef": coef.tolist(), "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main(sys.argv[1])
