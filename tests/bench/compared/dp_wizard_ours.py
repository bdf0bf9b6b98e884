import numpy as np
import pandas as pd

import dpalgos

age = pd.read_csv("rows.csv")["housing_median_age"]
cells = pd.get_dummies(pd.cut(age, np.arange(0, 55, 6))).to_numpy(float)
options = {"epsilon": 1, "delta": 1e-6, "interval": 0.95, "rng": np.random.default_rng()}
result = dpalgos.estimate("box_mean", cells, lower=0, upper=1, **options)
answer = len(cells) * result.estimate
low, high = len(cells) * result.interval
