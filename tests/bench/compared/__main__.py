"""Compare with what users would take instead: figures for the page docs/guide/compared.md.

``python -m tests.bench.compared --out docs/measured/compared.json`` runs two scripts of this folder for each
library, one with it (in an environment below ``DPCOST_HOME``, made on the first run) and one with this
project, on California housing: in fresh processes for seconds, and again and again in one process for errors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from data.datasets.housing import parse_cal_housing_tgz
from data.store.folders import PROJECT_ROOT
from tests.bench.goals import write_facts
from tests.bench.league.libraries import SCRIPTS, python_of, requirements

HERE = Path(__file__).parent
LIBRARIES: dict[str, Sequence[str]] = {
    "diffprivlib": requirements(SCRIPTS["diffprivlib"]),
    "opendp": ("opendp[polars]==0.16.0",),
    "smartnoise": requirements(SCRIPTS["smartnoise_sql"]),
    "dp_wizard": ("dp_wizard[pins]==0.10.0",),
}
FORM = ("dp_wizard", "theirs")  # a script that stands for a form in a browser: nobody writes it
PROCESSES = 3  # for seconds, of the processor, so that a busy machine does not count
LEVEL = 1.96
NAMES = {"theirs": "The other library", "ours": "dpcost"}


def table() -> pd.DataFrame:
    """Return California housing without its places, and the half of the state that a block group is in."""
    housing = parse_cal_housing_tgz(PROJECT_ROOT / "data/embedded/housing/cal_housing.tgz").astype(float)
    region = np.where(housing["latitude"] > 36, "north", "south")
    return housing.drop(columns=["longitude", "latitude"]).assign(region=region)


def exact(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    X = np.column_stack([rows["housing_median_age"], rows["median_income"], np.ones(len(rows))])
    slopes = np.linalg.lstsq(X, rows["median_house_value"].to_numpy(), rcond=None)[0][:2]
    cells = pd.cut(rows["housing_median_age"], np.arange(0, 55, 6))
    return {
        "diffprivlib": slopes,
        "opendp": np.array([rows["median_income"].mean()]),
        "smartnoise": rows.groupby("region")["median_income"].mean().to_numpy(),
        "dp_wizard": cells.value_counts(sort=False).to_numpy(),
    }


def run(python: Path, script: str, times: int, folder: Path) -> tuple[list[dict], float]:
    """Return what a script makes in each of some runs of one process, and the processor's seconds of it."""
    words = [str(python), str(HERE / "repeat.py"), str(HERE / script), str(times)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    if script.endswith("ours.py"):
        environment["PYTHONPATH"] = str(PROJECT_ROOT)
    before = os.times()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return [json.loads(line) for line in done.stdout.splitlines()], seconds


def lines(script: str) -> int:
    """Return how many lines of a script are no blank and no comment."""
    text = (HERE / script).read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text)


def measured(name: str, side: str, truth: np.ndarray, repetitions: int, folder: Path) -> dict:
    script, requires = f"{name}_{side}.py", LIBRARIES[name] if side == "theirs" else ()
    python = python_of(requires)
    run(python, script, 1, folder)  # what is compiled or cached once is not timed
    fresh = [run(python, script, 1, folder)[1] for _ in range(PROCESSES)]
    runs, _ = run(python, script, repetitions, folder)
    errors = [100 * np.sqrt(np.mean((np.array(each["answer"]) / truth - 1) ** 2)) for each in runs]
    found = {"lines": 0 if (name, side) == FORM else lines(script), "fresh": fresh, "errors": errors}
    found["again"] = [each["seconds"] for each in runs[1:]]
    if "low" in runs[0]:
        low, high = (np.array([each[end] for each in runs]) for end in ("low", "high"))
        stated = np.isfinite(low)
        found["stated"] = 100 * stated.mean()
        found["covers"] = (
            100 * np.mean(((low <= truth) & (truth <= high))[stated]) if stated.any() else np.nan
        )
        found["width"] = 100 * np.mean(((high - low) / 2 / truth)[stated]) if stated.any() else np.nan
    return found


def facts_of(found: Mapping) -> dict[str, str]:
    error, spread = np.mean(found["errors"]), np.std(found["errors"], ddof=1) / np.sqrt(len(found["errors"]))
    said = {
        "lines": str(found["lines"]),
        "seconds": f"{np.median(found['fresh']):.1f}",
        "again": f"{np.median(found['again']):.2g}",
        "error": f"{error:.2g} ± {LEVEL * spread:.1g} %",
        "interval": "none",
    }
    if found.get("stated", 0):
        said["interval"] = f"± {found['width']:.2g} %, covers {found['covers']:.0f} %"
        said["interval"] += f", stated in {found['stated']:.0f} %" if found["stated"] < 100 else ""
    return said


def verdict(theirs: Mapping, ours: Mapping) -> str:
    """Say who is better in what: in errors beyond both standard errors, in seconds beyond both ranges."""
    better: dict[str, list[str]] = {"theirs": [], "ours": []}
    (a, da), (b, db) = (
        (np.mean(each["errors"]), np.std(each["errors"], ddof=1) / np.sqrt(len(each["errors"])))
        for each in (theirs, ours)
    )
    if abs(a - b) > LEVEL * np.hypot(da, db):
        better["theirs" if a < b else "ours"].append(f"the error ({max(a, b) / min(a, b):.1f} times smaller)")
    if max(theirs["fresh"]) < min(ours["fresh"]) or max(ours["fresh"]) < min(theirs["fresh"]):
        better["theirs" if max(theirs["fresh"]) < min(ours["fresh"]) else "ours"].append("the seconds")
    if theirs["lines"] != ours["lines"]:
        better["theirs" if theirs["lines"] < ours["lines"] else "ours"].append("the lines to write")
    said = [f"{who} is better in {_listed(better[side])}" for side, who in NAMES.items() if better[side]]
    return f"{'; '.join(said)}." if said else "Neither is better in error, seconds or lines."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(words)
    rows, facts = table(), {"compared/repetitions": str(asked.repetitions)}
    with tempfile.TemporaryDirectory() as folder:
        rows.to_csv(Path(folder) / "rows.csv", index=False)
        for name in LIBRARIES:
            found = {
                side: measured(name, side, exact(rows)[name], asked.repetitions, Path(folder))
                for side in ("theirs", "ours")
            }
            for side, each in found.items():
                facts |= {f"compared/{name}/{side}/{what}": text for what, text in facts_of(each).items()}
            facts[f"compared/{name}/verdict"] = verdict(**found)
            print(
                *(f"{key}: {text}" for key, text in facts.items() if f"/{name}/" in key), sep="\n", flush=True
            )
    write_facts(asked.out, facts)


if __name__ == "__main__":
    main(sys.argv[1:])
