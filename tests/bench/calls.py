"""How many of the project's files and functions a call passes, after a first call.

Run ``python -m tests.bench.calls NAME`` for the list of one call.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dpalgos
from tests.bench.goals import Measurement, at_most

_PROJECT = Path(dpalgos.__file__).parents[1]
_PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")
_BUDGET = {"epsilon": 1.0, "delta": 1e-6}
_GOALS = {"dp_mean": (12, 60), "DPLinearRegression.fit": (20, 110), "phreg": (26, 180)}


def passed(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """Return the files and functions of the project that a second call passes; comprehensions are none."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(str(_PROJECT)) and not frame.f_code.co_name.startswith("<"):
            file = Path(path).relative_to(_PROJECT)
            if file.parts[0] in _PACKAGES:
                found.add((file.as_posix(), name))

    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def calls() -> dict[str, Callable[[], Any]]:
    """Return the calls by name; each makes new noise."""
    import pandas as pd

    from dpalgos.formula import phreg
    from dpalgos.sklearn import DPLinearRegression

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 4))
    y = X[:, 0] + rng.normal(0, 0.1, 1000)
    times = rng.exponential(5.0, 1000).clip(0.1, 10.0)
    frame = pd.DataFrame({"years": times, "died": times < 9.9, "age": rng.uniform(40, 80, 1000)})
    bounds = {"years": (0, 10), "age": (40, 80)}
    return {
        "dp_mean": lambda: dpalgos.estimate("dp_mean", X, value_bound=1.0, rng=rng, **_BUDGET),
        "DPLinearRegression.fit": lambda: DPLinearRegression(**_BUDGET).fit(X, y),
        "phreg": lambda: phreg("Surv(years, died) ~ age", frame, bounds=bounds, **_BUDGET),
    }


def bench_files_and_functions(small: bool = False) -> Measurement:
    """Count them for three calls, at one size."""
    goals, words = [], []
    for name, call in calls().items():
        functions = passed(call)
        files = {file for file, _ in functions}
        for what, found, wanted in zip(("files", "functions"), (files, functions), _GOALS[name], strict=True):
            goals.append(at_most(wanted, what, f"{what} of {name}", len(found)))
        words.append(f"{name}: {len(files)} files, {len(functions)} functions")
    return Measurement(figure="; ".join(words), goals=goals, data="1,000 rows")


if __name__ == "__main__":
    for each, one in calls().items():
        every = sorted(passed(one))
        print(each, len({file for file, _ in every}), len(every))
        if each in sys.argv[1:]:
            print(*(f"  {file} {function}" for file, function in every), sep="\n")
