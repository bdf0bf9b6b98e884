"""An analyst's tables, users and requests to the ledger that are refused: an input is one line, a cell never shown."""

import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data.columns import Declaration, Marks
from data.errors import DataError, LedgerError, LedgerUnavailable, StoreError
from data.ledger import Charge, Ledger, Question
from data.ledger.key import load_keys
from data.store.folders import atomic_write
from data.store.shared import check_shared_store
from data.tables.declared import read_declared
from data.tables.schema import table_schema
from data.tables.stored import declared_to_parquet
from tests.builders import declared_column, load_numbers, refusals, refused, words
from tests.data.ledger.charging import COST, charged
from tests.data.ledger.test_content import fingerprint

SECRET = "123456.789"
TABLES = tomllib.loads(Path(__file__).with_name("files.toml").read_text())
FILES = [
    *((content, tuple(named)) for content, *named in TABLES["files"]),
    ('x,"y\n' + "1,2\n" * 40_000, "well-formed .csv"),
    (b"x,y\n1,\xff\xfe\n", "well-formed .csv"),
    ("x,y\n1,2\n".encode("utf-16"), "UTF-8"),
    ("x,y\n1,2\n".encode("utf-16-le"), "UTF-8"),
]
AGE = declared_column("age", lower=0, upper=120)
REGION = declared_column("region", categories=("north", "2", "west"))
SEVEN = tuple(declared_column(f"x{j}") for j in range(7))
# A table, its declared columns, and what the sentence names; of the rows at fault it says neither value nor number
DECLARED = [*((text, (REGION, AGE), named) for text, *named in TABLES["declared"])]
DECLARED += [(",".join(f"x{j}" for j in range(7)) + "\n" + 3 * "5,5,5,5,5,5,5\n", SEVEN, ("'x4'", "2 more"))]
CELLS = ("east,", "131", "old,", " 1 ", " 2 ", " of 3")


def written(folder, content):
    path = folder / "mine.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(("content", "named"), FILES)
def test_a_faulty_file_is_refused_without_its_cells(tmp_path, content, named):
    file = written(tmp_path, content)
    refused(lambda: load_numbers(file, ["x", "y"]), DataError, *words(named), hidden=(SECRET,))


@pytest.mark.parametrize("blank", ["\n", "  \n", '""\n'])
def test_a_blank_line_of_a_file_with_one_column_is_a_missing_cell(tmp_path, blank):
    refused(
        lambda: load_numbers(written(tmp_path, f"x\n1\n{blank}2\n"), ["x"]), DataError, "blank", "column x"
    )


@pytest.mark.parametrize(("text", "marks"), TABLES["unclear"])
def test_numbers_whose_marks_are_not_clear_are_refused_with_what_to_declare(tmp_path, text, marks):
    column = declared_column("x", lower=-1e6, upper=1e6)
    declaration = Declaration(columns=(column,), marks=Marks(**marks), missing="refuse", n_rows=None)
    file = written(tmp_path, text)
    calls = [lambda: read_declared(file, declaration)]
    for call in calls + ([] if marks else [lambda: table_schema(file), lambda: load_numbers(file, ["x"])]):
        with pytest.raises(DataError, match=r"(?s)decimal.*thousands") as caught:
            call()
        assert "1234" not in str(caught.value).replace(",", "").replace(".", "")


@pytest.mark.parametrize(("text", "columns", "named"), DECLARED)
def test_what_is_not_as_declared_is_refused_without_a_value(tmp_path, text, columns, named):
    declaration = Declaration(columns=columns, missing="refuse", n_rows=3)
    use = lambda: declared_to_parquet("mine", written(tmp_path, text), declaration, home=tmp_path)  # noqa: E731
    said = refused(use, DataError, *named)
    assert not [cell for cell in CELLS if cell in said.split("mine.csv")[1].replace("2 more", "")]


def question(**changes):
    usual = {"dataset": "patients", "content": "2-a", "estimator": "dp_mean", "parameters": {}}
    return Question(**{**usual, "epsilon": 0.3, "delta": 1e-6, **changes})


def ledger_of(folder):
    ledger = Ledger(folder)
    ledger.open_dataset("patients", 1.0, 1e-5)
    return ledger


def answered(folder, answer):
    ledger = ledger_of(folder)
    return ledger.store(charged(ledger, question(), COST, lambda *_: None), answer)


def made(folder, name, text=None, mode=0o600):
    """Write a file, or make a folder; return the folder around it."""
    (folder / name).mkdir() if text is None else (folder / name).write_text(text)
    (folder / name).chmod(0o700 if text is None else mode)
    return folder


def stored_at(address):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCOST_STORE", address)
        check_shared_store()


HEX = "ab" * 32
REQUESTS = [
    (DataError, "none.csv", lambda at: load_numbers(at / "none.csv", ["x"])),
    (DataError, "'.xlsx'", lambda at: load_numbers(at / "mine.xlsx", ["x"])),
    (DataError, "file", lambda at: load_numbers(made(at, "folder.csv") / "folder.csv", ["x"])),
    (DataError, "well-formed .parquet", lambda at: load_numbers(made(at, "mine.parquet", SECRET) / "mine.parquet", ["x"])),
    (StoreError, "folder", lambda at: atomic_write(made(at, "a", "") / "a" / "b", b"")),
    (LedgerError, "0 rows", lambda at: fingerprint(pa.table({"x": []}))),
    (LedgerError, "one of each", lambda at: fingerprint(pa.table({}))),
    (LedgerError, "names", lambda at: fingerprint(pa.table([[1.0], [2.0]], names=["x", "x"]))),
    (LedgerError, "'x'", lambda at: fingerprint(pa.table({"x": [[1], [2]]}))),
    (StoreError, "'/a/folder'", lambda at: stored_at("/a/folder")),
    (StoreError, "DPCOST_STORE=nowhere://a", lambda at: stored_at("nowhere://a")),
    (StoreError, "folder", lambda at: stored_at("file:///proc/version/store")),
    *[(LedgerError, ("epsilon", repr(e)), lambda at, e=e: question(epsilon=e)) for e in (0, float("inf"), "1", True)],
    (LedgerError, ("epsilon", "nan"), lambda at: question(epsilon=float("nan"))),
    *[(LedgerError, ("delta", f"{d:g}"), lambda at, d=d: question(delta=d)) for d in (1, -1e-9)],
    *[(LedgerError, "dataset", lambda at, name=name: question(dataset=name)) for name in (" a", "", "a\u200bb")],
    (LedgerError, "parameters", lambda at: question(parameters={"a": [1, float("nan")]})),
    (LedgerError, ("parameters", "tolist"), lambda at: question(parameters={"X": np.ones(2)})),
    (LedgerError, "question", lambda at: ledger_of(at).store(Charge(question(), 1, COST, ""), {})),
    (LedgerError, "answer", lambda at: answered(at, {"estimate": float("inf")})),
    (LedgerError, "answer", lambda at: answered(at, {"estimate": np.array([float(SECRET)])})),
    (LedgerError, ("644", "chmod 600"), lambda at: load_keys(made(at, "ledger.key", HEX, 0o644), create=True)),
    (LedgerError, "damaged", lambda at: load_keys(made(at, "ledger.key", HEX[2:]), create=True)),
    (LedgerError, "damaged", lambda at: load_keys(made(at, "ledger.key", "zz" * 32), create=True)),
    (LedgerUnavailable, "SQLITE_CANTOPEN", lambda at: Ledger(made(at, "ledger.sqlite")).open_dataset("a", 1, 0)),
    (LedgerUnavailable, "created", lambda at: Ledger(made(at, "file", "") / "file").open_dataset("a", 1, 0)),
    (LedgerError, ("DPCOST_LEDGER_URL", "'mysql'"), lambda at: Ledger(at, "mysql://me:pass@host/x")),
    (LedgerError, "DPCOST_LEDGER_URL", lambda at: Ledger(at, "me:pass@host")),
    (LedgerError, "DPCOST_LEDGER_URL", lambda at: Ledger(at, "postgresql://me:pass@host:many/books")),
]  # fmt: skip


@refusals(REQUESTS)
def test_a_file_or_a_request_is_refused_by_name(tmp_path, error, named, use):
    refused(lambda: use(tmp_path), error, *words(named), hidden=(SECRET, "pass@"))
