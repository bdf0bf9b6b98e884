"""Plugins from outside of the clone: found, named with their faults, seen by keys, marked on pages."""

import os
import subprocess
import sys

import pytest

ESTIMATOR = '''
"""An estimator of somebody else."""
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.params import PrivateParams


@dataclass(frozen=True, kw_only=True, eq=False)
class TheirParams(PrivateParams):
    """Keywords."""


@register(
    title="Their mean", order=987, task="mean", reference="theirs", summary="Noise alone.",
    calibrations=("tight",), witnesses=lambda params, d, published: {}, no_interval="it is noise",
)
def their_mean(sample, params: TheirParams, transcript):
    """Return noise, (d, R)."""
    budget = params.split_budget({"noise": 1.0})
    zeros = np.zeros((sample.n_features, sample.n_replicates))
    multiplier = budget.gaussian_multiplier("noise")
    return transcript.gaussian(zeros, l2_sensitivity=1.0, noise_multiplier=multiplier, label="noise")
'''
DATASET = """
from data.dataset import Column, Dataset, Source
DATASET = Dataset(name={name!r}, title="t", description="d", privacy_unit="a row", n_rows=3, license="l",
    citation="c", source=Source("x.csv", "", "csv", note="none"),
    columns=(Column("x", "float64", "", 0.0, 1.0, "law", 0.0, 1.0),))
PARSERS, stand_in = {{}}, None
"""
FOUND = "from dpalgos.catalog import from_outside; print([entry.name for entry in from_outside()])"
MARKED = (
    f"{FOUND}; import dpalgos; from reports.pages.study import origin_of;"
    "print(origin_of(dpalgos.get_estimator('their_mean')));"
    "import tasks.problems.kinds; from data.datasets import _names; print('theirs' in _names())"
)


def said(code, *files):
    environment = {**os.environ, "DPCOST_WITH": os.pathsep.join(map(str, files))}
    asked = {"capture_output": True, "text": True, "env": environment, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **asked)
    return done.stdout.strip(), done.stderr


@pytest.fixture
def theirs(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text(ESTIMATOR)
    return file


def test_an_estimator_and_a_dataset_of_files_are_found_and_take_no_name_that_is_there(theirs, tmp_path):
    files = [tmp_path / f"their_{name}.py" for name in ("theirs", "housing")]
    for file, name in zip(files, ("theirs", "housing"), strict=True):
        file.write_text(DATASET.format(name=name))
    out, warned = said(MARKED, theirs, *files)
    found, marked, added = out.splitlines()
    assert (found, added) == ("['their_mean']", "True")
    assert "theirs.py, sha256" in marked
    assert "'housing'" in warned


LEAVING = ["import sys; sys.exit(0)", "raise GeneratorExit", "raise BaseException('no')"]
LAST_LINE = ESTIMATOR.count("\n") + 2


def test_broken_files_are_named_with_their_lines_and_take_no_name(theirs, tmp_path):
    broken = []
    for number, last in enumerate([*LEAVING, "raise KeyError('x')"]):
        broken.append(tmp_path / f"broken_{number}.py")
        broken[-1].write_text(f"{ESTIMATOR}\n{last}\n")
    out, warned = said(FOUND, *broken, theirs)
    assert out == "['their_mean']"
    for file in broken[:-1]:
        assert f"line {LAST_LINE} of {file}" in warned
    assert f"{broken[-1]} is left out: KeyError" in warned
