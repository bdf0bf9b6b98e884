"""Fair's survey: 6,366 women on their marriages, and whether they had an affair."""

from pathlib import Path

import numpy as np
import pandas as pd

_CODES = {
    "rate_marriage": (1, 2, 3, 4, 5),
    "age": (17.5, 22, 27, 32, 37, 42),
    "yrs_married": (0.5, 2.5, 6, 9, 13, 16.5, 23),
    "children": (0, 1, 2, 3, 4, 5.5),
    "religious": (1, 2, 3, 4),
    "educ": (9, 12, 14, 16, 17, 20),
    "occupation": (1, 2, 3, 4, 5, 6),
    "occupation_husb": (1, 2, 3, 4, 5, 6),
}


def parse_csv(path: Path) -> pd.DataFrame:
    """Read ``fair.csv`` of statsmodels; the count of affairs becomes an indicator of any affair."""
    table = pd.read_csv(path)
    return table.assign(affair=(table["affairs"] > 0).astype(int)).drop(columns="affairs")


PARSERS = {"csv": parse_csv}


def stand_in(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make up answers from the codebook's classes alone; affairs are rarer in good marriages."""
    table = pd.DataFrame({name: rng.choice(codes, n_rows) for name, codes in _CODES.items()})
    chance = 1 / (1 + np.exp(table["rate_marriage"] - 2))
    return table.assign(affair=(rng.random(n_rows) < chance).astype(int))
