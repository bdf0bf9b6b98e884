"""The tables on which Wang (2018) compared private regressions, and the errors published in the paper.

A table is a file ``wang2018/NAME.npz`` with raw ``X`` (n, d) and ``y`` (n,), and is the dataset
``wang2018_NAME``.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from data.collections import module_of
from data.columns import Column
from data.dataset import Dataset, Source

if TYPE_CHECKING:
    import pandas as pd

_FOLDER = "wang2018"
_LARGEST = 1e100  # no public bounds are declared, because the protocol prepares columns from the data
# Rows, columns, sha256, and the smallest published error of a private method at ε = 0.1 and 1.
_KNOWN = {
    "airfoil": (1503, 5, "1cc6adb8a811bed8f2c1f11cb426f6694cfc6c373f84dc1b1618cdefd8b22b57", 0.0912, 0.0537),
    "concrete": (1030, 8, "f16d99b5d437e25ddca03291f84281d298918a05c5d5fd46bc54856d2a19f919", 0.1125, 0.0637),
    "elevators": (
        16599,
        18,
        "70ee3a1e0fef78555016bc3a6e82fef206c6e017fb408712be632d97f301c4a0",
        0.0256,
        0.0132,
    ),
    "energy": (768, 8, "0506d1f4da0c60cd1c07ea2b85aa43cac1042f5f1a3c80a11557070d19260fec", 0.1477, 0.0429),
    "kin40k": (40000, 8, "9245c8e7f2e16eb61818cb832819a54e125ece5d1174bfb9d6adc61d81404772", 0.0633, 0.0632),
    "solar": (1066, 10, "b18382bf5579c149d039cc0f163ce84c8b17bcb3b8d89114e232e1361a29fe9d", 0.0175, 0.0128),
    "stock": (536, 11, "4f4ad93866e7e6ae2c7d42a2f3bea5d6eb1aa05f6ed754a9c3822ca203e4e765", 0.055, 0.0384),
    "wine": (1599, 11, "bae7b85a230f158e46ac254b603309f92aff0da74c2b0551a9f32b06489b867a", 0.0558, 0.0226),
}


def tables() -> tuple[str, ...]:
    return tuple(f"{_FOLDER}_{name}" for name in _KNOWN)


def problems(groups: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of a panel's problem on each table, with the errors published in the paper."""
    return {f"{_FOLDER}_{name}": {"printed": {0.1: at[3], 1.0: at[4]}} for name, at in _KNOWN.items()}


@cache
def load(dataset: str) -> ModuleType:
    name = dataset.removeprefix(f"{_FOLDER}_")
    n_rows, d, sha256, *_ = _KNOWN[name]
    bounds = "none: the benchmark's protocol prepares columns by the data, which is not private"
    names = [*(f"x{j}" for j in range(1, d + 1)), "y"]
    declared = Dataset(
        name=dataset,
        title=f"{name}, of Wang (2018)",
        description="A table of the UCI repository, as the paper's repository prepares it.",
        privacy_unit="one row",
        n_rows=n_rows,
        license="public: UCI Machine Learning Repository",
        citation=(
            "Yu-Xiang Wang (2018). Revisiting differentially private linear regression: optimal and adaptive "
            "prediction & estimation in unbounded domain. UAI 2018."
        ),
        source=Source(
            file=f"{_FOLDER}/{name}.npz",
            url="",
            layout="npz",
            sha256=sha256,
            note="X and y of the paper's repository, in one file",
        ),
        columns=tuple(Column(each, "float64", "", -_LARGEST, _LARGEST, bounds) for each in names),
    )

    def parse(path: Path) -> "pd.DataFrame":
        import pandas as pd  # here: files are checked without it

        with np.load(path, allow_pickle=False) as arrays:
            return pd.DataFrame(np.column_stack([arrays["X"], arrays["y"]]).astype(float), columns=names)

    return module_of(declared, parse)
