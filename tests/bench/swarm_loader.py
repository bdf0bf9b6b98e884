"""The swarm loader on a zip that holds 1 GB of text, in a process of its own."""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from data.registry import get_dataset
from data.simulations.flock import simulate
from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Goal, Measurement

_CHILD = """
import json, sys, time
from dataclasses import replace
from pathlib import Path
from data.fetch.raw_files import RawFile
from data.fetch.ingest import to_parquet
from data.registry import get_dataset
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
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(archive), str(n_rows)],
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout)
    assert found["n_rows"] == n_rows
    size = f"{n_bytes / 1e9:g} GB"
    return Measurement(
        figure=f"{found['seconds']:.0f} s, {found['peak_mib']:.0f} MiB for {n_rows:,} rows, {size} of text",
        goals=[
            Goal(what=f"{size} read", values=[found["seconds"]], wanted=90, at_least=False, unit="s"),
            Goal(what="memory of that", values=[found["peak_mib"]], wanted=700, at_least=False, unit="MiB"),
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
