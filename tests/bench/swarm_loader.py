"""The swarm loader on a zip that holds 1 GB of text, in a process of its own."""

import tempfile
import zipfile
from pathlib import Path

import numpy as np

from data.datasets import get_dataset
from data.simulations.flock import simulate
from tests.bench.commands import run_script
from tests.bench.goals import Measurement, at_most

_CHILD = """
import json, sys, time
from dataclasses import replace
from pathlib import Path
from data.fetch.raw_files import RawFile
from data.fetch.ingest import to_parquet
from data.datasets import get_dataset
from tests.peak_memory import peak_memory

archive, n_rows = Path(sys.argv[1]), int(sys.argv[2])
raw = RawFile("swarm", str(archive), "0" * 64, "", "uci_zip", "mirror")
start = time.perf_counter()
ref = to_parquet(replace(get_dataset("swarm"), n_rows=n_rows), raw, home=archive.parent)
seconds = time.perf_counter() - start
peak = peak_memory() / 2**20
print(json.dumps({"seconds": seconds, "peak_mib": peak, "n_rows": ref.n_rows}))
"""


def bench_swarm_loader(small: bool = False) -> Measurement:
    """Time and peak memory from the zip to the checked Parquet file."""
    n_bytes = 10**6 if small else 10**9
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "swarm.zip"
        n_rows = _write(archive, n_bytes)
        found = run_script(_CHILD, archive, n_rows)
    assert found["n_rows"] == n_rows
    size = f"{n_bytes / 1e9:g} GB"
    return Measurement(
        figure=f"{found['seconds']:.0f} s, {found['peak_mib']:.0f} MiB for {n_rows:,} rows, {size} of text",
        goals=[
            at_most(90, "s", f"{size} read", found["seconds"]),
            at_most(700, "MiB", "memory of that", found["peak_mib"]),
        ],
        data="a simulated flock",
    )


def _write(archive: Path, n_bytes: int) -> int:
    """Write simulated frames again and again until there is enough text; return their number."""
    frames = np.concatenate([part for part, _ in simulate(1600 if n_bytes > 10**6 else 16, 1)])
    lines = [(",".join(f"{value:.2f}" for value in row) + ",1\n").encode() for row in frames]
    header = " ,".join(get_dataset("swarm").frame_columns) + ", Class \n"
    n_rows = size = 0
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened,
        opened.open("Swarm Behavior Data/Flocking.csv", "w", force_zip64=True) as text,
    ):
        text.write(header.encode())
        while size < n_bytes:
            size += text.write(lines[n_rows % len(lines)])
            n_rows += 1
    return n_rows
