"""What every registered dataset must keep: its file and its parsers."""

import os
from pathlib import Path

import pytest

from data import datasets
from data.datasets import get_dataset, load_registry
from data.errors import DataError
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch

NAMES = sorted(load_registry())
OF_FILES = {path.stem for path in Path(datasets.__file__).parent.glob("*.py")}  # not of a collection
TABLES = [name for name in NAMES if get_dataset(name).kind == "table"]


def test_no_dataset_is_left_out(caplog):
    assert sorted(load_registry()) == NAMES
    assert not caplog.records


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_has_a_parser_and_every_parser_a_layout(name):
    assert callable(datasets.parser(name, get_dataset(name).source.layout))
    with pytest.raises(DataError, match="no_such_layout"):
        datasets.parser(name, "no_such_layout")


@pytest.mark.parametrize("name", [name for name in TABLES if name in OF_FILES])
def test_the_parser_reads_the_file_where_it_is_at_hand(name, tmp_path):
    mirror = os.environ.get("DPCOST_DATA_MIRROR")
    try:
        raw = fetch(get_dataset(name), home=tmp_path, mirror=Path(mirror) if mirror else None, offline=True)
    except DataError:
        pytest.skip("neither an installed package nor the mirror has its file")
    assert to_parquet(get_dataset(name), raw, home=tmp_path).data_source == "real"
