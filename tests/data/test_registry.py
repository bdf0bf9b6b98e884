"""Datasets are found by lying in their folder or collection; a broken file is named, the others work."""

import numpy as np
import pytest

from data.collections import wang2018
from data.datasets import get_dataset, load, load_registry

README = """
| table | n × d | trivial | best printed private, ε = .1 | ε = 1 | printed AdaSSP, ε = .1 | ε = 1 |
|---|---|---|---|---|---|---|
| `rivers` | 30 × 2 | 0.1 | 0.09 | .05 | 0.2 | 0.3 |
| `wine` | 1,599 × 11 | 0.1 | 0.08 | 0.04 | 0.2 | 0.3 |
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path))
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "home"))
    (tmp_path / "wang2018").mkdir()
    return tmp_path / "wang2018"


def write(folder, name, X, y):
    np.savez(folder / f"{name}.npz", X=X, y=y)


def test_a_further_table_is_a_dataset_with_the_errors_that_are_printed_of_it(folder):
    assert "wang2018_rivers" not in load_registry()
    assert wang2018.printed_errors() == {}
    X = np.arange(60.0).reshape(30, 2)
    write(folder, "rivers", X, X @ [1.0, 2.0])
    (folder / "README.md").write_text(README)
    dataset = get_dataset("wang2018_rivers")
    assert (dataset.n_rows, dataset.column_names) == (30, ("x1", "x2", "y"))
    table = load("wang2018_rivers").PARSERS["npz"](folder / "rivers.npz")
    np.testing.assert_array_equal(table.to_numpy(), np.column_stack([X, X @ [1.0, 2.0]]))
    # Of wine there is no file here, so that only made-up rows could be compared.
    assert wang2018.printed_errors() == {"wang2018_rivers": {0.1: 0.09, 1.0: 0.05}}


def test_a_broken_file_leaves_the_others_in_the_registry(folder, caplog):
    (folder / "broken.npz").write_bytes(b"no archive")
    found = load_registry()
    assert "wang2018_broken" not in found
    assert {"housing", "wang2018_wine"} <= set(found)
    assert "broken.npz" in caplog.text
