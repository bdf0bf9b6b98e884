"""PLINK files and GEO's series matrices in the store, read against plain decoding of the bytes."""

import gzip
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from data.dataset import Dataset
from data.datasets import get_dataset
from data.fetch.genotypes import read_genotypes
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.formats.cohort import MISSING
from data.store.references import ref_from_dict

TWO_BITS = {2: 0b00, MISSING: 0b01, 1: 0b10, 0: 0b11}


def encoded(calls):
    """Write (n_people, n_snps) calls as a bed file, by the format's definition alone."""
    bits = np.vectorize(TWO_BITS.get)(calls)
    padded = np.pad(bits, ((0, -len(calls) % 4), (0, 0))).T.reshape(calls.shape[1], -1, 4)
    return b"\x6c\x1b\x01" + (padded << [0, 2, 4, 6]).sum(axis=2).astype(np.uint8).tobytes()


@dataclass
class Files:
    """A set of files with the layout of one of the two datasets, in a folder."""

    dataset: Dataset
    folder: Path
    calls: np.ndarray[Any, Any] | None = None

    def path(self, position):
        return self.folder / self.dataset.source.files[position].file

    @property
    def raw(self):
        def raw(source):
            path = self.folder / source.file
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            return RawFile(self.dataset.name, str(path), sha256, source.url, source.layout, "mirror")

        first, *others = map(raw, self.dataset.source.files)
        return replace(first, companions=tuple(others))


def made_up(folder, name, n_people=22, n_snps=31):
    """Write a set of random calls in the layout of a dataset."""
    dataset = replace(get_dataset(name), n_rows=n_people, n_snps=n_snps)
    rng = np.random.default_rng(len(name))
    known = np.array([0, 1, 2, MISSING], dtype=np.int8)
    calls = rng.choice(known, (n_people, n_snps), p=[0.3, 0.3, 0.3, 0.1])
    ids = [f"{5000 + i}" for i in range(n_people)]
    every = [label for group in dataset.groups for label in group.labels]
    labels = rng.permutation(every * n_people)[:n_people]
    quote = '"' if name == "snp_penncath" else ""
    texts = [
        "".join(f"{1 + j % 22}\trs{j}\t0\t{100 + j}\tA\tC\n" for j in range(n_snps)),
        "".join(f"{quote}{i}{quote} {i if not quote else 1} 0 0 1 2\n" for i in ids),
    ]
    if name == "snp_penncath":
        rows = (f'"{i}",{label},1\n' for i, label in zip(ids, labels, strict=True))
        texts.append('"FamID","CAD","sex"\n' + "".join(rows))
    else:
        rows = (f"{i}\t{i}\t0\t0\t1\t0\t{label}\n" for i, label in zip(ids, labels, strict=True))
        texts.append("FID\tIID\tdad\tmom\tsex\tpheno\tpopulation\n" + "".join(rows))
    files = Files(dataset, folder, calls)
    for position, content in enumerate([encoded(calls), *(text.encode() for text in texts)]):
        path = files.path(position)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return files


@pytest.fixture(params=["snp_hapmap3", "snp_penncath"])
def files(request, tmp_path):
    return made_up(tmp_path / "raw", request.param)


def plain(path):
    payload = path.read_bytes()
    return gzip.decompress(payload) if path.suffix == ".gz" else payload


def rewrite(path, change):
    payload = change(plain(path))
    path.write_bytes(gzip.compress(payload, mtime=0) if path.suffix == ".gz" else payload)


def test_every_call_label_and_count_arrives(files, tmp_path):
    ref = to_parquet(files.dataset, files.raw, home=tmp_path)
    assert ref_from_dict(json.loads(json.dumps(ref.to_dict()))) == ref
    genotypes = read_genotypes(ref)
    np.testing.assert_array_equal(genotypes.calls, files.calls)
    np.testing.assert_array_equal(genotypes.missing, (files.calls == MISSING).sum(axis=1))
    assert genotypes.calls.dtype == np.int8
    metadata = pq.ParquetFile(ref.path).metadata.metadata
    people = json.loads(metadata[b"dpcost.people"])
    assert people["id"] == [f"{5000 + i}" for i in range(22)]
    labels_of = [group.labels for group in files.dataset.groups]
    assert all(label in labels_of[code] for label, code in zip(people["label"], genotypes.group, strict=True))
    assert genotypes.snps["snp"].tolist() == [f"rs{j}" for j in range(31)]
    assert genotypes.snps["position"].tolist() == [100 + j for j in range(31)]
    assert set(genotypes.snps["allele_1"]) == {"A"}


def test_a_person_without_a_label_is_left_out_and_counted(tmp_path, caplog):
    files = made_up(tmp_path / "raw", "snp_penncath", n_people=210)
    rewrite(files.path(3), lambda p: re.sub(b'("5007",)[01]', rb"\1NA", p))
    ref = to_parquet(files.dataset, files.raw, home=tmp_path)
    assert (ref.n_rows, ref.rows_read) == (209, 210)
    assert "person without a label: 1" in caplog.text
    calls = np.delete(files.calls, 7, axis=0)
    few_calls = ((calls == MISSING).mean(axis=1) > 0.1).sum()  # everybody else is in one of the groups
    reasons = {"person without a label": 1, "more than 10% of the calls missing": few_calls}
    assert {repair.reason: repair.count for repair in ref.repairs} == reasons
    np.testing.assert_array_equal(read_genotypes(ref).calls, calls)


N_PEOPLE, N_SNPS = 14, 25
TEXT = {2: "AA", 1: "AB", 0: "BB", MISSING: "NoCall"}


def calls_of():
    rng = np.random.default_rng(4)
    return rng.choice(np.array([0, 1, 2, MISSING], dtype=np.int8), (N_SNPS, N_PEOPLE))


def series_matrix(calls=None, code=TEXT, quote=""):
    """Write a series matrix as GEO does: quoted header fields, characteristics out of step."""
    calls = calls_of() if calls is None else calls
    people = [f"GSM{2_850_000 + i}" for i in range(calls.shape[1])]

    def line(key, values):
        return "\t".join([key, *(f'"{value}"' for value in values)])

    texts = [[f"{quote}{code[int(call)]}{quote}" for call in row] for row in calls]
    cells = [[f'"SNP_A-{j}"', *row] for j, row in enumerate(texts)]
    group = [f"iq group: {'Low' if i % 3 == 0 else 'Average'} IQ" for i in range(len(people))]
    tissue = ["tissue: blood"] * len(people)
    first = [group[i] if i % 2 else tissue[i] for i in range(len(people))]
    second = [tissue[i] if i % 2 else group[i] for i in range(len(people))]
    return [
        '!Series_title\t"Genotypes and IQ"',
        '!Series_geo_accession\t"GSE106818"',
        '!Series_platform_id\t"GPL6801"',
        "",
        line("!Sample_title", [f"person {i}" for i in range(len(people))]),
        line("!Sample_geo_accession", people),
        line("!Sample_characteristics_ch1", first),
        line("!Sample_characteristics_ch1", second),
        line("!Sample_platform_id", ["GPL6801"] * len(people)),
        "!series_matrix_table_begin",
        line('"ID_REF"', people),
        *map("\t".join, cells),
        "!series_matrix_table_end",
    ]


def payload_of(lines):
    return "".join(line + "\n" for line in lines).encode()


def served(web, payload, name="/m.txt.gz"):
    dataset = get_dataset("snp_gse106818")
    source = replace(dataset.source, url=web.serve(name, payload))
    return replace(dataset, source=source, n_rows=N_PEOPLE)


def ingest(dataset, home):
    return to_parquet(dataset, fetch(dataset, home=home, mirror=None, offline=False), home=home)


SERIES = [(TEXT, "", gzip.compress), (TEXT, '"', bytes)]
SERIES += [(TEXT | {MISSING: absent}, "", bytes) for absent in ("", "null")]


@pytest.mark.parametrize(("code", "quote", "compress"), SERIES)
def test_calls_groups_and_people_arrive(tmp_path, web, code, quote, compress):
    calls = calls_of()
    ref = ingest(served(web, compress(payload_of(series_matrix(calls, code, quote)))), tmp_path)
    genotypes = read_genotypes(ref)
    np.testing.assert_array_equal(genotypes.calls, calls.T)
    assert (ref.origin, ref.data_source, ref.group_sizes) == ("official", "real", (9, 5))
    np.testing.assert_array_equal(genotypes.group, [i % 3 == 0 for i in range(N_PEOPLE)])
    assert genotypes.snps["snp"][3] == "SNP_A-3"
    assert ref.missing_calls == (calls == MISSING).sum()


# Writes a series matrix of 387 people and reads it; prints the memory that this took, in MB.
MEMORY = """
import gzip, sys
from pathlib import Path
from data.datasets import get_dataset
from data.fetch.genotypes import read_genotypes, store_genotypes
from data.fetch.raw import RawFile
from data.store.folders import sha256_file
from dataclasses import replace
from tests.data.test_genotypes import payload_of, series_matrix
from tests.peak_memory import peak_memory
import numpy as np

path, n_probes = Path(sys.argv[1]), int(sys.argv[2])
calls = np.random.default_rng(0).integers(-1, 3, (500, 387))
lines = series_matrix(calls)
cells = [line.split("\\t", 1)[1] for line in lines[11:-1]]
with gzip.open(path, "wb", compresslevel=1) as file:
    file.write(payload_of(lines[:11]))
    for i in range(n_probes):
        file.write(f'"SNP_A-{i}"\\t{cells[i % 500]}\\n'.encode())
    file.write(payload_of(lines[-1:]))
dataset = get_dataset("snp_gse106818")
before = peak_memory()
raw = RawFile(dataset.name, str(path), "0" * 64, "", dataset.source.layout, "mirror")
ref = store_genotypes(dataset, raw, path.with_suffix(".parquet"))
found = read_genotypes(replace(ref, sha256=sha256_file(Path(ref.path)))).calls
assert found.shape == (387, n_probes)
assert (found[:, :500].T == calls).all() and (found[:, -500:].T == calls).all()
print((peak_memory() - before) / 1e6, peak_memory() / 1e6)
"""


def memory_of_reading(folder, n_probes):
    command = [sys.executable, "-c", MEMORY, str(folder / "m.txt.gz"), str(n_probes)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return map(float, done.stdout.split())


def test_a_series_matrix_is_read_as_a_stream(tmp_path):
    more, _ = memory_of_reading(tmp_path, 20_000)
    assert more < 200  # calls take 8 MB, their text 30 MB, and a list of strings takes 450 MB


@pytest.mark.slow
def test_a_million_probes_fit_into_a_gigabyte(tmp_path):
    _, total = memory_of_reading(tmp_path, 1_000_000)
    assert total < 1000
