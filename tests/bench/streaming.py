"""Rows streamed from Parquet: speed against reading alone, and memory against the number of rows.

On one core, to which the process is bound; seconds are of the processor. Reading alone decodes the same
columns of the same file in the same run as a fit reads them: pieces of as many rows, the same buffer. That is
about the fastest way on one core: whole row groups take a few per cent less, ``pyarrow.parquet.read_table``
five times as long.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.commands import run_script
from tests.bench.goals import Goal, Measurement, at_most

COLUMNS = 5
_PARTITION_COLUMNS = 10

_CHILD = """
import json, os, sys, time
from pathlib import Path
import numpy as np, pyarrow.parquet as pq
import dpalgos
from data.formats.row_groups import BUFFER_BYTES, RowBlocks
from dpalgos.rows.blocks import StreamedRows
from tasks.run.threads import one_blas_thread
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
        words.append(
            f"{task}: {most['seconds'][1]:.2f} s for {sizes[-1]:,} rows of {COLUMNS} columns, reading alone "
            f"{most['seconds'][0]:.2f} s; {most['peak'] / 2**20:.0f} MiB, of {sizes[0]:,} rows "
            f"{least['peak'] / 2**20:.0f} MiB"
        )
    most = found["regression"][sizes[-1]]["seconds"]
    facts = {"rows": f"{sizes[-1]:,}", "reading": f"{most[0]:.1f}", "pass": f"{most[1]:.1f}"}
    return Measurement(figure="; ".join(words), goals=goals, details=found, facts=facts)


_PARTITIONED = """
import json, multiprocessing, os, signal, sys, time
from pathlib import Path
import dask, distributed, numpy as np, pyarrow.parquet as pq
import dpalgos
from data.formats.row_groups import BUFFER_BYTES, RowBlocks
from dpalgos.rows.partitions import PartitionedRows
from tasks.dask_cluster import workers_of
from tasks.workers import map_on_workers, opened
from tests.peak_memory import peak_memory

files, workers = sorted(Path(sys.argv[1]).glob("*.parquet")), int(sys.argv[2])
names = pq.read_schema(files[0]).names
deadly = Path(sys.argv[1]) / "killed"

def raw():
    for path in files:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            for batch in file.iter_batches(16_384, use_threads=False):
                pass

def partition(path, dies):
    read = RowBlocks(path, names[:-1], names[-1])
    def pieces():
        if dies and multiprocessing.parent_process() and not deadly.exists():
            deadly.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return read()
    return pieces, read.n_rows

def fit(mapper, dies=False):
    rows = PartitionedRows([partition(path, dies) for path in files], mapper)
    return dpalgos.estimate("dp_linear_regression", rows, covariate_bound=4.0, response_bound=4.0,
                            coef_bound=2.0, epsilon=1.0, delta=1e-11, rng=np.random.default_rng(0)).estimate

def seconds(call, *arguments):
    cpu, clock = time.process_time(), time.perf_counter()
    return [call(*arguments), time.process_time() - cpu, time.perf_counter() - clock]

def cpu_of_workers():
    return sum(client.run(time.process_time).values())

fit(map)  # what it imports is not timed
_, reading, reading_clock = seconds(raw)
here, one, one_clock = seconds(fit, map)
# Or workers give each freed array back to the kernel; as own workers of a run are started.
dask.config.set({"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None})
options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
with (distributed.LocalCluster(n_workers=workers, **options) as cluster,
      distributed.Client(cluster) as client, opened(workers_of(client, workers))):
    fit(map_on_workers)  # what workers import is not timed
    before = cpu_of_workers()
    there, driver, clock = seconds(fit, map_on_workers)
    computed = cpu_of_workers() - before
    most = max(client.run(peak_memory).values())
    after, _, clock_with_a_death = seconds(fit, map_on_workers, True)
assert deadly.exists()
deadly.unlink()
print(json.dumps({
    "same": bool((here == there).all() and (here == after).all()), "reading": reading, "one": one,
    "reading_clock": reading_clock, "one_clock": one_clock, "driver": driver, "workers": computed,
    "clock": clock, "clock_with_a_death": clock_with_a_death, "peak": most,
}))
"""


def bench_partitions(small: bool = False) -> Measurement:
    """Time a pass of partial sums in one process and by workers, one of which is killed in another pass."""
    rows, files, repeats, counts = (5_000, 2, 1, (1,)) if small else (1_000_000, 5, 4, (1, 2))
    found: dict[int, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            path = Path(folder) / f"part-{number}-0.parquet"
            _write(path, rows, _PARTITION_COLUMNS, seed=number)
            for again in range(1, repeats):  # the same file by another name
                os.link(path, path.with_name(f"part-{number}-{again}.parquet"))
        for count in counts:
            found[count] = run_script(_PARTITIONED, folder, count)
    goals = []
    for count, one in found.items():
        more = 100 * (one["workers"] + one["driver"]) / one["one"] - 100
        goals += [
            at_most(25, "%", f"{count} workers: processor time above that of one process", more),
            at_most(0.5, "GiB", f"{count} workers: memory of one", one["peak"] / 2**30),
            at_most(0, "", f"{count} workers: answers with other bits", float(not one["same"])),
        ]
    words = [
        f"{count} workers: {one['workers']:.2f} s of processor time and {one['driver']:.2f} s of the driver, "
        f"{one['clock']:.2f} s by the clock, {one['clock_with_a_death']:.2f} s with a worker killed, "
        f"{one['peak'] / 2**20:.0f} MiB per worker; one process {one['one']:.2f} s, reading "
        f"{one['reading']:.2f} s"
        for count, one in found.items()
    ]
    total = f"{rows * files * repeats:,} rows of {_PARTITION_COLUMNS} columns in {files * repeats} files"
    return Measurement(figure=f"{total}; " + "; ".join(words), goals=goals, details=found)


def _write(path: Path, n: int, columns: int = COLUMNS, seed: int = 0) -> None:
    rng, names = np.random.default_rng(seed), [f"x{j}" for j in range(columns)]
    writer = None
    for start in range(0, n, 1_000_000):
        columns = [rng.standard_normal(min(1_000_000, n - start)) for _ in names]
        table = pa.table(columns, names=names)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
