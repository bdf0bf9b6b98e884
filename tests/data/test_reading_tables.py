from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.errors import DataError
from data.tables.reading import PartitionedTable, load_numbers


def csv(folder, text):
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def test_csv_and_parquet_give_the_same_table(tmp_path):
    frame = pd.DataFrame({"who": ["ann", "bob"], "x": [0.1, 2.0], "n": [1, 2], "unused": ["a", None]})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.set_index("n", drop=False).to_parquet(tmp_path / "mine.parquet")
    for name in ("mine.csv", "mine.parquet"):
        table = load_numbers(tmp_path / name, ["x", "n"])
        assert list(table.columns) == ["x", "n"]
        assert table["x"].tolist() == [0.1, 2.0]
        assert table["n"].dtype == np.float64


def test_without_names_every_column_must_be_numbers(tmp_path):
    assert load_numbers(csv(tmp_path, "a,b\n1,2\n")).to_dict("list") == {"a": [1.0], "b": [2.0]}
    with pytest.raises(DataError, match="column number 2"):
        load_numbers(csv(tmp_path, "a,b\n1,x\n"))


@pytest.mark.parametrize(
    "text",
    [
        'x,"y, or\nz"\n1.5,-2\n.25,3e2\n',
        '\ufeffx;"y, or\nz"\n1,5;-2\n,25; 3,0e2\n',
        'x;"y, or\nz"\n1.5;-2\n0.25;300\n',
        'x\t"y, or\nz"\n1.5\t-2\n0.25\t300\n',
    ],
)
def test_the_header_says_what_separates_cells(tmp_path, text):
    found = load_numbers(csv(tmp_path, text)).to_dict("list")
    assert found == {"x": [1.5, 0.25], "y, or\nz": [-2.0, 300.0]}


def test_commas_stay_where_no_decimal_point_is_meant(tmp_path):
    file = csv(tmp_path, "who;x\n1,2 and 3;4,5\n1.000,5;6\n")
    seen: list[pa.RecordBatch] = []
    load_numbers(file, ["x"], watch=seen.append)
    assert seen[0].column("who").to_pylist() == ["1,2 and 3", "1.000,5"]


def test_the_file_is_opened_once_and_shown_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("data.tables.reading.BLOCK_BYTES", 200)
    monkeypatch.setattr("data.tables.reading.BATCH_ROWS", 7)
    frame = pd.DataFrame({"x": np.arange(100.0), "who": ["ann, or\nbob"] * 100})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.to_parquet(tmp_path / "mine.parquet")
    seen: list[pa.RecordBatch] = []
    opened, real = [], Path.open
    monkeypatch.setattr(Path, "open", lambda path, *mode: opened.append(path) or real(path, *mode))
    for name in ("mine.csv", "mine.parquet"):
        opened.clear()
        seen.clear()
        table = load_numbers(tmp_path / name, ["x"], watch=seen.append)
        assert opened == [tmp_path / name]
        assert len(seen) > 5
        assert sum(batch.num_rows for batch in seen) == 100
        assert table["x"].tolist() == frame["x"].tolist()


def test_parts_without_rows_are_parts_of_a_folder(tmp_path):
    for k, rows in enumerate(([], [1.0, 2.0], [])):
        pq.write_table(pa.table({"x": pa.array(rows, pa.float64())}), tmp_path / f"part-{k}.parquet")
    table = PartitionedTable(tmp_path, ["x"])
    table.check(lambda _: None)
    assert [n for _, n in table.partitions] == [2]
    (tmp_path / "part-1.parquet").unlink()
    with pytest.raises(DataError, match="no rows"):
        PartitionedTable(tmp_path, ["x"]).check(lambda _: None)
