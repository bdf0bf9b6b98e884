"""California housing, 1990 (Pace and Barry 1997): 20,640 rows, and a stand-in."""

from pathlib import Path

import numpy as np
import pandas as pd

from data.dataset import Column, Dataset, Source
from data.formats.archives import read_delimited, read_member

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
    privacy_unit="one row, a Census block group",
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

CAL_HOUSING_COLUMNS = (
    "longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms", "population",
    "households", "median_income", "median_house_value",
)  # fmt: skip


def parse_cal_housing_tgz(path: Path) -> pd.DataFrame:
    """Read ``cal_housing.tgz``: comma-separated, no header, six decimals."""
    file = "cal_housing.data"
    return read_delimited(read_member(path, file), CAL_HOUSING_COLUMNS, file=file)


PARSERS = {"cal_housing_tgz": parse_cal_housing_tgz}


def stand_in(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Simulate block groups from general knowledge of California in 1990; nothing is fitted to the data.

    A block group has about 500 households of three people and five rooms. Household incomes are skewed and
    near 35,000 dollars. House values are near 200,000 dollars, rise with income and are capped at 500,001.
    """
    households = np.clip(rng.lognormal(np.log(420), 0.6, n_rows), 5, 9000).round()
    income = np.clip(rng.lognormal(np.log(3.6), 0.45, n_rows), 0.5, 15.0001).round(4)
    age = rng.triangular(1, 30, 52, n_rows).round()
    rooms_per_household = np.clip(rng.normal(4.2 + 0.3 * income, 0.8), 2, 10)
    people_per_household = np.clip(rng.normal(3.0, 0.6, n_rows), 1.2, 6)
    bedrooms_per_household = np.clip(rng.normal(1.07, 0.08, n_rows), 0.7, 1.9)
    southern = rng.random(n_rows) < 0.6
    latitude = np.where(southern, rng.normal(34.0, 0.5, n_rows), rng.normal(37.8, 1.0, n_rows))
    longitude = np.where(southern, rng.normal(-118.0, 0.7, n_rows), rng.normal(-121.8, 0.8, n_rows))
    value = 40_000 + 40_000 * income + 500 * age + rng.normal(0, 60_000, n_rows)
    return pd.DataFrame(
        {
            "longitude": np.clip(longitude, -124.3, -114.3).round(2),
            "latitude": np.clip(latitude, 32.6, 41.9).round(2),
            "housing_median_age": age,
            "total_rooms": (households * rooms_per_household).round(),
            "total_bedrooms": np.clip((households * bedrooms_per_household).round(), 1, 10_000),
            "population": (households * people_per_household).round(),
            "households": households,
            "median_income": income,
            "median_house_value": np.clip(value, 15_000, 500_001).round(),
        }
    )
