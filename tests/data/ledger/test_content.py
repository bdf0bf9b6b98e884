import datetime as dt
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import LedgerBroken
from data.formats.canonical import canonical_cells
from data.ledger import Ledger
from data.ledger.content import Fingerprinter
from data.ledger.key import load_keys
from tests.builders import load_numbers, refused

KEY = b"k" * 32


def fingerprint(table, rows_at_once=1000):
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    reader = Fingerprinter(KEY)
    for batch in table.to_batches(rows_at_once):
        reader.add(batch)
    return reader.fingerprint()


def of_file(path):
    reader = Fingerprinter(KEY)
    load_numbers(path, ["x"], watch=reader.add)
    return reader.fingerprint()


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=50), "n": rng.integers(0, 9, size=50)}
    return pd.DataFrame({**columns, "name": [f"p{i % 7}" for i in range(50)], "gap": [None, 1.5] * 25})


@pytest.fixture
def mixed():
    """Every kind of column that a table is likely to have, with gaps."""
    rng = np.random.default_rng(1)
    days = pd.date_range("2024-01-01", periods=40, freq="31h")
    x, single, tiny, huge = rng.normal(size=(4, 40))
    table = pd.DataFrame({"x": x, "single": single.astype(np.float32), "tiny": tiny * 1e-300})
    table["huge"] = (huge * 1e20).astype(np.float32)
    table["count"] = pd.array([*range(38), None, 2**53], dtype="Int64")
    table = table.assign(code=[f"{i:03d}" for i in range(39)] + [None], empty=["", "a"] * 20)
    table["flag"] = pd.array([True, False, None, True] * 10, dtype="boolean")
    table = table.assign(day=days.normalize(), when=days + pd.Timedelta("123456us"))
    table = table.assign(zone=days.tz_localize("Europe/Berlin"), date=[day.date() for day in days])
    table = table.assign(time=[dt.time(7, i) for i in range(40)], lasts=pd.to_timedelta(np.arange(40), "h"))
    table["price"] = [Decimal(i) / 4 for i in range(40)]
    table["kind"] = pd.Categorical(["low", "high"] * 20)
    texts = {"said": ['a "quoted", text', "over\ntwo lines"] * 20, "umlaut": ["\u00fc", "u\u0308"] * 20}
    return table.assign(**texts)


def test_rows_columns_index_and_types_may_move(frame):
    known = fingerprint(frame)
    shuffled = frame.sample(frac=1, random_state=1)
    assert fingerprint(shuffled) == known
    for same in (
        frame[["name", "gap", "n", "x"]],
        frame.set_index(np.arange(50) * 2),
        frame.astype({"n": float, "name": "category"}),
        frame.astype({"n": "Int64", "gap": "Float64", "name": object}),
        frame.astype({"x": np.float32, "n": np.int8}),
        frame.astype({"n": str, "gap": object}),
    ):
        assert fingerprint(same) == known


def test_a_table_has_one_content_in_every_file(mixed, tmp_path):
    """CSV by pandas and Arrow; Parquet with all types, with those that pandas guesses, and of text only."""
    table = pa.Table.from_pandas(mixed, preserve_index=False)
    mixed.to_csv(tmp_path / "pandas.csv", index=False)
    timed = mixed.drop(columns="lasts")  # Arrow writes no durations
    arrow_csv.write_csv(pa.Table.from_pandas(timed, preserve_index=False), tmp_path / "arrow.csv")
    pq.write_table(table, tmp_path / "types.parquet", row_group_size=7)
    pd.read_csv(tmp_path / "pandas.csv").to_parquet(tmp_path / "guessed.parquet")
    pd.read_csv(tmp_path / "pandas.csv").to_csv(tmp_path / "guessed.csv", index=False)
    text = pd.read_csv(tmp_path / "pandas.csv", dtype=str, keep_default_na=False)
    text.to_parquet(tmp_path / "text.parquet")
    mixed.astype({"x": np.float32, "tiny": np.longdouble}).to_csv(tmp_path / "single.csv", index=False)
    known = fingerprint(table)
    assert fingerprint(table, rows_at_once=3) == known
    for path in {*tmp_path.iterdir()} - {tmp_path / "arrow.csv"}:
        assert of_file(path) == known, path
    assert of_file(tmp_path / "arrow.csv") == fingerprint(timed)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.iloc[1:],
        lambda frame: pd.concat([frame, frame.iloc[:1]]),
        lambda frame: frame.drop(columns="n"),
        lambda frame: frame.rename(columns={"x": "z"}),
        lambda frame: frame.rename(columns={"x": "gap", "gap": "x"}),
        lambda frame: frame.assign(x=frame["x"].where(frame.index != 7, frame["x"] * (1 + 2e-7))),
        lambda frame: frame.assign(name=frame["name"].where(frame.index != 7, None)),
        lambda frame: frame.assign(x=frame["x"].to_numpy()[::-1]),
        lambda frame: frame.assign(gap=frame["gap"].fillna(0)),
        lambda frame: frame.assign(n=frame["n"] + 2**52),
        lambda frame: frame.assign(name=frame["name"].str.upper()),
    ],
)
def test_other_content_is_told_apart(frame, change):
    assert fingerprint(change(frame)) != fingerprint(frame)


def test_without_the_key_a_guess_cannot_be_tested(tmp_path):
    def known(home):
        Ledger(home).open_dataset("patients", 1.0, 1e-5)
        reader = Ledger(home).fingerprinter({})
        reader.add(pa.record_batch({"x": [1.0]}))
        return reader.fingerprint()

    assert known(tmp_path / "a") != known(tmp_path / "b")
    assert known(tmp_path / "a") == known(tmp_path / "a")


def test_threads_that_open_a_ledger_at_once_share_one_key(tmp_path):
    home = tmp_path / "h"
    threads = [threading.Thread(target=Ledger(home).open_dataset, args=(f"{k}", 1.0, 0.0)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Ledger(home).verify().n_datasets == 8
    text = (home / "ledger.key").read_text().splitlines()[0]
    assert len(text) == 64
    assert text not in repr(load_keys(home, create=False).id)


def test_key_and_ledger_are_private(tmp_path):
    before = os.umask(0)
    try:
        Ledger(tmp_path).open_dataset("patients", 1.0, 1e-5)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"ledger.key": 0o600, "ledger.sqlite": 0o600}
    (tmp_path / "ledger.sqlite").chmod(0o664)
    Ledger(tmp_path).open_dataset("others", 1.0, 1e-5)
    assert stat.S_IMODE((tmp_path / "ledger.sqlite").stat().st_mode) == 0o600


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_key_without_its_ledger_is_refused_in_words(tmp_path, lose):
    Ledger(tmp_path).open_dataset("patients", 1.0, 1e-5)
    lose(tmp_path / "ledger.sqlite")
    ledger = Ledger(tmp_path)
    for use in (ledger.show, lambda: ledger.open_dataset("patients", 9.0, 1e-5), lambda: ledger.account("a")):
        refused(use, LedgerBroken, "ledger.key ", "ledger.sqlite")
    report = ledger.verify()
    assert not report.ok
    assert "deleted, emptied or moved" in report.problems[0]
    (tmp_path / "ledger.key").unlink()
    assert ledger.verify().ok


def test_a_key_that_no_ledger_was_written_with_is_fine(tmp_path):
    """As after a kill between the key and the ledger's first commit."""
    load_keys(tmp_path, create=True)
    assert Ledger(tmp_path).verify().ok
    assert Ledger(tmp_path).open_dataset("patients", 1.0, 1e-5).epsilon == 1.0


CELLS = ["1", "1.", ".5", "+1", "-0", "007", "1e5", "1E-400", "1e400", "inf", "-Infinity", "nan", "-nan"]
CELLS += ["nan(ind)", "0x10", "1_0", " 1", "1 ", "1d", ".", "", " ", "NA", "true", "2024-01-31", "a"]
CELLS += ["9" * 20, None]


@given(st.lists(st.sampled_from(CELLS), max_size=4), st.sampled_from([pa.string(), pa.large_string()]))
def test_cells_of_a_column_of_numbers_are_those_they_are_next_to_text(cells, kind):
    alone, mixed = (canonical_cells(pa.array([*cells, *more], kind)) for more in ([], ["text"]))
    np.testing.assert_array_equal(alone.numbers, mixed.numbers[: len(cells)])
    np.testing.assert_array_equal(np.signbit(alone.numbers), np.signbit(mixed.numbers[: len(cells)]))
    texts = ([None if k < 0 else each.values[k] for k in each.texts[: len(cells)]] for each in (alone, mixed))
    assert next(texts) == next(texts)
