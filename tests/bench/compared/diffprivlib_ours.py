import pandas as pd

from dpalgos.sklearn import DPLinearRegression

rows = pd.read_csv("rows.csv")
model = DPLinearRegression(
    epsilon=1, delta=1e-6, bounds=([0, 0], [60, 15.0001]), y_bounds=(0, 500001), interval=0.95
)
model.fit(rows[["housing_median_age", "median_income"]], rows["median_house_value"])
answer = model.coef_
low, high = model.conf_int().to_numpy()[:2].T
