"""The GEO series-matrix loader, on files generated in GEO's format and served on loopback."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from data.datasets import get_dataset
from data.fetch.genotypes import read_genotypes
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch
from data.formats.cohort import BLOCK_SNPS, MISSING

N_PEOPLE, N_SNPS = 14, 25
TEXT = {2: "AA", 1: "AB", 0: "BB", MISSING: "NoCall"}
CHP = {2: "6", 1: "8", 0: "7", MISSING: "11"}


def calls_of(n_snps=N_SNPS, n_people=N_PEOPLE):
    rng = np.random.default_rng(4)
    return rng.choice(np.array([0, 1, 2, MISSING], dtype=np.int8), (n_snps, n_people))


def series_matrix(calls=None, code=TEXT, quote=""):
    """Write a series matrix as GEO does: quoted header fields, characteristics out of step."""
    calls = calls_of() if calls is None else calls
    people = [f"GSM{2_850_000 + i}" for i in range(calls.shape[1])]

    def line(key, values):
        return "\t".join([key, *(f'"{value}"' for value in values)])

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
        *(
            "\t".join([f'"SNP_A-{j}"', *(f"{quote}{code[int(call)]}{quote}" for call in row)])
            for j, row in enumerate(calls)
        ),
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


@pytest.mark.parametrize(
    ("code", "quote", "compress", "n_snps"),
    [
        (TEXT, "", gzip.compress, N_SNPS),
        (CHP, '"', bytes, N_SNPS),
        (TEXT, '"', bytes, BLOCK_SNPS + 7),
        *((TEXT | {MISSING: absent}, "", bytes, N_SNPS) for absent in ("", "null")),
    ],
)
def test_calls_groups_and_people_arrive(tmp_path, web, code, quote, compress, n_snps):
    calls = calls_of(n_snps)
    ref = ingest(served(web, compress(payload_of(series_matrix(calls, code, quote)))), tmp_path)
    genotypes = read_genotypes(ref)
    np.testing.assert_array_equal(genotypes.calls, calls.T)
    assert (ref.origin, ref.data_source, ref.group_sizes) == ("official", "real", (9, 5))
    np.testing.assert_array_equal(genotypes.group, [i % 3 == 0 for i in range(N_PEOPLE)])
    assert genotypes.snps["snp"][3] == "SNP_A-3"
    assert ref.missing_calls == (calls == MISSING).sum()
