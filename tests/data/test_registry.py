import math
import re
from dataclasses import replace

import pytest
from pydantic import ValidationError

from data import datasets
from data.dataset import GenotypeGroup
from data.datasets import get_dataset, load_registry
from data.errors import DataError

HOUSING = get_dataset("housing")


@pytest.mark.parametrize("name", ["housing", "randhie", "fair"])
def test_no_bound_or_unit_comes_from_the_rows(name):
    for column in get_dataset(name).columns:
        assert re.search("not computed from these rows|codebook|geography", column.bounds_source), column.name


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(DataError, match=r"'housin' .* 'housing'\?"):
        get_dataset("housin")
    with pytest.raises(DataError, match=r"'zebra' .*known: "):
        get_dataset("zebra")
    with pytest.raises(DataError, match=r"'median_incom'; .* 'median_income'\?"):
        get_dataset("housing").column("median_incom")


def with_source(**changes):
    return {"source": replace(HOUSING.source, **changes)}


def with_column(**changes):
    return {"columns": (replace(HOUSING.column("housing_median_age"), **changes),)}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("housing", {"n_rows": "many"}, "n_rows"),
        ("housing", {"n_rows": True}, "n_rows"),
        ("housing", {"table_sha256": "Z" * 64}, "table_sha256"),
        ("housing", {"license": ""}, "license"),
        ("housing", {"kind": "music"}, "kind"),
        ("housing", {"kind": "genotypes"}, "two groups that share no label"),
        ("housing", {"columns": HOUSING.columns[:1] * 2}, "two columns share a name"),
        ("housing", with_source(companions=(HOUSING.source,)), "two files share a name"),
        ("housing", with_source(sha256="aaa"), "sha256"),
        ("housing", with_source(sha256=""), "needs a note"),
        ("housing", with_source(file="../houses.zip"), "a path below the mirror"),
        ("housing", with_source(url="ftp://somewhere"), "url"),
        ("housing", with_source(url=""), "needs a note"),
        ("housing", with_column(lower=60.0), "lower must be below upper"),
        ("housing", with_column(lower=math.nan), "lower"),
        ("housing", with_column(scale=None), "center and scale come together"),
        ("housing", with_column(scale=0.0), "scale"),
        ("housing", with_column(dtype="int8"), "dtype"),
        ("snp_hapmap3", {"kind": "table"}, "needs columns"),
        ("snp_hapmap3", {"groups": (GenotypeGroup("a", ("CEU",)),) * 2}, "two groups that share no label"),
        ("swarm", {"n_boids": 0}, "n_boids of at least 1 and a label"),
        ("swarm", {"label": ""}, "n_boids of at least 1 and a label"),
    ],
)
def test_a_dataset_that_contradicts_itself_is_refused(name, changes, message):
    with pytest.raises(ValidationError, match=message):
        replace(get_dataset(name), **changes)


BROKEN = {
    "syntax": ("DATASET = (", "SyntaxError"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "imports": ("import no_such_library", "no_such_library"),
    "empty": ("", "it has no PARSERS; it has no stand_in; DATASET must be"),
    "faults": (
        "from dataclasses import replace\nfrom data.dataset import Source\n"
        "from data.datasets.fair import DATASET as fair\n"
        "DATASET = replace(fair, n_rows='many', source=Source('a', 'ftp://', '', sha256='z'),\n"
        "    columns=(fair.columns[0], replace(fair.columns[1], dtype='int8')))",
        r"n_rows: .*source.url: .*source.layout: .*source.sha256: .*columns\[1\].dtype: ",
    ),
    "another": (
        "from data.datasets.housing import DATASET, PARSERS, stand_in",
        "name must be the file's, got 'housing'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_with_its_reason_and_the_others_work(name, tmp_path, monkeypatch, caplog):
    content, reason = BROKEN[name]
    (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    found = load_registry()
    assert "housing" in found
    assert name not in found
    assert re.search(rf"data/datasets/{name}\.py is left out: .*{reason}", caplog.text)
    with pytest.raises(DataError, match=rf"data/datasets/{name}\.py"):
        get_dataset(name)
