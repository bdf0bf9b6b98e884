"""Forecasts of a plan's question that are kept: a release repeats none that a check of the plan made.

A forecast is made of public declarations and of code alone. The name of its file is a digest of both. The
code that forecasts, plans and releases is part of it, though no result of a study depends on that code.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.store.folders import atomic_write, home, read_json, sha256_files
from tasks.cache import FOLDER, digest

# The folders of code that computes no result of a study.
FORECASTER = tuple(Path(__file__).resolve().parents[1] / name for name in ("advice", "protocol", "release"))


class KeptForecasts:
    """The values of one question by ε, as plain data.

    Parameters
    ----------
    module : str
        The module of the question's estimator.
    *declared
        All else that decides the values, as plain data.
    """

    def __init__(self, module: str, *declared: Any) -> None:
        code = [sha256_files(folder) for folder in FORECASTER]
        name = digest(("tasks.advice.releases", module), *code, *declared)
        self._path = home() / FOLDER / "forecasts" / f"forecast-{name}.json"
        self._values: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            self._values = dict(read_json(self._path))

    def value(self, kind: str, epsilon: float, compute: Callable[[float], Any]) -> Any:
        """Return the value of a kind at an ε; compute and keep it if it is new."""
        key = f"{kind} {epsilon!r}"
        if key not in self._values:
            self._values[key] = compute(epsilon)
            atomic_write(self._path, json.dumps(self._values).encode())
        return self._values[key]
