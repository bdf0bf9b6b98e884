# /// script
# dependencies = ["smartnoise-synth==1.0.8", "packaging"]
# ///
"""SmartNoise: synthetic tables, and the ordinary regression of as many synthetic rows.

Columns are cut into ten bins of equal width between their public bounds, or scaled by them for neural
networks.
"""

from functools import partial

import numpy as np
import pandas as pd
from snsynth import Synthesizer
from snsynth.transform import BinTransformer, MinMaxTransformer, TableTransformer

FAMILIES = {
    "SmartNoise MST": ["linear", "logistic", "counts"],
    "SmartNoise AIM": ["linear", "logistic", "counts"],
    "SmartNoise MWEM": ["linear", "logistic", "counts"],
    "SmartNoise DP-CTGAN": ["linear", "logistic", "counts"],
    "SmartNoise PATE-CTGAN": ["linear", "logistic", "counts"],
}
_BINS = 10


def regression(kind, table, epsilon, delta, seed):
    frame = pd.DataFrame(np.column_stack([table.X, table.y]))
    frame.columns = [f"x{j}" for j in range(table.X.shape[1])] + ["y"]
    lower, upper = [*table.lower, table.y_lower], [*table.upper, table.y_upper]
    ends = [(float(a), float(b)) for a, b in zip(lower, upper, strict=True)]
    if kind.endswith("ctgan"):
        columns = [MinMaxTransformer(lower=low, upper=high, nullable=False) for low, high in ends]
    else:
        columns = [BinTransformer(bins=_BINS, lower=low, upper=high) for low, high in ends]
    options = {} if kind == "mwem" else {"delta": delta}
    model = Synthesizer.create(kind, epsilon=epsilon, **options)
    model.fit(frame, transformer=TableTransformer(columns), preprocessor_eps=0.0)
    synthetic = np.asarray(model.sample(len(frame)), dtype=float)
    y = synthetic[:, -1] > 0.5 if table.family == "logistic" else synthetic[:, -1]
    return table.regression(synthetic[:, :-1], y)


_KINDS = ("mst", "aim", "mwem", "dpctgan", "patectgan")
METHODS = {name: partial(regression, kind) for name, kind in zip(FAMILIES, _KINDS, strict=True)}
