import tempfile
from pathlib import Path

import pytest

from tests.outside.reports import REFUSED, REPORTS, page

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "outside.md"
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


def test_the_page_of_the_guide_lists_what_is_tried():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.outside"
