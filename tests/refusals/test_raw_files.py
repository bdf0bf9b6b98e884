"""Published files that are refused, by what is wrong with them: a fault is one line. No sentence shows a cell."""

import gzip
import io
import tarfile
import tomllib
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from pydantic import ValidationError

from data.dataset import GenotypeGroup
from data.datasets import get_dataset, housing
from data.errors import CorruptSource, CorruptTable, DataError, Unreachable
from data.fetch import ingest
from data.fetch.genotypes import NO_GROUP
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.formats.cohort import MISSING, labeled_cohort
from data.prepare.frame_features import load_frames, scales
from data.prepare.genotype_groups import choose_evenly, draw_people, group_difference, traced_group
from data.prepare.table_design import PreparedTable, draw_rows, draw_training_rows, prepare_table
from data.simulations import simulator
from data.simulations.paper_models import uniform_glm
from tests.builders import made_up, refusals, refused, words
from tests.data import test_genotypes as plink
from tests.data import test_swarm_frames as swarm
from tests.data.conftest import raw_of, small_housing, with_cell, with_tgz
from tests.data.test_genotype_groups import CALLS, chosen, cohort, random_cohort


def few_frames(n=40, simulated=True):
    about = {"column_names": ("intercept",), "to_standard": None}
    groups = np.arange(n) // 4 if simulated else None
    return PreparedTable(X=np.ones((n, 1), dtype=np.float32), y=np.zeros(n), groups=groups, **about)


SECRET = "123456.789"
HIDDEN = (SECRET, "987654321", "SECRET7", "0.1273")
FRAMES = replace(get_dataset("swarm"), n_rows=swarm.N, n_boids=2)
TABLE = get_dataset("housing")


def many(edit_of_row, rows):
    return lambda lines: reduce(lambda lines, row: edit_of_row(row)(lines), rows, lines)


def without_last_line(payload):
    return payload[: payload.rstrip(b"\n").rindex(b"\n") + 1]


def without(start):
    return lambda lines: [line for line in lines if not line.startswith(start)]


def changed(row, old, new):
    return lambda lines: [*lines[:row], lines[row].replace(old, new), *lines[row + 1 :]]


def with_row(cells):
    return lambda lines: [*lines[:-1], "\t".join(['"SNP_A-x"', *cells]), lines[-1]]


BED, BIM, FAM, LABELS = range(4)
BOTH, PENN = ("snp_hapmap3", "snp_penncath"), ("snp_penncath",)
# Data sets, which of their files, how it is changed, what the sentence names
PLINK = [
    (BOTH, BED, lambda p: b"\x6c\x1c" + p[2:], ("bed file", "--make-bed")),
    (BOTH, BED, lambda p: b"", "bed file"),
    (BOTH, BED, lambda p: p[:2] + b"\x00" + p[3:], "--make-bed"),
    (BOTH, BED, lambda p: p[:-1], ("22 people", "31 SNPs")),
    (BOTH, BED, lambda p: p + b"\0", "22 people"),
    (BOTH, BIM, without_last_line, "30 SNPs"),
    (BOTH, FAM, lambda p: b"".join(p.splitlines(True)[:16]), "16 people"),
    (BOTH, FAM, lambda p: b"", "no rows"),
    (BOTH, BIM, lambda p: b"\n", "no rows"),
    (BOTH, FAM, lambda p: b"#FID IID PAT MAT SEX PHENO1\n" + p, ("header", "#FID")),
    (BOTH, FAM, lambda p: b"FID IID PAT MAT SEX PHENO1\n" + p, ("header", "FID")),
    (BOTH, BIM, lambda p: b"#CHROM ID CM POS ALT REF\n" + p, ("header", "#CHROM")),
    (BOTH, FAM, lambda p: b"".join([p.splitlines(True)[0], *p.splitlines(True)[:-1]]), "person twice"),
    (BOTH, BIM, lambda p: p.replace(b"\tA\tC", b"\tA", 3), "6 fields"),
    (BOTH, BIM, lambda p: p.replace(b"\t100\t", b"\trs987654321\t"), "positions"),
    (BOTH, BIM, lambda p: p.replace(b"\trs1\t", b"\trs2\t"), "1 of 31 SNPs"),
    (BOTH, LABELS, lambda p: p.replace(b"5003", b"9003"), ("label", "1 ")),
    (BOTH, LABELS, lambda p: p.replace(b"50", b"90"), "22 people"),
    (BOTH, BED, lambda p: p[:3] + b"\x55" * (len(p) - 3), ("22 people", "31 SNPs", "missing")),
    (PENN, LABELS, lambda p: p + b'"77",1,1\n"78",0,1\n', "2 people"),
]
GEO = [
    (without("!series_matrix_table_begin"), "series matrix"),
    (without("!series_matrix_table_end"), "!series_matrix_table_end"),
    (without("!Sample_geo_accession"), "!Sample_geo_accession"),
    (without("!Sample_characteristics"), "!Sample_characteristics_ch1"),
    (lambda lines: [line.replace("IQ", "SECRET7") for line in lines], "without a label"),
    (lambda lines: [*lines[:11], lines[-1]], "no SNP"),
    (lambda lines: [*lines[:10], lines[-1]], "RAW"),
    (changed(10, '"ID_REF"', "PROBE"), "ID_REF"),
    (changed(10, '"GSM2850003"', '"GSM1"'), ("1 people", "14")),
    (changed(10, '\t"GSM2850013"', ""), "13 samples"),
    (changed(6, '\t"tissue: blood"', ""), "14 samples"),
    (changed(6, '"iq group: Average IQ"', '"x"'), "label"),
    (lambda lines: [line.replace("Low", "Average") for line in lines], "'low IQ'"),
    (with_row(["AA"] * 13), ("1 rows", "14 calls")),
    (with_row(["AA"] * 12 + ["SECRET7"] * 2), "1 rows"),
    (with_row(["0.1273"] * 14), "not supported"),
    (lambda lines: [*lines[:12], lines[11], *lines[12:]], "1 of 26 SNPs"),
]
SWARM = [
    (many(lambda row: with_cell(row, 13, f"x{SECRET}"), (5, 6)), ("3 of 100 rows", "y2: 2")),
    (lambda lines: [*lines[:5], lines[5] + f",{SECRET}", *lines[6:]], "Row #5"),
    (lambda lines: [line.rsplit(",", 1)[0] for line in lines], ("25 columns", "24")),
    (with_cell(0, 3, "speed"), "other headers"),
    (lambda lines: lines[1:], "'x1'"),
    (lambda lines: lines[:1], "rows of numbers"),
    (lambda lines: lines[:-5], ("95 rows", "100")),
    (with_cell(7, 24, "2"), ("'Class'", "1 rows")),
    (with_cell(7, 0, SECRET), ("x outside", "1 entries")),
    (with_cell(7, 23, "-1"), ("nS outside", "1 entries")),
    (many(lambda row: with_cell(row, 1, "NaN"), (7, 8)), ("3 of 100 rows", "y1: 2")),
    (many(lambda row: with_cell(row, 1, "inf"), (7, 8)), ("infinity", "y1: 2")),
]
HOUSING = [
    (many(lambda row: with_cell(row, 3, f"x{SECRET}"), range(20)), ("20 of 300 rows", "total_rooms")),
    (many(lambda row: with_cell(row, 7, SECRET), range(20)), ("median_income", "20 rows")),
    (with_cell(4, 8, "600000"), ("median_house_value", "1 rows")),
]


def nothing_stored(folder):
    return not [path for path in folder.rglob("*.parquet*") if path.is_file()]


@pytest.mark.parametrize(("names", "position", "change", "named"), PLINK)
def test_faulty_plink_files_are_refused(tmp_path, names, position, change, named):
    for name in names:
        files = plink.made_up(tmp_path / name, name)
        plink.rewrite(files.path(position), change)
        use = lambda files=files: to_parquet(files.dataset, files.raw, home=tmp_path / "home")  # noqa: E731
        refused(use, CorruptSource, *words(named), hidden=HIDDEN)
    assert nothing_stored(tmp_path / "home")


@pytest.mark.parametrize(("change", "named"), GEO)
def test_faulty_series_matrices_are_refused(tmp_path, web, change, named):
    dataset = plink.served(web, plink.payload_of(change(plink.series_matrix())))
    refused(lambda: plink.ingest(dataset, tmp_path), CorruptSource, *words(named), hidden=HIDDEN)
    assert nothing_stored(tmp_path)


@pytest.mark.parametrize(("change", "named"), SWARM)
def test_faulty_frames_are_refused(tmp_path, change, named):
    lines = change(swarm.lines_of(FRAMES, *swarm.made(swarm.N, n_boids=2)))
    payload = swarm.zipped({"Flocking": "\n".join(lines)})
    refused(lambda: frames_of(tmp_path, payload), CorruptSource, *words(named), hidden=HIDDEN)
    assert nothing_stored(tmp_path)


@pytest.mark.parametrize(("change", "named"), HOUSING)
def test_faulty_tables_are_refused(tmp_path, change, named):
    dataset, payload = small_housing(change)
    use = lambda: to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path / "home")  # noqa: E731
    refused(use, CorruptSource, *words(named), hidden=HIDDEN)
    assert nothing_stored(tmp_path)


def packed(folder, payload, name="housing", layout="", **changes):
    dataset = replace(get_dataset(name), **changes)
    return to_parquet(dataset, raw_of(folder, dataset, payload, layout), home=folder / "home")


def frames_of(folder, payload):
    return to_parquet(FRAMES, raw_of(folder, FRAMES, payload), home=folder)


def genotypes(folder, name="snp_hapmap3", damaged=None, **changes):
    files = plink.made_up(folder / "raw", name)
    if damaged is not None:
        files.path(damaged).write_bytes(files.path(damaged).read_bytes()[:-9])
    return to_parquet(replace(files.dataset, **changes), files.raw, home=folder / "home")


def cels(pack):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("GSM2850000.CEL.gz"), io.BytesIO(b""))
    return pack(buffer.getvalue())


def brought(folder, url, sha256="0" * 64):
    dataset = get_dataset("fair")
    other = replace(dataset, source=replace(dataset.source, url=url, sha256=sha256))
    return fetch(other, home=folder, mirror=None, offline=True)


def endless(folder):
    path = folder / "mirror" / get_dataset("housing").source.file
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/zero")
    return from_mirror(folder, folder / "mirror")


def from_mirror(folder, mirror):
    dataset = with_tgz(get_dataset("housing"), b"published")
    return fetch(dataset, home=folder / "home", mirror=mirror, offline=True)


def simulated_frames(folder):
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    dataset = replace(get_dataset("swarm"), n_rows=16)
    return dataset, to_parquet(dataset, raw, home=folder)


def scaled(folder, units="public", **changes):
    dataset, ref = simulated_frames(folder)
    columns = tuple(replace(column, **changes) for column in dataset.columns)
    return scales(ref, replace(dataset, columns=columns), units)


def broken_frames(folder):
    dataset, ref = simulated_frames(folder)
    return load_frames(scales(replace(ref, sha256="0" * 64), dataset, "public"))


def designed(constant=(), **changes):
    table = made_up(get_dataset("housing"), 300, np.random.default_rng(1)).astype(float)
    table = table.assign(**dict.fromkeys(constant, float(SECRET)))
    covariates = ["median_income", "population", "households"]
    asked = {"response": "median_house_value", "covariates": covariates, "units": "public", **changes}
    return prepare_table(table, get_dataset("housing"), **asked)


RNG = [np.random.default_rng(0)]
NOTHING = cohort(np.full((4, 6), MISSING), [0, 0, 1, 1], missing=np.zeros(4, dtype=int))
FEW = cohort(np.array([[1, 1, *[MISSING] * 4]] * 4), [0, 0, 1, 1])
# The exception, what the sentence names, what is tried in a folder
FETCHED = [
    (DataError, "'other'", lambda at: packed(at, b"", layout="other")),
    (DataError, "nowhere.py", lambda at: to_parquet(replace(TABLE, name="nowhere"), raw_of(at, TABLE, b""), home=at)),
    (CorruptSource, ("digest", "housing"), lambda at: packed(at, small_housing()[1], n_rows=300, table_sha256="0" * 64)),
    (CorruptSource, ("300 rows", "301"), lambda at: packed(at, small_housing()[1], n_rows=301, table_sha256="")),
    (Unreachable, "package", lambda at: brought(at, "package://no_such_package/a.csv")),
    (Unreachable, "package", lambda at: brought(at, "package://statsmodels/no_such_file.csv")),
    (CorruptSource, "fair", lambda at: brought(at, get_dataset("fair").source.url)),
    (Unreachable, "regular file", endless),
    (Unreachable, "DPCOST_DATA_MIRROR", lambda at: from_mirror(at, at / "none")),
    (Unreachable, "MIRROR/housing/cal_housing.tgz", lambda at: from_mirror(at, at)),
    *[(CorruptSource, "archive", lambda at, payload=payload: frames_of(at, payload)) for payload in (b"PK\x03\x04", b"no zip")],
    (CorruptSource, "Flocking.csv", lambda at: frames_of(at, swarm.zipped({"Aligned": "x"}))),
    *[(CorruptSource, "damaged", lambda at, k=k: genotypes(at, "snp_penncath", damaged=k)) for k in (BED, BIM, FAM)],
    (CorruptSource, ("22 people", "23"), lambda at: genotypes(at, n_rows=23)),
    (CorruptSource, ("31 SNPs", "32"), lambda at: genotypes(at, n_snps=32)),
    (CorruptSource, "nobody", lambda at: genotypes(at, groups=(GenotypeGroup("a", ("CEU",)), GenotypeGroup("b", ("nobody",))))),
    (DataError, "'x' of swarm", lambda at: scaled(at, center=None, scale=None)),
    (CorruptTable, "modified", broken_frames),
]  # fmt: skip
ASKED = [
    (CorruptSource, "1 of 3 people", lambda: labeled_cohort(["a", "a", "b"], None, None, {"a": "1", "b": "0"}, labels_file="f", others_expected=True)),
    (CorruptSource, ("a.csv", "rows of numbers"), lambda: long_line()),
    (DataError, ("n_snps", "6, the SNPs", "7"), lambda: choose_evenly(6, 7)),
    (DataError, ("n_snps", "0"), lambda: choose_evenly(6, 0)),
    (DataError, "outside", lambda: chosen(random_cohort(), 2, "public_panel")),
    (DataError, "'controls'", lambda: group_difference(cohort(random_cohort().calls, 0 * random_cohort().group))),
    (DataError, ("m must", "20, the people", "21"), lambda: draw_people((30, 20), 21, [])),
    (DataError, ("m must", "0"), lambda: draw_people((30, 20), 0, [])),
    (DataError, "people", lambda: group_difference(NOTHING)),
    (DataError, ("2, the SNPs", "3"), lambda: chosen(FEW, 3)),
    (DataError, "'cases'", lambda: traced_group(cohort(CALLS, [1, 1, 1, NO_GROUP, NO_GROUP]))),
    (DataError, "outside", lambda: traced_group(cohort(CALLS, [0, 0, 1, 1, 1]))),
    (DataError, "groups='simulations'", lambda: draw_training_rows(few_frames(simulated=False), 20, RNG, whole_groups=True)),
    (DataError, ("n must", "0"), lambda: draw_training_rows(few_frames(), 0, RNG, whole_groups=False)),
    (DataError, ("n must", "40"), lambda: draw_training_rows(few_frames(), 40, RNG, whole_groups=False)),
    (DataError, ("10 groups", "3"), lambda: draw_training_rows(few_frames(), 3, RNG, whole_groups=True)),
    (DataError, "'population'", lambda: designed(covariates=["populatio"])),
    (DataError, "'latitude'", lambda: designed(covariates=["latitude"])),
    (DataError, ("'population'", "'households'"), lambda: designed(constant=("population", "households"), units="standardized")),
    (DataError, "'median_house_value'", lambda: designed(constant=("median_house_value",))),
    (DataError, ("m must", "0"), lambda: draw_rows(20, 0, RNG)),
    (DataError, ("m must", "21"), lambda: draw_rows(20, 21, RNG)),
    (DataError, ("noise", "'cauchy'"), lambda: simulator("gaussian_mean")(RNG[0], 50, 3, noise="cauchy")),
    (DataError, ("noise", "'cauchy'"), lambda: simulator("uniform_regression")(RNG[0], 50, 3, noise="cauchy")),
    (DataError, ("family", "'probit'"), lambda: uniform_glm(RNG[0], 5, 2, family="probit")),
    (DataError, ("'housin'", "'housing'"), lambda: get_dataset("housin")),
    (DataError, "'zebra'", lambda: get_dataset("zebra")),
    (DataError, "'median_income'", lambda: get_dataset("housing").column("median_incom")),
]  # fmt: skip


def long_line():
    with patch.object(ingest, "PIECE_BYTES", 100):
        return list(ingest.read_csv(io.BytesIO(b"x\n" + b"1" * 2000), ("x",), file="a.csv"))


@refusals(FETCHED)
def test_a_file_that_is_not_the_published_one_is_refused(tmp_path, error, named, use):
    refused(lambda: use(tmp_path), error, *words(named))


@refusals(ASKED)
def test_a_question_that_the_data_cannot_answer_is_refused(error, named, use):
    refused(use, error, *words(named), hidden=HIDDEN)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_raw_archive_of_arrays_is_no_series_matrix(tmp_path, web, pack):
    refused(lambda: plink.ingest(plink.served(web, cels(pack)), tmp_path), CorruptSource, "series matrix")


def source(**changes):
    return {"source": replace(TABLE.source, **changes)}


def column(**changes):
    return {"columns": (replace(TABLE.column("housing_median_age"), **changes),)}


PARTS = {"dataset": dict, "source": source, "column": column}
DATASETS = tomllib.loads(Path(__file__).with_name("files.toml").read_text())["datasets"]
DECLARATIONS = [
    *((name, partial(PARTS[part], **changes), named) for name, part, changes, named in DATASETS),
    ("housing", partial(dict, columns=TABLE.columns[:1] * 2), "columns"),
    ("housing", partial(source, companions=(TABLE.source,)), "files"),
    ("housing", partial(column, scale=None), "center"),
    ("snp_hapmap3", partial(dict, groups=(GenotypeGroup("a", ("CEU",)),) * 2), "two groups"),
]


@pytest.mark.parametrize(("name", "changes", "named"), DECLARATIONS)
def test_a_dataset_that_contradicts_itself_is_refused(name, changes, named):
    with pytest.raises(ValidationError) as caught:
        replace(get_dataset(name), **changes())
    assert named in str(caught.value)


def test_a_parser_that_gives_other_columns_is_refused(tmp_path, monkeypatch):
    parse = housing.PARSERS["cal_housing_tgz"]
    for change, named in (
        (lambda table: table.drop(columns="population"), "'population'"),
        (lambda table: table.assign(extra=1), "'extra'"),
    ):
        other = lambda path, change=change: change(parse(path))  # noqa: E731
        monkeypatch.setitem(housing.PARSERS, "cal_housing_tgz", other)
        use = lambda: packed(tmp_path, small_housing()[1], n_rows=300, table_sha256="")  # noqa: E731
        refused(use, CorruptSource, *words(named))
