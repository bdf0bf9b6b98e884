"""Fair's survey: 6,366 women on their marriages, and whether they had an affair."""

from pathlib import Path

import pandas as pd

from data.columns import Column
from data.dataset import Dataset, Source

_MIDDLE = "center and scale: the middle and a quarter of that range"
_RATE_MARRIAGE = f"the codebook: 1 very poor to 5 very good; {_MIDDLE}"
_AGE = f"the codebook's classes: 17.5 for under 20 to 42 for 40 or more; {_MIDDLE}, rounded"
_YRS_MARRIED = f"the codebook's classes: 0.5 for under a year to 23 for more than 20; {_MIDDLE}, rounded"
_CHILDREN = f"the codebook's classes: 0 to 5.5 for five or more; {_MIDDLE}"
_RELIGIOUS = f"the codebook: 1 not to 4 strongly; {_MIDDLE}"
_EDUC = f"the codebook: 9 grade school to 20 advanced degree; {_MIDDLE}"
_OCCUPATION = f"the codebook: 1 student to 6 professional with advanced degree; {_MIDDLE}"
_OCCUPATION_HUSB = f"the codebook: as of occupation; {_MIDDLE}"
_AFFAIR = f"1 where the codebook's time spent in affairs is above 0; {_MIDDLE}"

DATASET = Dataset(
    name="fair",
    title="Fair's survey of marriages",
    description=(
        "One row per woman who answered a magazine's survey in 1974: her marriage, age, children, "
        "faith, schooling, occupations, and whether she had an affair."
    ),
    privacy_unit="a woman who answered",
    n_rows=6366,
    license="included in statsmodels with permission of the author",
    citation=(
        "Ray C. Fair (1978). A theory of extramarital affairs. Journal of Political Economy 86(1), 45-61."
    ),
    table_sha256="32cf5c1fa7e5df014287da601f2481c766049298bcef1533e45e329401cb0211",
    source=Source(
        file="fair/fair.csv",
        url="package://statsmodels/datasets/fair/fair.csv",
        layout="csv",
        sha256="fd5f3f094a34fc35ca346a14c359e046ed27843038d6921efcd50a7ab21f6af0",
        columns=("affairs",),
    ),
    columns=(
        Column("rate_marriage", "int64", "of 5", 1.0, 5.0, _RATE_MARRIAGE, 3.0, 1.0),
        Column("age", "float64", "years", 17.5, 42.0, _AGE, 30.0, 6.0),
        Column("yrs_married", "float64", "years", 0.5, 23.0, _YRS_MARRIED, 12.0, 5.6),
        Column("children", "float64", "children", 0.0, 5.5, _CHILDREN, 2.75, 1.375),
        Column("religious", "int64", "of 4", 1.0, 4.0, _RELIGIOUS, 2.5, 0.75),
        Column("educ", "float64", "years of school", 9.0, 20.0, _EDUC, 14.5, 2.75),
        Column("occupation", "int64", "class", 1.0, 6.0, _OCCUPATION, 3.5, 1.25),
        Column("occupation_husb", "int64", "class", 1.0, 6.0, _OCCUPATION_HUSB, 3.5, 1.25),
        Column("affair", "int64", "", 0.0, 1.0, _AFFAIR, 0.5, 0.25),
    ),
)


def parse_csv(path: Path) -> pd.DataFrame:
    """Read ``fair.csv`` of statsmodels; the count of affairs becomes an indicator of any affair."""
    table = pd.read_csv(path)
    (affairs,) = DATASET.source.columns
    return table.assign(affair=(table[affairs] > 0).astype(int)).drop(columns=affairs)


PARSERS = {"csv": parse_csv}
