"""Reports of five small studies; read them whole when they change: RENEW=1 pytest tests/golden."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from flows.studies.find_study import find_study
from reports.pages.study import render_study
from tests.builders import BOUNDS, CATEGORIES, people
from tests.reports.synthetic import synthetic_page, synthetic_results
from tests.tasks.analyst_tables import initialized, reported
from tests.tasks.blocks import STEPS, written_report

HERE = Path(__file__).parent
NUMBER = re.compile(r"\d+\.\d+|\d+")


def of_table(folder, columns, **options):
    file = initialized(folder, people()[columns], bounds=BOUNDS, categories=CATEGORIES, **options)
    return reported(file, folder)


def of_steps(folder):
    written_report(find_study(str(STEPS)), folder, 3)
    return (folder / "out" / "report.md").read_text()


def of_synthetic_rows(folder):
    results = synthetic_results(replicates=5)
    return render_study(results, synthetic_page(results))["report.md"].decode()


DECLARED = ["age", "region", "smoker", "cost"]
REPORTS = {
    "linear": lambda folder: of_table(folder, DECLARED, response="cost"),
    "events": lambda folder: of_table(folder, DECLARED, response="smoker"),
    "users": lambda folder: of_table(folder, ["age", "cost", "person"], user_id="person"),
    "steps": of_steps,
    "synthetic": of_synthetic_rows,
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.filterwarnings("ignore::dpalgos.errors.PrivacyWarning")
def test_the_report_of_a_small_study_is_as_it_was_read(name, tmp_path, home):
    """All but where and when it ran; numbers within 2 %, since processors round differently."""
    text = REPORTS[name](tmp_path).partition("## Where did this come from?")[0]
    text = text.replace(str(tmp_path), "FOLDER")
    text = re.sub(r"^Profile .*finished .*$", "", text, flags=re.MULTILINE)
    file = HERE / f"{name}.md"
    if os.environ.get("RENEW"):
        file.write_text(text)
    kept = file.read_text()
    assert NUMBER.sub("0", text) == NUMBER.sub("0", kept)
    found, known = (np.array([float(each) for each in NUMBER.findall(each)]) for each in (text, kept))
    np.testing.assert_allclose(found, known, rtol=0.02, atol=0.02)
