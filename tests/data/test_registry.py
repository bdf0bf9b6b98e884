import re

import pytest

from data import datasets
from data.datasets import get_dataset, load_registry
from data.errors import DataError

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
