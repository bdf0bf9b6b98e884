"""The pages of all studies, of runs at smoke and at standard, opened in a browser."""

import html
import re

import pytest

import dpalgos
from data.errors import Unreachable
from flows.studies.find_study import study_names
from flows.studies.scorecard import write_scorecard
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly
from tests.reports.test_browser import fits_a_phone, javascript, look

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_WORDS, MOST_BYTES = 30, 1_300_000

CONTROLS = javascript("controls")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A function that runs a study and returns the folder of all reports."""
    folder, done = tmp_path_factory.mktemp("smoke"), set()

    def run(study):
        if study not in done:
            try:
                run_plainly(study, RunOptions(out=str(folder), profile="smoke", offline=True))
            except Unreachable:
                pytest.skip("no source has its data")
            done.add(study)
        return folder

    with pytest.MonkeyPatch.context() as patch:
        (folder / "home").mkdir()
        patch.setenv("DPCOST_HOME", str(folder / "home"))
        yield run


@pytest.mark.parametrize("study", study_names())
def test_pages_ask_no_network_and_their_controls_change_what_is_shown(reports, study, tmp_path):
    for page in [reports(study) / study / "report.html", *(reports(study) / study).glob("data-*.html")]:
        (tmp_path / page.stem).mkdir()
        seen = look(page.read_text(encoding="utf-8"), 1100, tmp_path / page.stem, CONTROLS)
        assert seen["requests"] == []
        assert seen["same"] == []
        assert len(set(seen["metrics"])) == 1  # each is drawn, and none as another
        assert seen["scroll"] <= seen["width"]


def begins_for_anyone(page, folder):
    """Check the first sentence of a page, its lines and labels on a phone, and its size."""
    text = page.read_text(encoding="utf-8")
    sentence = html.unescape(re.search(r'<p class="sentence">(.*?)</p>', text, flags=re.DOTALL)[1])
    sentence = re.sub(r" \([^()]*, δ\s=\s.*?\)\.", ".", re.sub("<[^>]*>", "", sentence))  # a setting
    assert max(len(each.split(" ")) for each in sentence.split(". ")) <= MOST_WORDS
    assert not re.search(r"[ℓδ‖σρβ²√±]|norm|z-score", sentence)
    assert not any(entry.title in sentence for entry in dpalgos.catalog())
    assert len(text.encode()) <= MOST_BYTES
    fits_a_phone(text, folder)


@pytest.mark.parametrize("study", study_names())
def test_a_page_begins_with_a_sentence_for_anyone_and_five_lines(reports, study, tmp_path):
    begins_for_anyone(reports(study) / study / "report.html", tmp_path)


def test_scorecard_and_index_of_all_studies_open_without_a_word_on_the_console(reports, tmp_path):
    folder = reports("housing")
    write_scorecard(folder)
    for page in (folder / "index.html", folder / "scorecard" / "report.html"):
        (tmp_path / page.stem).mkdir(exist_ok=True)
        assert look(page.read_text(encoding="utf-8"), 1100, tmp_path / page.stem, CONTROLS)["requests"] == []
