"""The RAND Health Insurance Experiment: 20,190 years of people whose insurance was drawn by lot."""

import pandas as pd

from data.columns import Column
from data.dataset import Dataset, Source

_ASSUMED = "by assumption, rounded from general knowledge; not computed from these rows"
_QUARTER = "center and scale: the middle and a quarter of that range"
_HALF = "center and scale: the middle and half of that range"
_MDVIS = (
    "bounds: the codebook counts outpatient visits in a year, and we assume at most one a day; "
    f"center and scale {_ASSUMED}"
)
_LNCOINS = f"the codebook: ln(coinsurance + 1), coinsurance from 0 to 100 per cent; {_QUARTER}"
_BINARY = f"the codebook: 1 or 0; {_HALF}"
_LPI = (
    "the codebook: ln(max(1, annual participation incentive)), which we assume to be below 10,000 "
    f"dollars; {_QUARTER}"
)
_FMDE = (
    "the codebook: ln(max(1, maximum expenditure / share paid)); the experiment's design: at most "
    f"1,000 dollars, a share of at least a quarter; {_QUARTER}"
)
_PHYSLM = f"the codebook: 1 if limited, 0 if not; {_HALF}"
_DISEA = f"the codebook gives no range; bounds, center and scale {_ASSUMED}"

DATASET = Dataset(
    name="randhie",
    title="RAND Health Insurance Experiment",
    description=(
        "One row per person and year of an experiment that drew lots for insurance plans: visits to "
        "doctors, the plan and the person's health."
    ),
    privacy_unit="a person in one year; the table does not say which rows are of one person",
    n_rows=20190,
    license="in the public domain, as its distributors say",
    citation=(
        "A. Colin Cameron and Pravin K. Trivedi (2005). Microeconometrics: Methods and Applications. "
        "Cambridge University Press. Data of the RAND Corporation's Health Insurance Experiment."
    ),
    table_sha256="bcda9b6f17d71ce5df81cbca32f970e9efee203fd980e1c9cc0a08306c189fab",
    source=Source(
        file="randhie/randhie.csv",
        url="package://statsmodels/datasets/randhie/randhie.csv",
        layout="csv",
        sha256="9f6c87d05aef087a82cc4465310c8cd3f38327be6eafa43bd81fb98c4f3d088c",
    ),
    columns=(
        Column("mdvis", "int64", "visits", 0.0, 366.0, _MDVIS, 3.0, 4.0),
        Column("lncoins", "float64", "log of per cent", 0.0, 4.6152, _LNCOINS, 2.3, 1.15),
        Column("idp", "int64", "", 0.0, 1.0, _BINARY, 0.5, 0.5),
        Column("lpi", "float64", "log of dollars", 0.0, 9.2104, _LPI, 4.6, 2.3),
        Column("fmde", "float64", "log of dollars", 0.0, 8.2941, _FMDE, 4.15, 2.07),
        Column("physlm", "float64", "", 0.0, 1.0, _PHYSLM, 0.5, 0.5),
        Column("disea", "float64", "conditions, weighted", 0.0, 100.0, _DISEA, 10.0, 10.0),
        Column("hlthg", "int64", "", 0.0, 1.0, _BINARY, 0.5, 0.5),
        Column("hlthf", "int64", "", 0.0, 1.0, _BINARY, 0.5, 0.5),
        Column("hlthp", "int64", "", 0.0, 1.0, _BINARY, 0.5, 0.5),
    ),
)

PARSERS = {"csv": pd.read_csv}
