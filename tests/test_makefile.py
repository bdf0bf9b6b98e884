"""`make clean` leaves privacy budgets alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture
def make(tmp_path):
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / ".dpcost" / "store").mkdir(parents=True)

    def run(target):
        return subprocess.run(["make", target], cwd=tmp_path, capture_output=True, check=False).returncode

    return run


def test_clean_keeps_the_home(make, tmp_path):
    assert make("clean") == 0
    assert (tmp_path / ".dpcost" / "store").exists()


def test_clean_home_deletes_a_home_without_a_ledger(make, tmp_path):
    assert make("clean-home") == 0
    assert not (tmp_path / ".dpcost").exists()


@pytest.mark.parametrize("file", ["ledger.key", "ledger.sqlite"])
def test_clean_home_refuses_a_home_with_a_ledger(make, tmp_path, file):
    (tmp_path / ".dpcost" / file).touch()
    assert make("clean-home") != 0
    assert (tmp_path / ".dpcost" / file).exists()
