import stat
import threading

import numpy as np
import pandas as pd
import pytest

from data.ledger import Ledger, LedgerError, content, fingerprint
from data.ledger.secret import load_keys

KEY = b"k" * 32


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=50),
            "n": rng.integers(0, 9, size=50),
            "name": [f"p{i % 7}" for i in range(50)],
            "gap": [None, 1.5] * 25,
        }
    )


def test_rows_columns_index_and_types_may_move(frame):
    known = fingerprint(frame, KEY)
    shuffled = frame.sample(frac=1, random_state=1)
    assert fingerprint(shuffled, KEY).content == known.content
    assert fingerprint(shuffled, KEY).order != known.order
    for same in (
        frame[["name", "gap", "n", "x"]],
        frame.set_index(np.arange(50) * 2),
        frame.astype({"n": float, "name": "category"}),
        frame.astype({"n": "Int64", "gap": "Float64", "name": object}),
    ):
        assert fingerprint(same, KEY) == known


def test_a_csv_and_a_parquet_file_agree(frame, tmp_path):
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    found = {
        fingerprint(pd.read_csv(tmp_path / "a.csv"), KEY),
        fingerprint(pd.read_parquet(tmp_path / "a.parquet"), KEY),
    }
    assert found == {fingerprint(frame, KEY)}


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.iloc[1:],
        lambda frame: pd.concat([frame, frame.iloc[:1]]),
        lambda frame: frame.drop(columns="n"),
        lambda frame: frame.rename(columns={"x": "z"}),
        lambda frame: frame.rename(columns={"x": "gap", "gap": "x"}),
        lambda frame: frame.assign(x=frame["x"].where(frame.index != 7, np.nextafter(frame["x"], 9))),
        lambda frame: frame.assign(name=frame["name"].where(frame.index != 7, None)),
        lambda frame: frame.assign(x=frame["x"].to_numpy()[::-1]),
        lambda frame: frame.assign(gap=frame["gap"].fillna(0)),
    ],
)
def test_other_content_is_told_apart(frame, change):
    assert fingerprint(change(frame), KEY).content != fingerprint(frame, KEY).content


def test_values_that_look_alike_are_told_apart():
    looks = [["1", "a"], [1, "a"], [None, "a"], ["None", "a"], ["nan", "a"], [2**60, "a"], [2**60 + 1, "a"]]
    found = {fingerprint(pd.DataFrame({"v": pd.Series(each, dtype=object)}), KEY) for each in looks}
    assert len(found) == len(looks)
    big = [fingerprint(pd.DataFrame({"v": [2**60 + i]}), KEY) for i in range(2)]
    assert big[0] != big[1]


def test_zeros_and_missing_numbers_have_one_form():
    plain = fingerprint(pd.DataFrame({"v": [0.0, np.nan]}), KEY)
    odd = np.array([0x8000000000000000, 0xFFF8000000000001], dtype=np.uint64).view(float)
    assert fingerprint(pd.DataFrame({"v": odd}), KEY) == plain


def test_a_large_table_is_read_in_chunks(frame, monkeypatch):
    whole = fingerprint(frame, KEY)
    monkeypatch.setattr(content, "CHUNK_BYTES", 100)
    assert fingerprint(frame, KEY) == whole


def test_without_the_key_a_guess_cannot_be_tested(frame, tmp_path):
    first, second = Ledger(tmp_path / "a"), Ledger(tmp_path / "b")
    assert first.fingerprint(frame).content != second.fingerprint(frame).content
    assert first.fingerprint(frame) == Ledger(tmp_path / "a").fingerprint(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"x": []}), r"has shape \(0, 1\) and needs a row and a column"),
        (pd.DataFrame(index=[0]), "needs a row and a column"),
        (pd.DataFrame(np.ones((1, 2)), columns=["x", "x"]), "must have different names"),
        (pd.DataFrame({1: [1.0]}), "must have different names that are text"),
        (pd.DataFrame({"x": [[1], [2]]}), "column 'x' holds lists"),
    ],
)
def test_a_table_that_cannot_be_compared_is_refused(frame, message):
    with pytest.raises(LedgerError, match=message):
        fingerprint(frame, KEY)


def test_the_key_is_private_and_made_once(tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(load_keys(tmp_path / "h", create=True)))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    key = tmp_path / "h" / "ledger.key"
    assert [path.name for path in key.parent.iterdir()] == ["ledger.key"]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().strip() not in repr(found[0].id)


@pytest.mark.parametrize(
    ("mode", "text", "message"),
    [
        (0o644, "ab" * 32, "has mode 644 and must be 600.*chmod 600"),
        (0o600, "ab" * 31, "is damaged"),
        (0o600, "zz" * 32, "is damaged"),
    ],
)
def test_a_bad_key_is_one_sentence(tmp_path, mode, text, message):
    key = tmp_path / "ledger.key"
    key.write_text(text)
    key.chmod(mode)
    with pytest.raises(LedgerError, match=message):
        load_keys(tmp_path, create=True)
