"""Attacks on foreign libraries, which see only estimates, on small tables with public bounds."""

import time
from typing import Any

import numpy as np

from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.errors import InputError
from tests.bench.league.libraries import Library

_ROWS = 10
_ATTACKED = "opposite corners"  # the pairs that are farthest apart, among rows of each kind
_CHOICE, _RUNS = 200, 3  # runs per pair to choose it, and per trial to choose the event and to test it
_LEAST_TRIALS, _SECONDS = 100, 600.0


def attack(library: Library, method: str, family: str, n_trials: int, seed: int, **budget: float) -> Any:
    """Return what attacks prove, of a covariate from 0 to 1 and a response from −1 to 1.

    A violated claim is attacked again, with other seeds. A method is left out if its runs take too long.
    """
    label = family != "linear"
    ends = {"lower": np.zeros(1), "upper": np.ones(1), "y_lower": -float(not label), "y_upper": 1.0}
    library.load({"X": np.zeros((_ROWS, 1)), "y": np.zeros(_ROWS), "family": family, **ends})

    def mechanism(rows: np.ndarray, seed: int) -> object:
        X, y = (rows[:, :-1] + 1) / 2, rows[:, -1]
        (fit,) = library.fits(method, [seed % 2**31], seconds=_SECONDS, X=X.tolist(), y=y.tolist(), **budget)
        return fit["coef"]

    pairs = table_pairs(_ROWS, 2, 1.0, label=label)
    pairs = [pair for pair in pairs if pair.label.startswith(_ATTACKED)]
    try:
        mechanism(pairs[0].X, seed)  # what it imports and compiles
        start = time.monotonic()
        for pair in pairs:
            mechanism(pair.X, seed)
        pace = (time.monotonic() - start) / len(pairs)
        n_trials = min(n_trials, int((_SECONDS / pace - _CHOICE * len(pairs)) / (2 * _RUNS)))
        if n_trials < _LEAST_TRIALS:
            raise InputError(f"it is too slow to attack: {pace:.2g} s a run")
        verdict = audit_callable(mechanism, pairs=pairs, n_trials=n_trials, seed=seed, **budget)
        if verdict.violated:  # first checked twice
            same = [pair for pair in pairs if pair.label == verdict.pair]
            again = audit_callable(mechanism, pairs=same, n_trials=n_trials, seed=seed + 10**6, **budget)
            verdict = min(verdict, again, key=lambda each: each.epsilon_lower_bound)
    except InputError as error:
        return {"violated": False, "error": str(error)}
    return {"violated": verdict.violated, "proved": verdict.epsilon_lower_bound, "pair": verdict.pair}
