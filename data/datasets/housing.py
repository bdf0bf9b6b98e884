"""California housing, 1990 (Pace and Barry 1997): 20,640 rows."""

import tarfile
from pathlib import Path

import pandas as pd

from data.columns import Column
from data.dataset import Dataset, Source

_GEOGRAPHY = "geography: California's extent, rounded outwards"
_CENSUS = "by assumption, rounded from general knowledge of the 1990 Census"
_ASSUMED = f"{_CENSUS}; not computed from these rows"
_HOUSING_MEDIAN_AGE = f"{_CENSUS} (oldest class of building: 1939 or earlier); not computed from these rows"
_MEDIAN_INCOME = (
    "bounds: the Census records median incomes above 150,000 dollars as 150,001; center and scale " + _ASSUMED
)
_MEDIAN_HOUSE_VALUE = (
    "bounds: the Census records median values above 500,000 dollars as 500,001; center and scale " + _ASSUMED
)

DATASET = Dataset(
    name="housing",
    title="California housing, 1990 Census",
    description=(
        "One row per Census block group of California, 1990: median house value and eight covariates. "
        "House values above 500,000 dollars are recorded as 500,001."
    ),
    privacy_unit="a Census block group",
    n_rows=20640,
    license="public domain: compiled from the 1990 US Census",
    citation=(
        "R. Kelley Pace and Ronald Barry (1997). Sparse spatial autoregressions. Statistics & "
        "Probability Letters 33(3), 291-297."
    ),
    table_sha256="58be02d892944ab6ffd3ac4062af0b78baa744d501024327d30fae364d8f0fe9",
    source=Source(
        file="housing/cal_housing.tgz",
        url="https://ndownloader.figshare.com/files/5976036",
        layout="cal_housing_tgz",
        member="CaliforniaHousing/cal_housing.data",
        sha256="aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
        embedded=True,
    ),
    columns=(
        Column("longitude", "float64", "degrees east", -125.0, -114.0, _GEOGRAPHY),
        Column("latitude", "float64", "degrees north", 32.0, 43.0, _GEOGRAPHY),
        Column("housing_median_age", "int64", "years", 0.0, 60.0, _HOUSING_MEDIAN_AGE, 30.0, 12.0),
        Column("total_rooms", "int64", "rooms", 0.0, 50000.0, _ASSUMED, 2500.0, 2000.0),
        Column("total_bedrooms", "int64", "rooms", 0.0, 10000.0, _ASSUMED),
        Column("population", "int64", "people", 0.0, 50000.0, _ASSUMED, 1500.0, 1000.0),
        Column("households", "int64", "households", 0.0, 10000.0, _ASSUMED, 500.0, 400.0),
        Column("median_income", "float64", "10,000 dollars", 0.0, 15.0001, _MEDIAN_INCOME, 4.0, 2.0),
        Column(
            "median_house_value", "int64", "dollars", 0.0, 500001.0, _MEDIAN_HOUSE_VALUE, 200000.0, 100000.0
        ),
    ),
)


def parse_cal_housing_tgz(path: Path) -> pd.DataFrame:
    """Read ``cal_housing.tgz``: comma-separated, no header, the columns in the dataset's order."""
    with tarfile.open(path) as archive, archive.extractfile(DATASET.source.member) as file:  # type: ignore[union-attr]
        return pd.read_csv(file, header=None, names=DATASET.column_names, dtype=str)


PARSERS = {"cal_housing_tgz": parse_cal_housing_tgz}
