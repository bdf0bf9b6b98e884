"""The report of a small study; read it whole when it changes: RENEW=1 pytest tests/golden."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.builders import BOUNDS, CATEGORIES, people
from tests.tasks.analyst_tables import initialized, reported

FILE = Path(__file__).with_name("linear.md")
NUMBER = re.compile(r"\d+\.\d+|\d+")
DECLARED = ["age", "region", "smoker", "cost"]


@pytest.mark.filterwarnings("ignore::dpalgos.errors.PrivacyWarning")
def test_the_report_of_a_small_study_is_as_it_was_read(tmp_path, home):
    """All but where and when it ran; numbers within 2 %, since processors round differently."""
    table = people()[DECLARED]
    file = initialized(tmp_path, table, bounds=BOUNDS, categories=CATEGORIES, response="cost")
    text = reported(file, tmp_path).partition("## Where did this come from?")[0]
    text = text.replace(str(tmp_path), "FOLDER")
    text = re.sub(r"^Profile .*finished .*$", "", text, flags=re.MULTILINE)
    if os.environ.get("RENEW"):
        FILE.write_text(text)
    kept = FILE.read_text()
    assert NUMBER.sub("0", text) == NUMBER.sub("0", kept)
    found, known = (np.array([float(each) for each in NUMBER.findall(each)]) for each in (text, kept))
    np.testing.assert_allclose(found, known, rtol=0.02, atol=1e-3)
