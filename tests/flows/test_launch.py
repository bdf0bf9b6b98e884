import shutil
from collections import namedtuple
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from data.errors import DataError, StoreError
from flows import ServerError, launch
from flows.launch import (
    check_folder,
    check_index,
    check_table_is_no_output,
)
from tasks import dask_cluster as dask_engine
from tasks.errors import SpecError
from tasks.report.write import write_index
from tasks.run_options import RunOptions
from tests.tasks.analyst_tables import initialized


@pytest.mark.parametrize(
    ("code", "store", "sentence"),
    [
        ("", "/home/else on another machine", "run's results are at /home/else on another machine"),
        ("other", "", "has another version of the code"),
        ("", "s3://bucket", "DPCOST_STORE is not set there, and the run's results are at s3://bucket"),
    ],
)
def test_what_a_worker_lacks_is_one_sentence(home, code, store, sentence):
    assert sentence in dask_engine.check_worker(code or dask_engine._code(), store)


def test_a_worker_closes_its_home_to_other_accounts(home):
    (home / "cache").mkdir(parents=True)
    (home / "cache").chmod(0o755)
    assert dask_engine.check_worker(dask_engine._code(), dask_engine._results_at()) == ""
    assert [(home / name).stat().st_mode & 0o777 for name in ("store", "cache")] == [0o700, 0o700]


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"--out must .*file"):
        check_folder("--out", tmp_path / f"file{below}", 1)


def test_a_foreign_index_page_is_not_replaced(tmp_path):
    check_index(tmp_path)
    (tmp_path / "index.html").write_text("<title>My site</title>")
    with pytest.raises(SpecError, match=r"--out .*index\.html"):
        check_index(tmp_path)
    write_index(tmp_path)
    check_index(tmp_path)


def test_a_table_in_the_folder_of_its_own_report_is_refused(tmp_path):
    check_table_is_no_output(tmp_path / "results.parquet", tmp_path / "mine")
    with pytest.raises(SpecError, match="--out"):
        check_table_is_no_output(tmp_path / "mine" / "results.parquet", tmp_path / "mine")


def test_a_disk_that_fills_up_while_the_server_starts_is_named(home, tmp_path, monkeypatch):
    usage, free = namedtuple("usage", "free"), iter([10**9, 10**9, 0])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(next(free)))
    failure = ServerError("the server ended with exit status 3")
    monkeypatch.setattr(launch, "prefect_server", Mock(side_effect=failure))
    with pytest.raises(StoreError, match=f"{home} is full"):
        launch.launch(["housing"], RunOptions(workers=1, out=str(tmp_path)))


def test_a_faulty_file_of_ones_own_is_told_while_a_server_starts(home, tmp_path, monkeypatch):
    study = initialized(tmp_path, pd.DataFrame({"age": np.arange(20.0), "cost": np.ones(20)}), bounds=(0, 18))

    def prefect_server(*_, meanwhile, **__):
        meanwhile()
        raise AssertionError("it went on")

    monkeypatch.setattr(launch, "prefect_server", prefect_server)
    with pytest.raises(DataError, match="'age' is outside"):
        launch.launch([str(study)], RunOptions(workers=1, out=str(tmp_path / "out")))
