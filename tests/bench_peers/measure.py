"""How far off, how long and how much memory a fit takes; runs in either environment."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

REPETITIONS = 10
ENOUGH = 20.0  # seconds after which no further repetition is begun


def measure(fit: Callable[[int], np.ndarray], error: Callable[[np.ndarray], float]) -> dict:
    """Return mean error with its standard error, median seconds, and the MB that one fit allocates."""
    fit(10_000)  # imports and caches
    errors, seconds = [], []
    for seed in range(REPETITIONS):
        start = time.perf_counter()
        answer = fit(seed)
        seconds.append(time.perf_counter() - start)
        errors.append(error(answer))
        if seed and sum(seconds) > ENOUGH:
            break
    tracemalloc.start()
    fit(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "error": float(np.mean(errors)),
        "standard_error": float(np.std(errors, ddof=1) / np.sqrt(len(errors))),
        "seconds": float(np.median(seconds)),
        "megabytes": peak / 1e6,
        "repetitions": len(errors),
    }


def judged(data: dict, task: str) -> Callable[[np.ndarray], float]:
    if task == "logistic":
        X, labels = data["test_X"], data["test_labels"] > 0.5
        return lambda coef: float(np.mean((X @ coef > 0) != labels))
    truth = data[f"{task}_truth"]
    return lambda answer: float(np.linalg.norm(answer - truth))
