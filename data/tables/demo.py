"""The demo table: simulated students, with declarations; no person is in it."""

from pathlib import Path

import numpy as np

_N = 4000
_STUDY = """\
[data]
path = "demo-students.csv"
rows = 4000
privacy_unit = "a student"
clusters = "none"
missing = "refuse"
outside = "refuse"
columns = [
    { name = "sat", lower = 400, upper = 1600, source = "the rules of the simulation" },
    { name = "school", categories = ["arts", "law", "science"], source = "the rules of the simulation" },
    { name = "gpa", lower = 0, upper = 4, source = "the rules of the simulation" },
]
"""


def demo_study(folder: Path) -> Path:
    """Write the demo table and its study file into a folder, unless they are there; return the study file."""
    table, study = folder / "demo-students.csv", folder / "demo-students.toml"
    if not table.exists():
        table.write_text(_rows())
    if not study.exists():
        study.write_text(_STUDY)
    return study


def _rows() -> str:
    rng = np.random.default_rng(0)
    sat = rng.normal(1000, 150, _N).clip(400, 1600).round()
    school = rng.choice(["arts", "law", "science"], _N)
    gpa = (2.6 + 0.0015 * (sat - 1000) + 0.2 * (school == "law") + rng.normal(0, 0.5, _N)).clip(0, 4)
    lines = (f"{a:g},{b},{c:.2f}" for a, b, c in zip(sat, school, gpa, strict=True))
    return "sat,school,gpa\n" + "\n".join(lines) + "\n"
