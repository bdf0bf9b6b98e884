import csv
import tempfile
from pathlib import Path

import pytest

from tests.outside.reports import REFUSED, REPORTS, table

TABLE = Path(__file__).parents[2] / "docs" / "measured" / "outside.csv"
ALL = [each for reports in REPORTS.values() for each in reports]


@pytest.mark.parametrize("report", ALL, ids=lambda each: f"{each.source}: {each.defect}")
@pytest.mark.filterwarnings("ignore::dpalgos.errors.PrivacyWarning")
def test_what_others_reported_is_right_here(report, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if report.right in (REFUSED, TypeError):
        with pytest.raises(report.right):
            report.tried()
    else:
        assert report.tried() == report.right


def test_the_table_of_the_guide_lists_what_is_tried():
    with TABLE.open(encoding="utf-8", newline="") as file:
        stored = [tuple(row) for row in csv.reader(file)]
    assert stored == table(), "run python -m tests.outside"
