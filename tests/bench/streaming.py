"""Rows streamed from Parquet: speed against reading alone, and memory against the number of rows.

On one core, to which the process is bound; seconds are of the processor. Reading alone decodes the same
columns of the same file in the same run as a fit reads them: pieces of as many rows, the same buffer. That is
about the fastest way on one core: whole row groups take a few per cent less, ``pyarrow.parquet.read_table``
five times as long.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.commands import run_script
from tests.bench.goals import Goal, Measurement, at_most

COLUMNS = 5

_CHILD = """
import json, os, sys, time
from pathlib import Path
import numpy as np, pyarrow.parquet as pq
import dpalgos
from data.formats.row_groups import BUFFER_BYTES, RowBlocks
from dpalgos.rows.streams import StreamedRows
from tasks.cells import one_blas_thread
from tests.peak_memory import peak_memory

one_blas_thread()  # as a release does
path, task, repeats = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
names = pq.read_schema(path).names
budget = {"epsilon": 1.0, "delta": 1e-9}
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

def raw():
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
        for batch in file.iter_batches(32_768, use_threads=False):
            pass

def mean():
    rows = RowBlocks(path, names)
    return dpalgos.estimate("dp_mean", StreamedRows(rows, rows.n_rows), rng=np.random.default_rng(0),
                            value_bound=4.0, **budget)

def regression():
    rows = RowBlocks(path, names[:-1], names[-1])
    return dpalgos.estimate("dp_linear_regression", StreamedRows(rows, rows.n_rows), covariate_bound=3.0,
                            response_bound=4.0, coef_bound=2.0, rng=np.random.default_rng(0), **budget)

fit = {"mean": mean, "regression": regression}[task]
fit()  # what it imports is not timed, and the memory of reading alone is not its own
used, shares = peak_memory(), []
for _ in range(repeats):
    seconds = []
    for call in (raw, fit):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    shares.append(seconds[0] / seconds[1])
print(json.dumps({"shares": shares, "seconds": seconds, "peak": used}))
"""


def bench_streamed_rows(small: bool = False) -> Measurement:
    """Time one pass of a private mean and of a private regression over files of 10⁵ to 10⁷ rows."""
    sizes, repeats = ((5_000,), 1) if small else ((100_000, 1_000_000, 10_000_000), 3)
    found: dict[str, dict[int, dict]] = {"mean": {}, "regression": {}}
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            path = Path(folder) / "rows.parquet"
            _write(path, n)
            for task, of_task in found.items():
                of_task[n] = run_script(_CHILD, path, task, repeats)
            path.unlink()
    goals, words = [], []
    for task, of_task in found.items():
        most, least = of_task[sizes[-1]], of_task[sizes[0]]
        grown = [100 * (of_task[n]["peak"] / least["peak"] - 1) for n in sizes[1:]]
        goals += [
            Goal(
                what=f"{task} of {sizes[-1]:,} rows: speed of reading alone",
                values=[100 * share for share in most["shares"]],
                wanted=60,
                unit="%",
            ),
            at_most(15, "%", f"{task}: memory above that of {sizes[0]:,} rows", max(grown, default=0.0)),
        ]
        words.append(f"{task}: {most['seconds'][1]:.2f} s, reading alone {most['seconds'][0]:.2f} s")
    most = found["regression"][sizes[-1]]["seconds"]
    facts = {"rows": f"{sizes[-1]:,}", "reading": f"{most[0]:.1f}", "pass": f"{most[1]:.1f}"}
    return Measurement(figure="; ".join(words), goals=goals, facts=facts)


def _write(path: Path, n: int) -> None:
    rng, names = np.random.default_rng(0), [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, 1_000_000):
            columns = [rng.standard_normal(min(1_000_000, n - start)) for _ in names]
            writer.write_table(pa.table(columns, schema=schema))
