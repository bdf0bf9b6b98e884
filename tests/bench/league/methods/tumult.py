# /// script
# dependencies = ["tmlt-analytics==0.21.0"]
# ///
"""Tumult Analytics: means and least squares from sums, its groups, in one query with Gaussian noise.

Its guarantee counts adding or removing a row, of which replacing one is both: ρ is a quarter. Products are
scaled to [−1, 1] by their bounds. It needs Java.
"""

import math
import os
import sys

import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import AddMaxRowsInMaxGroups, KeySet, QueryBuilder, RhoZCDPBudget, Session

FAMILIES = {"Tumult sums": ["linear", "means"]}


def sums(table, epsilon, delta, seed):
    products = table.products()
    units = [((low + high) / 2, (high - low) / 2) for _, low, high in products]
    rows = pd.concat(
        pd.DataFrame({"part": str(k), "value": (values - center) / half})
        for k, ((values, _, _), (center, half)) in enumerate(zip(products, units, strict=True))
    )
    root = math.sqrt(math.log(1 / delta))
    budget = RhoZCDPBudget((math.sqrt(root**2 + epsilon) - root) ** 2 / 4)
    session = Session.from_dataframe(
        privacy_budget=budget, source_id="rows", dataframe=_spark().createDataFrame(rows),
        protected_change=AddMaxRowsInMaxGroups("part", len(products), 1),
    )  # fmt: skip
    parts = KeySet.from_dict({"part": [str(k) for k in range(len(products))]})
    query = QueryBuilder("rows").groupby(parts).sum("value", low=-1.0, high=1.0, name="total")
    totals = session.evaluate(query, budget).toPandas().set_index("part")["total"]
    n = len(table.X)
    return table.solved(n * center + half * totals[str(k)] for k, (center, half) in enumerate(units))


def _spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()


METHODS = dict(zip(FAMILIES, (sums,), strict=True))
