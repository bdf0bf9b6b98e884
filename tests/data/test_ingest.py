"""Raw files become tables in the store; data sets are found by lying in their folder or collection."""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.collections import wang2018
from data.datasets import get_dataset, housing, load, load_registry
from data.errors import CorruptSource
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.store.references import Repair, read_table

SENTINEL = "123456.789"


def raw_of(folder, dataset, payload):
    source = dataset.source
    file = folder / "raw" / source.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(payload)
    sha256 = hashlib.sha256(payload).hexdigest()
    return RawFile(dataset.name, str(file), sha256, source.url, source.layout, "mirror")


def replacing(row, field, text):
    def tamper(lines):
        fields = lines[row].split(",")
        fields[field] = text
        return [*lines[:row], ",".join(fields), *lines[row + 1 :]]

    return tamper


def test_the_published_file_becomes_the_declared_table(tmp_path, published):
    dataset = published.dataset
    ref = to_parquet(dataset, raw_of(tmp_path, dataset, published.tgz), home=tmp_path)
    assert ref.source_sha256 == dataset.source.sha256
    assert (ref.n_rows, ref.rows_read, ref.repairs, ref.data_source) == (20_640, 20_640, (), "real")
    table = read_table(ref)
    assert [str(dtype) for dtype in table.dtypes] == [column.dtype for column in dataset.columns]
    assert (table["median_house_value"] == 500_001).sum() == published.n_capped


def test_a_whole_table_is_reused_and_a_damaged_one_rebuilt(tmp_path, small, monkeypatch, caplog):
    dataset, payload = small()
    raw = raw_of(tmp_path, dataset, payload)
    first = to_parquet(dataset, raw, home=tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", None)
        again = to_parquet(dataset, replace(raw, origin="store"), home=tmp_path)
        assert again == replace(first, origin="store")
    parsed, parse = [], housing.PARSERS["cal_housing_tgz"]
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", lambda p: parsed.append(p) or parse(p))
        assert to_parquet(dataset, raw, home=tmp_path, again=True) == first
        assert parsed

    whole = Path(first.path).read_bytes()
    sidecar = Path(first.path).with_suffix(".json")
    cut = lambda: Path(first.path).write_bytes(whole[:-1])  # noqa: E731
    for damage in (cut, lambda: sidecar.write_text("{"), sidecar.unlink):
        damage()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert to_parquet(dataset, raw, home=tmp_path) == first
        assert "is damaged" in caplog.text
        assert Path(first.path).read_bytes() == whole


BAD = [(3, f"x{SENTINEL}", "text in number column total_rooms"), (0, "-inf", "infinity in column longitude")]
BAD += [(3, text, "blank or NaN in column total_rooms") for text in ("", "NaN")]
BAD += [(3, SENTINEL, "fraction in a whole-number column total_rooms")]


@pytest.mark.parametrize(("field", "text", "reason"), BAD)
def test_a_bad_row_is_dropped_and_counted(tmp_path, small, caplog, field, text, reason):
    dataset, payload = small(replacing(7, field, text))
    with caplog.at_level(logging.WARNING):
        ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    assert (ref.n_rows, ref.rows_read, ref.repairs) == (299, 300, (Repair(reason, 1),))
    assert f"1 rows dropped ({reason}: 1)" in caplog.text
    assert SENTINEL not in caplog.text
    assert len(read_table(ref)) == 299


def test_a_wrong_file_that_no_checksum_tells_is_set_aside(tmp_path, small):
    dataset, good = small()
    _, bad = small(lambda lines: lines[:-1])
    dataset = replace(dataset, source=replace(dataset.source, sha256="", note="no checksum is known"))
    mirror, home = tmp_path / "mirror", tmp_path / "home"
    file = mirror / dataset.source.file
    file.parent.mkdir(parents=True)
    file.write_bytes(bad)
    places: dict[str, Any] = {"home": home, "mirror": mirror, "offline": True}
    with pytest.raises(CorruptSource, match=r"has 299 rows.*refused/housing/cal_housing\.tgz.*--again"):
        to_parquet(dataset, fetch(dataset, **places), home=home)
    assert (home / "store" / "refused" / "housing" / "cal_housing.tgz").read_bytes() == bad
    file.write_bytes(good)
    assert to_parquet(dataset, fetch(dataset, **places), home=home).n_rows == 300


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
