"""What others reported about their software, tried on ours: one line each, with minimal inputs of our own.

A line holds the source, the defect in a few words, what is tried, and what is right: computed by numpy, statsmodels or
PLINK's definition, or REFUSED where the input cannot be read in one way only.
"""

import datetime as dt
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import dpalgos
import dpalgos.formula as private
from data.columns import Declaration, Marks
from data.errors import DataError
from data.formats.canonical import CanonicalBatch
from data.formats.plink import read_plink
from data.ledger.content import Fingerprinter
from data.tables.declared import UserIds, count_users, read_declared
from data.tables.reading import opened_table
from data.tables.schema import table_schema
from dpalgos.errors import InputError
from dpalgos.formula.columns import NumberColumn
from dpalgos.formula.design import design_of
from dpalgos.rows.units import user_codes
from dpalgos.sklearn import DPLinearRegression, DPLogisticRegression, DPMean, DPPoissonRegressor
from tests.builders import declared_column, load_numbers
from tests.outside.pipelines import PIPELINES

REFUSED = DataError, InputError
OURS = "a reviewer of this project"


@dataclass(frozen=True)
class Report:
    source: str
    defect: str
    tried: Any
    right: Any


# Tables: what is read of a file


def file_of(content, name="mine.csv"):
    path = Path(tempfile.mkdtemp()) / name
    if isinstance(content, pa.Table):
        pq.write_table(content, path.with_suffix(".parquet"), use_deprecated_int96_timestamps=True)
        return path.with_suffix(".parquet")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def numbers(content, column="x"):
    return load_numbers(file_of(content), [column])[column].tolist()


def declared(content, column="x", missing=(), **marks):
    known = declared_column(column, lower=-1e9, upper=1e9, missing=missing)
    declaration = Declaration(columns=(known,), marks=Marks(**marks), missing="refuse", n_rows=None)
    return list(read_declared(file_of(content), declaration).table[column])


def levels(content, *categories, column="x", missing="refuse"):
    known = declared_column(column, categories=categories)
    declaration = Declaration(columns=(known,), missing=missing, n_rows=None)
    return list(read_declared(file_of(content), declaration).table[column])


def kinds(content, marks=None):
    return table_schema(file_of(content), *([] if marks is None else [marks])).types


def cells(content, column):
    with opened_table(file_of(content)) as (_, batches):
        return next(batches).column(column).to_pylist()


PLAIN, BOTH_COMMA, EUROPE = [512.5, 1234.0, 7.0], {"thousands": ","}, {"decimal": ",", "thousands": "."}
TABLES = [
    ("wireservice/csvkit#806", "the country code NA is a missing cell", lambda: levels("x,y\nNA,1\nNC,2\n", "NA", "NC"), [0, 1]),
    ("wireservice/csvkit#968", "the continent NA is a missing cell", lambda: levels("x,y\nEU,1\nNA,2\n", "NA", "EU"), [1, 0]),
    ("datasets/country-codes#38", "a quoted NA is a missing cell", lambda: levels('x,y\n"NA",1\n"NC",2\n', "NA", "NC"), [0, 1]),
    ("OasisLMF/OasisLMF#307", "a category None is a missing cell", lambda: levels("x,y\nNone,1\na,2\n", "None", "a"), [0, 1]),
    ("vincentarelbundock/countrycode#261", "NA of Parquet is a missing cell", lambda: levels(pa.table({"x": ["NA", "a"]}), "NA", "a"), [0, 1]),
    ("JGCRI/gcamdata#300", "a code n/a is a missing cell", lambda: levels("x,y\nn/a,1\nNA,2\n", "n/a", "NA"), [0, 1]),
    ("wireservice/csvkit#977", "codes lose their leading zeros", lambda: levels("x,y\n001,1\n010,2\n", "001", "010"), [0, 1]),
    ("apache/arrow#46853", "quoted codes lose their leading zeros", lambda: levels('x,y\n"001",1\n"002",2\n', "001", "002"), [0, 1]),
    ("molgenis/molgenis-service-armadillo#1027", "a code with zeros is another one", lambda: levels("x,y\n00501,1\n501,2\n", "00501", "7"), [0, 0]),
    ("turicas/rows#302", "a long number with zeros is a number", lambda: count_users(file_of("x,who\n1,09340192213\n2,9340192213\n"), "who"), 1),
    ("pola-rs/polars#18797", "a period between thousands is refused where it is declared", lambda: declared("x;y\n1.299,99;1\n2,5;2\n", **EUROPE), [1299.99, 2.5]),
    ("pandas-dev/pandas#59299", "a period that nobody declared is guessed", lambda: declared("x;y\n1,20;1\n1.234,56;2\n", decimal=","), REFUSED),
    ("pandas-dev/pandas#38420", "1,2,3 is a number where commas are decimal", lambda: declared("x;y\n1,2,3;1\n2;2\n", decimal=","), REFUSED),
    ("pandas-dev/pandas#38420", "1a.2,3 is a number", lambda: declared("x;y\n1a.2,3;1\n2;2\n", **EUROPE), REFUSED),
    ("pandas-dev/pandas#38420", "1.2,3 is twelve and three tenths", lambda: declared("x;y\n1.2,3;1\n2;2\n", **EUROPE), REFUSED),
    ("pandas-dev/pandas#8200", "5,5 is fifty-five", lambda: numbers("x;y\n5,5;1\n7,04;2\n"), [5.5, 7.04]),
    ("pandas-dev/pandas#4598", "thousands of floats are not read", lambda: declared("x;y\n2,334.01;1\n13;2\n", decimal=".", thousands=","), [2334.01, 13.0]),
    ("SheetJS/sheetjs#2236", "a file of decimal commas is one column", lambda: kinds("a;b\n1,5;2,5\n3,5;4,5\n"), {"a": "number", "b": "number"}),
    ("SheetJS/ssf#22", "a quoted number of thousands is cut in two", lambda: declared('x,y\n"2,590",1\n"1,683",2\n', **BOTH_COMMA), [2590.0, 1683.0]),
    ("tidyverse/readr#799", "thousands far down a column are guessed", lambda: numbers("x,y\n" + "1,1\n" * 2000 + '"1,234",1\n'), REFUSED),
    ("vizabi/vizabi#2547", "periods and commas in one column are guessed", lambda: numbers("x;y\n1.5;1\n2,5;2\n"), REFUSED),
    (OURS, "decimal commas of a file of semicolons", lambda: declared("x;y\n512,5;1\n1234;1\n7,0;1\n"), PLAIN),
    (OURS, "both marks are declared", lambda: declared("x;y\n512,5;1\n1.234;1\n7;1\n", **EUROPE), PLAIN),
    (OURS, "commas between thousands, in quotes", lambda: declared('x,y\n512.5,1\n"1,234.0",1\n7,1\n', **BOTH_COMMA), PLAIN),
    (OURS, "decimal commas in a file of tabs", lambda: declared("x\ty\n512,5\t1\n1.234,0\t1\n7\t1\n", **EUROPE), PLAIN),
    (OURS, "narrow blanks between thousands", lambda: declared("x;y\n512,5;1\n1\u202f234,0;1\n7;1\n", thousands=" "), PLAIN),
    (OURS, "apostrophes between thousands", lambda: declared("x;y\n512,5;1\n1'234;1\n7;1\n", thousands="'"), PLAIN),
    (OURS, "three decimals are taken for thousands", lambda: numbers("x;y\n0.9978;1\n1.001;2\n"), [0.9978, 1.001]),
    (OURS, "three decimals after a comma, too", lambda: numbers("x;y\n0,123;1\n1,234;2\n"), [0.123, 1.234]),
    (OURS, "addresses with periods are numbers", lambda: kinds("x,who\n1.5,192.168.100.200\n2,123 456\n", Marks("."))["who"], "text"),
    (OURS, "codes with blanks are numbers", lambda: levels('x,y\n110 001,1\n"1,234",2\n', "110 001", "1,234"), [0, 1]),
    (OURS, "the index that a data frame writes", lambda: numbers(",x,y\n0,1,2\n1,3,4\n"), [1.0, 3.0]),
    (OURS, "a mark of byte order before it", lambda: numbers("\ufeff,x,y\n0,1,2\n1,3,4\n"), [1.0, 3.0]),
    (OURS, "line breaks and separators in a header", lambda: numbers('x,"y, or\nz"\n1.5,-2\n.25,3e2\n', "y, or\nz"), [-2.0, 300.0]),
    (OURS, "moments before 1677 in Parquet overflow", lambda: cells(pa.table({"x": [dt.datetime(1500, 1, 1)]}), "x"), [dt.datetime(1500, 1, 1)]),
    (OURS, "markers such as -9 are numbers", lambda: declared("x,y\n1,1\n-9,2\n", missing=("-9",)), REFUSED),
]  # fmt: skip


# Contents and users: which cells are the same


def column(*values, kind=None):
    reader = Fingerprinter(b"k" * 32)
    for batch in pa.table({"v": pa.array(values, kind)}).to_batches():
        reader.add(batch)
    return reader.fingerprint()


def same(*columns):
    return len(set(columns)) == 1


def released(ids):
    known = UserIds(Path("visits.csv"), "person")
    known.add(CanonicalBatch(pa.RecordBatch.from_pydict({"person": pa.array(ids)})))
    return np.unique(known.codes()).size


def estimated(ids):
    return np.unique(user_codes(ids, len(ids))).size


SAME = [
    ("nao1215/filesql#379", "ids from 2^53 on are one user", lambda: released([2**53, 2**53 + 1]), REFUSED),
    ("pandas-dev/pandas#5260", "ids of 19 digits are rounded", lambda: released([1382016600011625872, 1382016600011617669]), REFUSED),
    ("pandas-dev/pandas#9300", "ids of 17 digits are rounded", lambda: estimated(np.array([95820843523155097, 95820843523155098])), 2),
    ("Rdatatable/data.table#19", "ids of 64 bits are grouped wrongly", lambda: estimated([9218868437227407266, 9218868437227307266]), 2),
    ("pandas-dev/pandas#6620", "large numbers as text are rounded", lambda: released(["24650000000000001", "24650000000000002"]), REFUSED),
    ("digicatapult/fornax#14", "ids of other digits stay apart", lambda: released([2**52, 2**52 + 1]), 2),
    (OURS, "one user in several notations", lambda: released(["7", "007", "7.0", "+7", " 7 "]), 1),
    (OURS, "a name in either form of Unicode", lambda: released(["é", "e\u0301", " é "]), 1),
    (OURS, "numbers mixed with text", lambda: released(["1", "ann"]), REFUSED),
    (OURS, "ids with fractions", lambda: estimated([1.5, 2.0]), REFUSED),
    (OURS, "a missing id", lambda: estimated(np.array([1.0, np.nan])), REFUSED),
    (OURS, "whole numbers of numpy in a list", lambda: estimated([np.int64(7), np.int32(7), np.uint8(9)]), 2),
    (OURS, "notations of a number", lambda: same(column("007"), column(7), column("7.0"), column(np.float16(7))), True),
    (OURS, "notations of a missing cell", lambda: same(column("", "a"), column(None, "a"), column(" NaN ", "a "), column("NULL", " a")), True),
    (OURS, "notations of a date", lambda: same(column("2024-01-05"), column(dt.date(2024, 1, 5)), column("2024-01-05T00:00:00.000Z")), True),
    (OURS, "a moment in two zones", lambda: same(column("2024-01-05 10:00+02:00"), column("2024-01-05T08:00:00Z")), True),
    (OURS, "truth values and ones", lambda: same(column(True, None), column("true", ""), column("True", "NA"), column(1, None)), True),
    (OURS, "zeros of either sign", lambda: same(column(0.0, np.nan), column(-0.0, None)), True),
    (OURS, "exponents", lambda: same(column("1e3", "1e-400"), column(1000, 0)), True),
    (OURS, "bytes and text", lambda: same(column(b"abc", b"\xff"), column("abc", "0xff")), True),
    *[(OURS, f"{text!r} is read as something else", lambda text=text: same(column(text, "a"), column("1", "a")), False) for text in ("1 2", "1_0", "0", "10", "2024-13-05", "12:30", "2024")],
]  # fmt: skip


# Formulas


RNG = np.random.default_rng(0)
X, Z, DAYS = RNG.uniform(0.5, 1, 3000), RNG.uniform(0.5, 1, 3000), RNG.uniform(1, 9, 3000)
COUNTS = RNG.poisson(DAYS * np.exp(0.5 * X))
FRAME = pd.DataFrame({"x": X, "z": Z, "days": DAYS, "counts": COUNTS})


def covariate(name, written=""):
    """Return a column of a design and its name, of a formula in which a column is quoted."""
    written = written or f"`{name}`"
    other = design_of(f"{written} ~ y + z", {each: NumberColumn(0.5, 1) for each in ("y", name, "z")})
    assert other.response.values({name: X, "z": Z, "y": Z}).tolist() == VALUES
    design = design_of(f"y ~ {written} + z", {each: NumberColumn(0.5, 1) for each in ("y", name, "z")})
    return design.terms[1], design.code.values({name: X, "z": Z, "y": X})[:, 1].tolist()


def by_q(name):
    return [covariate(name, written)[1] for written in ("", f"Q({name!r})")]


def counted(formula="counts ~ x + exposure(days)", frame=FRAME):
    bounds = {"x": (0.5, 1), "days": (1, 9), "counts": (0, 100)}
    return private.poisson(formula, frame, epsilon=1e6, delta=1e-9, bounds=bounds, random_state=0)


def plain_counts(frame=FRAME):
    return smf.poisson("counts ~ x", frame, offset=np.log(frame["days"])).fit(disp=0)


def predicted_rates():
    new = FRAME[:50].assign(days=FRAME["days"][:50] * 2 - 1)
    ours = counted().predict(new.assign(days=new["days"].clip(1, 9)))
    theirs = plain_counts().predict(new, offset=np.log(new["days"].clip(1, 9)))
    return float(np.abs(ours / theirs - 1).max()) < 0.05


VALUES = X.tolist()
NAMES = {
    "statsmodels/statsmodels#6200": "1B",
    "statsmodels/statsmodels#4783": "Sprout Length",
    "statsmodels/statsmodels#6669": "hello-there",
    "pydata/patsy#37": "test data",
    "pydata/patsy#15": "xè",
    "opengridcc/opengrid-dev#202": "primair+pv",
    "raphaelvallat/pingouin#107": "var.abc",
    "raphaelvallat/pingouin#169": "size-average",
    "cogstat/cogstat#136": "Q",
    "benmiroglio/pymatch#18": "Current Age",
}
ODD = ("1", "0", "-1", "2019", "pre-post", "log(b)", "C(g)", "a:b", "a+b", "a~b", ".", "%", "class", "True", "np", "I", "年齢", "ﬁ", 'a"b', "a\\b")  # fmt: skip
FORMULAS = [
    *[(source, f"a column called {name}", lambda name=name: covariate(name), (name, VALUES)) for source, name in NAMES.items()],
    ("pydata/patsy#113", "a quoted name keeps its quotes in the table", lambda: covariate("a b")[0], "a b"),
    *[(OURS, f"a column called {name}", lambda name=name: by_q(name), [VALUES, VALUES]) for name in ODD],
    ("statsmodels/statsmodels#3565", "predictions leave an exposure out", predicted_rates, True),
    ("statsmodels/statsmodels#175", "counts without an exposure are not predicted", lambda: len(counted("counts ~ x").predict(FRAME[:2])), 2),
    ("statsmodels/statsmodels#1486", "offsets and exposures exclude each other", lambda: np.allclose(counted("counts ~ x + offset(log(days) / 4) + offset(3 * log(days) / 4)").params, counted().params, rtol=1e-6), True),
    ("statsmodels/statsmodels#1611", "an exposure is ignored", lambda: np.abs(counted().params - plain_counts().params).max() < 0.1, True),
]  # fmt: skip


# Genotypes, by PLINK's definition: 00 two of the first allele, 01 missing, 10 one, 11 none


def plink(bits, snps, people, mode=b"\x01", encoding="utf-8"):
    files = [Path(tempfile.mkdtemp()) / f"set.{part}" for part in ("bed", "bim", "fam")]
    for file, content in zip(files, (b"\x6c\x1b" + mode + bytes(bits), snps, people), strict=True):
        file.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return read_plink(files[0], dict(zip(("bim", "fam"), files[1:], strict=True)))


def calls(bits, people=4, snps=1, mode=b"\x01"):
    of_snps = "".join(f"1\trs{j}\t0\t{j + 1}\tA\tC\n" for j in range(snps))
    found = plink(bits, of_snps, "".join(f"f{i} p{i} 0 0 1 2\n" for i in range(people)), mode)
    return found.calls.tolist()


def names(encoding, name):
    people = f"{name} 1 0 0 1 2\n2 {name} 0 0 1 2\n"
    found = plink(b"\x0e", f"1\t{name}\t0\t5\tA\tC\n", people, encoding=encoding)
    return found.families, found.people, list(found.snps["snp"])


MISSING = -1
GENOTYPES = [
    ("limix/pandas-plink#15", "two of the first allele are none", lambda: calls([0b11_10_01_00]), [[2, MISSING, 1, 0]]),
    ("OchoaLab/genio#14", "a missing call is a heterozygous one", lambda: calls([0b01_01_01_01 & 0b00_00_00_01], people=1), [[MISSING]]),
    ("privefl/bigsnpr#549", "alleles are swapped", lambda: calls([0b00_00_11_00], people=2), [[2, 0]]),
    ("chrchang/plink-ng#178", "a file by person is read as one by SNP", lambda: calls([0b11_10_01_00], mode=b"\x00"), REFUSED),
    ("AJResearchGroup/plinkr#37", "a file goes on after its last SNP", lambda: calls([0, 0], people=4, snps=1), REFUSED),
    ("zhengxwen/SeqArray#64", "the last people of a byte are padding", lambda: calls([0b11_11_10_00, 0b00_00_00_11], people=2, snps=2), [[2, 1], [0, 2]]),
    *[(OURS, f"the name {name!r} in {encoding}", lambda e=encoding, n=name: names(e, n), ((name, "2"), ("1", name), [name])) for encoding, name in (("utf-8", "voilà"), ("utf-8", "Ærø\u3000x"), ("utf-8-sig", "a"), ("latin-1", "Zoë"))],
]  # fmt: skip


# Habits of scikit-learn

ASKED = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
ROWS = RNG.uniform(-1, 1, (60, 2))
LABELS = np.where(ROWS[:, 0] > 0, "yes", "no")


def unchanged():
    before = ROWS.copy()
    DPLinearRegression(**ASKED).fit(ROWS, ROWS[:, 0])
    return np.array_equal(before, ROWS)


def exact(labels, rows):
    return dpalgos.estimate("glm", rows, labels, family="logistic", rng=np.random.default_rng(0)).estimate


def masked():
    return DPMean(**ASKED, value_bound=1.0).fit(np.ma.masked_less(ROWS, 0.0))


def like_scikit_learn():
    rows = RNG.normal(size=(5000, 3))
    labels = (rows @ [1, -1, 0.5] + RNG.logistic(size=5000) > 0) * 1.0
    theirs = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(rows, labels).coef_[0]
    return np.abs(exact(labels, rows) - theirs).max() < 1e-4


def robust_intervals():
    rows = RNG.normal(size=(300, 2))
    y = rows @ [1, -1] + (1 + rows[:, 0] ** 2) * RNG.normal(size=300)
    ours = dpalgos.estimate("ols", rows, y, interval=0.9, rng=np.random.default_rng(0)).interval.T
    return np.allclose(ours, sm.OLS(y, rows).fit(cov_type="HC3").conf_int(alpha=0.1))


CLASSES = [
    ("scikit-learn/scikit-learn#21134", "weights are ignored in silence", lambda: DPLinearRegression(**ASKED).fit(ROWS, ROWS[:, 0], sample_weight=np.ones(60)), REFUSED),
    ("scikit-learn/scikit-learn#20534", "a fit changes what it is given", unchanged, True),
    ("dabl/dabl#235", "what a masked array hides is used", masked, REFUSED),
    ("statsmodels/statsmodels#8477", "labels that are separated have an answer", lambda: exact((ROWS[:, 0] > 0) * 1.0, ROWS), REFUSED),
    ("statsmodels/statsmodels#2404", "counts are taken for separated labels", lambda: np.isfinite(dpalgos.estimate("glm", np.ones((9, 1)), np.ones(9), family="poisson", rng=RNG).estimate).all(), True),
    (OURS, "labels of text", lambda: list(DPLogisticRegression(**ASKED, classes=["no", "yes"]).fit(ROWS, LABELS).classes_), ["no", "yes"]),
    (OURS, "a clone shares nothing with its model", lambda: clone(DPMean(**ASKED, value_bound=1.0)).get_params()["value_bound"], 1.0),
    (OURS, "negative counts", lambda: DPPoissonRegressor(**ASKED).fit(ROWS, -np.ones(60)), REFUSED),
    (OURS, "an unpenalized logistic regression is another one", like_scikit_learn, True),
    (OURS, "robust intervals are those of equal variances", robust_intervals, True),
]  # fmt: skip

AREAS = {"CSV and Parquet": TABLES, "Contents and users": SAME, "Formulas": FORMULAS, "Genotypes": GENOTYPES}
AREAS |= {"Python's habits": CLASSES, "Pipelines": PIPELINES}
REPORTS = {area: [Report(*row) for row in rows] for area, rows in AREAS.items()}


def table():
    rows = [("area", "reported in", "defect", "here")]
    for area, reports in REPORTS.items():
        for each in reports:
            project, _, number = each.source.partition("#")
            source = (
                f"[{each.source}](https://github.com/{project}/issues/{number})" if number else each.source
            )
            defect = re.sub(r"([\\*`])", r"\\\1", each.defect)
            outcome = "refused" if each.right in (REFUSED, TypeError) else "correct"
            rows.append((area, source, defect, outcome))
    return rows
