"""Tables that an installed package brings along: they need neither mirror nor network."""

from dataclasses import replace

import numpy as np
import pytest

from data import datasets
from data.datasets import get_dataset
from data.errors import CorruptSource, Unreachable
from data.fetch.ingest import to_parquet
from data.fetch.raw_files import fetch
from data.fetch.tables import check_bounds, typed
from data.store.references import read_table

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
    table, repairs = typed(frame, dataset)
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
        (get_dataset("fair").sources[0].url, CorruptSource, "another file: its sha256 begins fd5f3f09"),
    ],
)
def test_a_packaged_file_that_is_missing_or_another_is_refused(tmp_path, url, error, message):
    dataset = get_dataset("fair")
    other = replace(dataset, sources=(replace(dataset.sources[0], url=url, sha256="0" * 64),))
    with pytest.raises(error, match=message):
        fetch(other, home=tmp_path, mirror=None, offline=True)
