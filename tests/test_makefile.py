"""`make clean` leaves privacy budgets alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


# What is made, a file of the home, and whether the home stays
CASES = [("clean", "store", True), ("clean-home", "store", False)]
CASES += [("clean-home", "ledger.key", True), ("clean-home", "ledger.sqlite", True)]


@pytest.mark.parametrize(("target", "file", "stays"), CASES)
def test_a_home_is_deleted_only_if_that_is_asked_and_it_has_no_ledger(tmp_path, target, file, stays):
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / ".dpcost").mkdir()
    (tmp_path / ".dpcost" / file).touch()
    done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) == (target == "clean" or not stays)
    assert (tmp_path / ".dpcost" / file).exists() == stays
