"""Raw files become tables in the store: of an archive, and of files that an installed package brings."""

import hashlib
import importlib.util
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from data import datasets
from data.dataset import Dataset
from data.datasets import get_dataset, housing
from data.errors import CorruptSource, CorruptTable, DataError, Unreachable
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.fetch.tables import check_bounds, store_table, table_digest, with_registry_types
from data.store.references import Repair, read_table

SENTINEL = "123456.789"

Small = Callable[..., tuple[Dataset, bytes]]


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


def test_provenance_is_inside_the_parquet(tmp_path, small):
    dataset, payload = small(replacing(5, 3, "many"))
    ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    metadata = {k.decode(): v.decode() for k, v in pq.read_schema(ref.path).metadata.items()}
    assert metadata == {
        "dpcost.dataset": "housing",
        "dpcost.data_source": "real",
        "dpcost.source_sha256": ref.source_sha256,
        "dpcost.source_url": ref.source_url,
        "dpcost.layout": "cal_housing_tgz",
        "dpcost.table_sha256": table_digest(read_table(ref)),
        "dpcost.rows_read": "300",
        "dpcost.repairs": json.dumps([vars(Repair("text in number column total_rooms", 1))]),
    }


def test_a_whole_table_is_reused_and_a_damaged_one_rebuilt(tmp_path, small, monkeypatch, caplog):
    dataset, payload = small()
    raw = raw_of(tmp_path, dataset, payload)
    first = to_parquet(dataset, raw, home=tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", None)
        assert to_parquet(dataset, replace(raw, origin="store"), home=tmp_path) == replace(
            first, origin="store"
        )

    parsed, parse = [], housing.PARSERS["cal_housing_tgz"]
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", lambda p: parsed.append(p) or parse(p))
        assert to_parquet(dataset, raw, home=tmp_path, again=True) == first
        assert parsed

    whole = Path(first.path).read_bytes()
    sidecar = Path(first.path).with_suffix(".json")
    for damage in (
        lambda: Path(first.path).write_bytes(whole[:-1]),
        lambda: sidecar.write_text("{"),
        sidecar.unlink,
    ):
        damage()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert to_parquet(dataset, raw, home=tmp_path) == first
        assert "is damaged" in caplog.text
        assert Path(first.path).read_bytes() == whole


def test_a_damaged_or_missing_table_is_not_read(tmp_path, small):
    dataset, payload = small()
    ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    Path(ref.path).write_bytes(b"junk")
    with pytest.raises(CorruptTable, match=r"sha256 .*dpcost ingest housing --again"):
        read_table(ref)
    Path(ref.path).unlink()
    with pytest.raises(CorruptTable, match="dpcost ingest housing --again"):
        read_table(ref)


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [
        (3, f"x{SENTINEL}", "text in number column total_rooms"),
        (3, "", "blank or NaN in column total_rooms"),
        (3, "NaN", "blank or NaN in column total_rooms"),
        (0, "-inf", "infinity in column longitude"),
        (3, SENTINEL, "fraction in a whole-number column total_rooms"),
    ],
)
def test_a_bad_row_is_dropped_and_counted(tmp_path, small, caplog, field, text, reason):
    dataset, payload = small(replacing(7, field, text))
    with caplog.at_level(logging.WARNING):
        ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    assert (ref.n_rows, ref.rows_read, ref.repairs) == (299, 300, (Repair(reason, 1),))
    assert f"1 rows dropped ({reason}: 1)" in caplog.text
    assert SENTINEL not in caplog.text
    assert len(read_table(ref)) == 299


def every_row(field, text):
    def tamper(lines):
        for row in range(20):
            lines = replacing(row, field, text)(lines)
        return lines

    return tamper


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (every_row(3, f"x{SENTINEL}"), r"20 of 300 rows are unusable \(text in number column total_rooms"),
        (every_row(7, SENTINEL), "median_income outside its public bounds in 20 rows"),
        (replacing(4, 8, "600000"), "median_house_value outside its public bounds in 1 rows"),
        (lambda lines: [line.rsplit(",", 1)[0] for line in lines], "has 8 columns, 9 are expected"),
        (lambda lines: [f"{line},{SENTINEL}" for line in lines], "has 10 columns, 9 are expected"),
        (lambda lines: [*lines, f"{lines[0]},{SENTINEL}"], "rows with too many columns, 9 are expected"),
        (lambda lines: [], "has no rows"),
    ],
)
def test_bad_content_is_one_sentence_without_values(tmp_path, small, tamper, message):
    dataset, payload = small(tamper)
    with pytest.raises(CorruptSource, match=message) as caught:
        to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path / "home")
    assert SENTINEL not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table_sha256": "0" * 64}, "not the published one, its content digest differs"),
        ({"n_rows": 301}, "has 300 rows, 301 were published; get the file again$"),
    ],
)
def test_another_table_than_the_published_one_is_refused_and_its_file_stays(
    tmp_path, small, changes, message
):
    dataset, payload = small()
    raw_of(tmp_path, dataset, payload)
    raw = fetch(dataset, home=tmp_path / "home", mirror=tmp_path / "raw", offline=True)
    with pytest.raises(CorruptSource, match=message):
        to_parquet(replace(dataset, **changes), raw, home=tmp_path / "home")
    assert Path(raw.path).exists()


def test_a_missing_and_an_extra_column(tmp_path, small, monkeypatch):
    dataset, payload = small()
    raw = raw_of(tmp_path, dataset, payload)
    parse = housing.PARSERS["cal_housing_tgz"]
    monkeypatch.setitem(housing.PARSERS, "cal_housing_tgz", lambda p: parse(p).drop(columns="population"))
    with pytest.raises(CorruptSource, match="column 'population' is missing"):
        to_parquet(dataset, raw, home=tmp_path)
    monkeypatch.setitem(housing.PARSERS, "cal_housing_tgz", lambda p: parse(p).assign(extra=1))
    with pytest.raises(CorruptSource, match=r"10 columns.* 9"):
        to_parquet(dataset, raw, home=tmp_path)


@pytest.mark.parametrize(
    ("pack", "member", "message"),
    [
        ("", "", "truncated or damaged archive"),
        ("tgz", "other.txt", "holds no file cal_housing.data"),
    ],
)
def test_an_archive_that_is_damaged_or_lacks_its_file_is_refused(
    tmp_path, small, build, pack, member, message
):
    dataset, _ = small()
    payload = getattr(build, pack)("0" * 2**21, member=member) if pack else b"\x1f\x8b junk"
    with pytest.raises(CorruptSource, match=message):
        to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)


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


@pytest.mark.parametrize(("key", "shown"), [("'heigth'", " for 'heigth'"), ("path.read_bytes()[:20]", "")])
def test_a_parser_that_raises_is_named_with_its_line_and_a_key_of_its_own(
    key, shown, tmp_path, small, monkeypatch
):
    dataset, payload = small()
    file = tmp_path / "broken.py"
    file.write_text(f"def parse(path):\n    return {{}}[{key}]\n")
    spec = importlib.util.spec_from_file_location("broken", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(datasets, "load", lambda name: module)
    monkeypatch.setattr(datasets, "parser", lambda name, layout: module.parse)
    with pytest.raises(DataError, match=rf"^broken\.py, line 2: .* KeyError{shown};"):
        store_table(dataset, raw_of(tmp_path, dataset, payload), tmp_path / "x", np.random.default_rng(0))


def test_unknown_layout_and_unknown_parser_file(tmp_path, small):
    dataset, payload = small()
    raw = raw_of(tmp_path, dataset, payload)
    with pytest.raises(DataError, match="layout 'other'"):
        to_parquet(dataset, replace(raw, layout="other"), home=tmp_path)
    with pytest.raises(DataError, match=r"write data/datasets/nowhere\.py"):
        to_parquet(replace(dataset, name="nowhere"), raw, home=tmp_path)


def test_the_stand_in_has_the_same_schema_and_says_what_it_is(tmp_path):
    dataset = get_dataset("housing")
    raw = RawFile("housing", "", "", "", "", "stand-in", ("the mirror: not set",))
    ref = to_parquet(dataset, raw, home=tmp_path / "one")
    assert (ref.data_source, ref.origin, ref.reasons) == ("stand-in", "stand-in", raw.reasons)
    assert (ref.n_rows, ref.source_sha256) == (20_640, "")
    table = read_table(ref)
    assert tuple(table.columns) == dataset.column_names
    assert pq.read_schema(ref.path).metadata[b"dpcost.data_source"] == b"stand-in"
    assert to_parquet(dataset, raw, home=tmp_path / "two").sha256 == ref.sha256
    for column in dataset.columns:
        if column.scale is not None:
            assert abs(table[column.name].mean() - column.center) < column.scale
            assert 0.5 < table[column.name].std() / column.scale < 2


def test_numbers_are_read_exactly(tmp_path, small):
    dataset, payload = small(replacing(3, 0, "-118.12345678901234567"))
    ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    assert np.asarray(read_table(ref)["longitude"])[3] == -118.12345678901234567


TABLES = {"randhie": (20_190, 10), "fair": (6_366, 9)}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_statsmodels_are_brought_without_mirror_and_network(tmp_path, name):
    dataset = get_dataset(name)
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=True)
    ref = to_parquet(dataset, raw, home=tmp_path)
    assert (raw.origin, ref.data_source, ref.repairs) == ("official", "real", ())
    assert read_table(ref).shape == TABLES[name]
    assert fetch(dataset, home=tmp_path, mirror=None, offline=True).origin == "store"


@pytest.mark.parametrize("name", TABLES)
def test_stand_ins_keep_to_the_registered_columns_and_bounds(name):
    dataset = get_dataset(name)
    frame = datasets.load(name).stand_in(500, np.random.default_rng(0))
    table, repairs = with_registry_types(frame, dataset)
    check_bounds(table, dataset)
    assert not repairs


def test_an_affair_is_time_spent_in_affairs_above_zero(tmp_path):
    path = tmp_path / "fair.csv"
    path.write_text("rate_marriage,affairs\n3,0.1111\n4,0\n")
    assert datasets.load("fair").PARSERS["csv"](path).to_dict("list") == {
        "rate_marriage": [3, 4],
        "affair": [1, 0],
    }


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("package://no_such_package/a.csv", Unreachable, "the installed package has no such file"),
        ("package://statsmodels/no_such_file.csv", Unreachable, "the installed package has no such file"),
        (get_dataset("fair").source.url, CorruptSource, "another file than the published one"),
    ],
)
def test_a_packaged_file_that_is_missing_or_another_is_refused(tmp_path, url, error, message):
    dataset = get_dataset("fair")
    other = replace(dataset, source=replace(dataset.source, url=url, sha256="0" * 64))
    with pytest.raises(error, match=message):
        fetch(other, home=tmp_path, mirror=None, offline=True)
