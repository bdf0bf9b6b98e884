"""Tables of all sorts through `init` and a study: each runs or is refused in one sentence without a value."""

import ast
import re
import string
import tomllib

import numpy as np
import pandas as pd
import pytest

from tasks.errors import USER_ERRORS
from tests.tasks.analyst_tables import completed, computed, init_study

SECRET = 31337.625  # a number that only the data hold
WORDS = ("zebra-secret", "ω-secret", "secret, with a comma", 'a "secret" quotation')
ODD_NAMES = ("größe", "a b", "x.y", 'quo"te', "[x]", "back\\slash", "日本", "=1+1", "# no", "a\tb", "'")
SIZES = (1, 9, 10, 11, 40, 40, 200, 200, 200, 1000, 1000, 5000)


class Generated:
    def __init__(self, seed, n_rows=None, n_columns=None):
        rng = self.rng = np.random.default_rng(seed)
        self.family = None  # by chance, as the response is
        self.user_id = ""
        self.n = int(rng.choice(SIZES)) if n_rows is None else n_rows
        d = int(rng.choice((1, 2, 3, 4, 6, 12))) if n_columns is None else n_columns
        self.columns, self.bounds, self.categories, self.kinds = {}, {}, {}, {}
        for j in range(d):
            name = str(rng.choice(ODD_NAMES)) if rng.random() < 0.3 else f"c{j}"
            kind = rng.choice(("number", "whole", "truth", "text", "empty", "constant", "copy"), p=KINDS)
            if name not in self.columns:
                self._add(name, kind)
                self.kinds[name] = kind
        if rng.random() < 0.3:
            for cells in self.columns.values():
                cells[rng.random(self.n) < 0.02] = None

    def _add(self, name, kind):
        rng, n = self.rng, self.n
        self.bounds[name] = (-40_000, 40_000)
        if kind == "text":
            self.categories[name] = list(WORDS)
            cells = rng.choice(WORDS, n).astype(object)
        elif kind == "copy" and self.columns:
            other = str(rng.choice(list(self.columns)))
            cells = self.columns[other].copy()
            self.categories[name] = self.categories.get(other, [])
        else:
            low, high = (0, 1) if kind == "truth" else (-3, 3)
            self.bounds[name] = (low, high) if kind in ("whole", "truth") else (-40_000, 40_000)
            cells = {
                "whole": lambda: rng.integers(low, high + 1, n),
                "truth": lambda: rng.integers(0, 2, n),
                "empty": lambda: np.full(n, None),
                "constant": lambda: np.full(n, SECRET),
            }.get(kind, lambda: np.where(rng.random(n) < 0.1, SECRET, rng.normal(0, 5, n)))()
            cells = cells.astype(object)
        self.columns[name] = cells

    def add_users(self):
        """Add a column of ids, of which some may be missing or of another kind."""
        self.user_id = "who"
        ids = self.rng.integers(0, max(2, self.n // 3), self.n)
        named = self.rng.random() < 0.5
        cells = np.array([f"secret-{each}" if named else int(each) for each in ids], dtype=object)
        if self.rng.random() < 0.3:
            cells[self.rng.integers(self.n)] = self.rng.choice([None, "secret-x", "7.5"])
        self.columns["who"] = cells

    def response(self):
        if self.user_id:
            numbers = [name for name, each in self.kinds.items() if each == "number"]
            return str(self.rng.choice(["", *numbers])), ""
        if self.family is not None:
            return next(name for name, each in self.kinds.items() if each == "number"), self.family
        if self.rng.random() < 0.25:
            return "", ""
        family = str(self.rng.choice(("", "", "linear", "logistic", "poisson")))
        return str(self.rng.choice(list(self.columns))), family


KINDS = (0.4, 0.2, 0.15, 0.13, 0.04, 0.04, 0.04)


def computed_when_mended(file, folder, n_columns):
    """Compute a study, after mending what the sentences say as an owner would; return its results."""
    for _ in range(n_columns + 1):
        try:
            return computed(file, folder)[2]
        except USER_ERRORS as refused:
            head, *blocks = file.read_text().split("[[data.columns]]\n")
            if constant := re.search(r"^mine has columns that are constant: (.+); leave them", str(refused)):
                named = ast.literal_eval(f"[{constant[1]}]")
                names = [name.rpartition("=")[0] or name for name in named]
                kept = [each for each in blocks if tomllib.loads(each.splitlines()[0])["name"] not in names]
                if len(kept) == len(blocks) or blocks[-1] not in kept:  # the last one holds the rest
                    raise
                text = "[[data.columns]]\n".join([head, *kept])
            else:
                raise
            file.write_text(text)
    raise AssertionError("a study that is mended as its sentences say must run")


def outcome(table, folder):
    """Return what became of a table: the statuses of its study's cells, or why it was refused."""
    path = folder / f"table.{table.rng.choice(['csv', 'parquet'])}"
    frame = pd.DataFrame(table.columns).infer_objects()
    if table.user_id:
        frame["who"] = frame["who"].astype("string")
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    response, family = table.response()
    try:
        options = {"response": response, "family": family, "user_id": table.user_id}
        init_study("mine", path, folder=folder, **options)
        written = (folder / "mine.toml").read_text() + (folder / "mine-release.toml").read_text()
        assert [each for each in ("secret", "31337") if each in written] == []
        file = completed(folder / "mine.toml", table.bounds, table.categories)
        if table.rng.random() < 0.8:
            file.write_text(file.read_text().replace('missing = "refuse"', 'missing = "drop"'))
        results = computed_when_mended(file, folder, len(table.columns))
    except USER_ERRORS as refused:
        return {str(refused)}
    rows = pd.read_parquet(results.path)
    assert not set(rows["status"]) - {"ok", "refused"}, set(rows["message"])
    return set(rows["status"]) | set(rows["message"])


# A seed, the numbers of rows and columns, None by chance, and whether the table has users
TABLES = [pytest.param(seed, (9, 12, 40, 120)[seed % 4], 1 + seed % 5, False) for seed in range(8)]
TABLES += [pytest.param(seed, None, None, False, marks=pytest.mark.slow) for seed in range(100, 116)]
OF_USERS = ((seed, (9, 40, 200, 1000)[seed % 4], 2 + seed % 3, True) for seed in range(200, 206))
TABLES += [pytest.param(*table, marks=pytest.mark.slow) for table in OF_USERS]


@pytest.mark.parametrize(("seed", "n_rows", "n_columns", "has_users"), TABLES)
def test_a_table_runs_or_is_refused_in_one_sentence(seed, n_rows, n_columns, has_users, tmp_path, home):
    table = Generated(seed, n_rows, n_columns)
    if has_users:
        table.add_users()
    for sentence in outcome(table, tmp_path):
        assert [each for each in ("\n", "secret", "31337") if each in sentence] == []
        assert set(sentence) - set(string.whitespace) or not sentence
