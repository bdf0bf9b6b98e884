import pandas as pd

from dpalgos.formula import ols

result = ols(
    "median_income ~ C(region) - 1",
    pd.read_csv("rows.csv"),
    epsilon=1,
    delta=1e-6,
    bounds={"median_income": (0, 15.0001)},
    levels={"region": ["north", "south"]},
)
answer = result.shrunk
low, high = result.conf_int().to_numpy().T
