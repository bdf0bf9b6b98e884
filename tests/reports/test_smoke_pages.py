"""Every page of a smoke run of all studies, opened in a browser."""

import html
import re

import pytest
from test_browser import look

import dpalgos
from flows.studies.find_study import find_study, study_names
from flows.studies.results import judged
from flows.studies.steps import RunOptions, StudySteps
from tests.plain_tasks import PlainTasks

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_WORDS = 30

# Chooses another value of each control in turn; what is returned is what the test gets.
CONTROLS = """
const marks = () => [...page.querySelectorAll("#live-chart .mark-symbol path, #live-chart .mark-text text")];
const shown = () => marks().map((mark) => mark.getAttribute("transform") + mark.textContent).join()
  + page.getElementById("view-table").textContent;
const chart = page.getElementById("live-chart"), same = [];
for (const { id } of chart ? page.querySelectorAll("#controls label:not([hidden]) select") : []) {
  const select = page.getElementById(id), before = shown();
  if (select.parentElement.hidden || select.options.length < 2) continue;
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  select.dispatchEvent(new view.Event("change"));
  await pause(250);
  if (shown() === before) same.push(id);
}
return { same, requests: view.performance.getEntriesByType("resource").map((entry) => entry.name),
  scroll: page.documentElement.scrollWidth, width: view.innerWidth };
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A function that runs a study and returns the folder of all reports."""
    folder, done = tmp_path_factory.mktemp("smoke"), set()

    def run(study):
        if study not in done:
            options = RunOptions(study=study, out=str(folder), profile="smoke", offline=True)
            StudySteps(find_study(study), folder, options, PlainTasks()).run()
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
        assert seen["scroll"] <= seen["width"]


@pytest.mark.parametrize("study", study_names())
def test_a_page_begins_with_a_sentence_for_anyone_and_five_lines(reports, study, tmp_path):
    page = reports(study) / study / "report.html"
    text = page.read_text(encoding="utf-8")
    sentence = re.search(r'<p class="sentence">(.*?)</p>', text, flags=re.DOTALL)[1]
    words = html.unescape(re.sub("<[^>]*>", "", sentence)).split()
    assert len(words) <= MOST_WORDS
    assert not re.search(r"[ℓδ‖σρβ²√±]|norm|z-score", sentence)
    assert not any(entry.title in sentence for entry in dpalgos.catalog())
    assert len(text.encode()) <= 1_100_000
    seen = look(text, 390, tmp_path)
    assert seen["lines"] <= 5
    assert seen["clipped"] == []


def test_scorecard_and_index_of_all_studies_open_without_a_word_on_the_console(reports, tmp_path):
    folder = reports("housing")
    judged(folder, PlainTasks(), profile="smoke", seed=1)
    for page in (folder / "index.html", folder / "scorecard" / "report.html"):
        (tmp_path / page.stem).mkdir(exist_ok=True)
        assert look(page.read_text(encoding="utf-8"), 1100, tmp_path / page.stem, CONTROLS)["requests"] == []
