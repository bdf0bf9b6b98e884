import numpy as np
import pandas as pd

import dpalgos

income = pd.read_csv("rows.csv")[["median_income"]].to_numpy()
options = {"epsilon": 1, "delta": 1e-6, "interval": 0.95, "rng": np.random.default_rng()}
result = dpalgos.estimate("box_mean", income, lower=0, upper=15.0001, **options)
answer = result.estimate
low, high = result.interval
