"""The RAND Health Insurance Experiment: 20,190 years of people whose insurance was drawn by lot."""

from pathlib import Path

import numpy as np
import pandas as pd


def parse_csv(path: Path) -> pd.DataFrame:
    """Read ``randhie.csv`` of statsmodels: a header, then numbers."""
    return pd.read_csv(path)


PARSERS = {"csv": parse_csv}


def stand_in(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make up people from the codebook alone: half insured in full, few ill; the ill see doctors more."""
    pays = rng.random(n_rows) < 0.5
    health = rng.choice(4, n_rows, p=[0.5, 0.35, 0.1, 0.05])
    ill = (rng.random(n_rows) < 0.1).astype(float)
    return pd.DataFrame(
        {
            "mdvis": np.minimum(rng.poisson(2.0 + ill + 0.5 * health), 366),
            "lncoins": np.where(pays, np.log(rng.choice([25.0, 50.0, 95.0], n_rows) + 1), 0.0),
            "idp": (rng.random(n_rows) < 0.25).astype(int),
            "lpi": np.log(rng.uniform(1, 1000, n_rows)),
            "fmde": np.where(pays, np.log(rng.uniform(400, 4000, n_rows)), 0.0),
            "physlm": ill,
            "disea": np.clip(rng.gamma(3.0, 3.5, n_rows) + 4 * ill, 0, 100),
            **{
                name: (health == level).astype(int)
                for level, name in enumerate(("hlthg", "hlthf", "hlthp"), 1)
            },
        }
    )
