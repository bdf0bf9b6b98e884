# /// script
# dependencies = ["dpmm==0.1.9"]
# ///
"""dpmm: synthetic tables by MST, AIM and PrivBayes, and the ordinary regression of as many synthetic rows.

Columns are cut into ten bins of equal width between their public bounds.
"""

from functools import partial

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

FAMILIES = {
    "dpmm MST": ["linear", "logistic", "counts"],
    "dpmm AIM": ["linear", "logistic", "counts"],
    "dpmm PrivBayes": ["linear", "logistic", "counts"],
}
_BINS = 10


def regression(pipeline, table, epsilon, delta, seed):
    frame = pd.DataFrame(table.X, columns=[f"x{j}" for j in range(table.X.shape[1])]).assign(y=table.y)
    lower, upper = np.append(table.lower, table.y_lower), np.append(table.upper, table.y_upper)
    ends = zip(frame, lower, upper, strict=True)
    domain = {name: {"lower": float(low), "upper": float(high)} for name, low, high in ends}
    options = {"proc_epsilon": None, "n_bins": _BINS, "binner_type": "uniform", "n_jobs": 1}
    model = pipeline(epsilon=epsilon, delta=delta, **options)
    model.fit(frame, domain=domain, random_state=seed)
    synthetic = model.generate(n_records=len(frame), random_state=seed)
    y = synthetic["y"].to_numpy(float)
    y = y > 0.5 if table.family == "logistic" else y
    return table.regression(synthetic.drop(columns="y").to_numpy(float), y)


_PIPELINES = (MSTPipeline, AIMPipeline, PrivBayesPipeline)
METHODS = {name: partial(regression, each) for name, each in zip(FAMILIES, _PIPELINES, strict=True)}
