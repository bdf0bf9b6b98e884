"""Tables, files of users and a copy of the project that tests are made of; and how a refusal is checked."""

import math
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.columns import Column
from data.tables.declared import read_declared
from data.tables.streams import StreamedTable
from tasks.own_table.row_design import RowDesign
from tasks.release.rows import _DesignReader

PROJECT = Path(__file__).resolve().parents[1]
DPCOST = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"  # with python -c
HASTY_MEAN = Path(__file__).with_name("hasty_mean.py")  # a plugin
NAMES = ("chromium", "chromium-browser", "google-chrome")
FOUND = [path for path in map(shutil.which, NAMES) if path][:1]
# The browser and what it is always told, or nothing where there is none.
CHROMIUM = [*FOUND, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"] if FOUND else []
CHROMIUM += ["--disable-sync", "--disable-background-networking"] if FOUND else []
REGIONS = ["north", "south", "west"]
CATEGORIES = {"region": REGIONS, "smoker": ["no", "yes"]}
BOUNDS = {"age": (0, 120), "cost": (-5000, 10000)}


def refused(use, error, *named, hidden=()):
    """Check that a call is refused in one sentence with some words and without others; return it."""
    with pytest.raises(error) as caught:
        use()
    sentence = str(caught.value)
    assert "\n" not in sentence.strip()
    assert not [word for word in named if str(word) not in sentence], sentence
    assert not [word for word in hidden if str(word) in sentence], sentence
    assert not hidden or caught.value.__suppress_context__ or caught.value.__context__ is None
    return sentence


def load_numbers(source, columns, *, watch=None):
    """Return columns of numbers of a file, as a release without a study file reads them."""
    design = RowDesign(columns=tuple(map(Column.in_units, columns)))
    return pd.DataFrame(read_declared(source, design.plain_declaration, watch=watch).table)


def checked(source, columns):
    """Return a table of numbers whose files were read once."""
    make = partial(_DesignReader, source, RowDesign(columns=tuple(map(Column.in_units, columns))))
    table = StreamedTable(source, make)
    table.check(make(), lambda _: None)
    return table


def refusals(table):
    """Parametrize a test by a table of refusals: the exception, what its sentence names, what is tried."""
    rows = [pytest.param(error, *rest, id=f"{k}: {rest[0]}") for k, (error, *rest) in enumerate(table)]
    return pytest.mark.parametrize(("error", "named", "use"), rows)


def words(named):
    return (named,) if isinstance(named, str) else named


IMPORT = re.compile(r"^ *(?:>>> )?((?:from|import) [\w.]+(?: import [\w, ]+)?)$", re.MULTILINE)


def documented_imports():
    """Return the lines of the documentation, outside of its generators, that import the project's modules."""
    pages = [*(PROJECT / "docs").rglob("*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
    own = ("dpalgos", "dpcost", "data", "flows", "reports", "tasks")
    lines = {
        line for page in pages if "_build" not in page.parts for line in IMPORT.findall(page.read_text())
    }
    return sorted(line for line in lines if line.split()[1].partition(".")[0] in own)


def copied_project(folder, *ignored):
    """Copy the project's packages into a folder; bytecode holds there, too, for copies keep their times."""
    for package in ("flows", "tasks", "dpalgos", "dpcost", "data", "reports"):
        left_out = shutil.ignore_patterns("out", *ignored)
        shutil.copytree(PROJECT / package, folder / package, ignore=left_out)
    return folder


def run_there(folder, *words):
    """Run Python in a folder with the project's code and a home of its own; return the process that ended."""
    places = {"HOME": folder, "DPCOST_HOME": folder / "home", "PYTHONPATH": folder}
    own = {"PATH": "", "OMP_NUM_THREADS": "1", **{name: str(place) for name, place in places.items()}}
    asked = {"cwd": folder, "env": own, "capture_output": True, "text": True, "check": False, "timeout": 600}
    done = subprocess.run([sys.executable, *words], **asked)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done


def declared_column(name, **facts):
    bounds = (-math.inf, math.inf) if "categories" in facts else (0.0, 1.0)
    bounds = facts.pop("lower", bounds[0]), facts.pop("upper", bounds[1])
    return Column(name, "float64", facts.pop("unit", ""), *bounds, facts.pop("source", "law"), **facts)


def people(n=600):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(20, 100, n).round(1)})
    table["region"] = rng.choice(REGIONS, n)
    table["smoker"] = np.where(rng.random(n) < 0.5, "yes", "no")
    west = 500 * (table["region"] == "west")
    table["cost"] = (1000 + 30 * table["age"] + west + rng.normal(0, 300, n)).round(1)
    return table.assign(person=np.arange(n) // 2)


def release_file(folder, name, x, *, columns="", bounds="value_bound = 1.0", params=""):
    parts = {"columns": f"x = {x}\n{columns}", "bounds": bounds, "params": params}
    text = "".join(f"[{part}]\n{lines}\n" for part, lines in parts.items())
    (folder / "release.toml").write_text(f'[dataset]\nname = "{name}"\n{text}')
    return folder / "release.toml"


def release_words(estimator, data, config, epsilon, delta=1e-6):
    return ["release", estimator, "--data", data, "--config", config, "--epsilon", epsilon, "--delta", delta]


def visits(n_users=60, seed=0):
    """Patients of 1 to 6 visits; those of few visits differ from the others."""
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, 7, n_users)
    patient = np.repeat([f"p{u:03}" for u in rng.permutation(n_users)], n_rows)
    shift = np.repeat(np.where(n_rows < 3, 0.8, -0.8), n_rows)
    dose, weight = rng.uniform(-1, 1, (2, len(patient)))
    effect = (1 + shift) * dose - 0.5 * weight + 0.1 * rng.standard_normal(len(patient))
    table = pd.DataFrame({"patient": patient, "dose": dose + shift, "weight": weight, "effect": effect})
    return table.sample(frac=1, random_state=seed)


def made_up(dataset, n_rows, rng):
    """Simulate rows from the declarations alone: independent columns with one unit around their centers.

    A column without units has a scale of at most 1 around the middle. If its range is two units, a column has
    its bounds only.
    """
    columns = {}
    for column in dataset.columns:
        bounds = column.lower, column.upper
        center = (column.lower + column.upper) / 2 if column.center is None else column.center
        scale = column.scale or min(1.0, (column.upper - column.lower) / 4)
        if column.upper - column.lower <= 2 * scale:
            columns[column.name] = rng.choice(bounds, n_rows)
        else:
            values = np.clip(rng.normal(center, scale, n_rows), *bounds)
            columns[column.name] = np.rint(values) if column.dtype == "int64" else values
    return pd.DataFrame(columns)
