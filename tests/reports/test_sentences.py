"""The sentences of the pages of all studies, computed again from results.parquet.

The three ordered studies run at profile standard, too.
"""

import json
import re

import pandas as pd
import pytest

from flows.studies.find_study import study_names
from flows.studies.results import stored_page
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly
from tests.reports.sentences import check_best_by_size, check_errors, check_headline

pytestmark = pytest.mark.slow

RUNS = [("smoke", study) for study in study_names()]
RUNS += [("standard", study) for study in ("housing", "snp", "swarm")]


@pytest.mark.parametrize(("profile", "study"), RUNS)
def test_every_sentence_about_errors_follows_from_the_results(tmp_path, home, profile, study):
    run_plainly(study, RunOptions(out=str(tmp_path), profile=profile, offline=True))
    page, results = stored_page(study, str(tmp_path))
    folder = tmp_path / study
    text = re.sub(r"\\(?=[^\w\s])", "", (folder / "report.md").read_text(encoding="utf-8"))
    headline = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["page"]["headline"]
    assert headline in text
    if page.layout != "error_page":
        return
    results = pd.read_parquet(folder / "results.parquet")
    check_headline(headline, results, page)
    best = re.search(r"## Which estimator should I use\?\s+(.*)", text)
    check_best_by_size(best[1], results, page)
    check_errors(re.search(r"## More numbers\s+(.*)", text)[1], results, page)
