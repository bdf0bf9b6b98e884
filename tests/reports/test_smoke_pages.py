"""The pages of all studies, of runs at smoke and at standard, opened in a browser."""

import html
import re

import pytest

import dpalgos
from flows.studies.find_study import study_names
from flows.studies.scorecard import write_scorecard
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly
from tests.reports.test_browser import look

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_WORDS, MOST_BYTES = 30, 1_300_000

# Draws each metric; chooses values of each visible menu and goes back, with each quantity on the axis;
# `same` are menus that change nothing.
CONTROLS = """
const shown = () => [...page.querySelectorAll("#live-chart svg path, #live-chart svg text")]
  .map((mark) => mark.getAttribute("transform") + mark.getAttribute("d") + mark.textContent).join();
const menus = () => [...page.querySelectorAll("#menus select")];
async function choose(menu, index) {
  menu.selectedIndex = index;
  for (const kind of ["input", "change"]) menu.dispatchEvent(new view.Event(kind, { bubbles: true }));
  await pause(150);
}
async function changes(menu) {
  const before = shown(), first = menu.selectedIndex;
  let found = false;
  for (let index = 0; index < menu.options.length && !found; index++) {
    await choose(menu, index);
    found = shown() !== before;
  }
  await choose(menu, first);
  return found;
}
const same = [], metric = page.getElementById("metric"), drawn = [];
for (let index = 0; index < (metric ? metric.options.length : 0); index++) {
  await choose(metric, index);
  drawn.push(shown());
}
if (metric) await choose(metric, 0);
const axis = menus().find((menu) => menu.name === "axis");
for (let index = 0; index < (axis ? axis.options.length : 1); index++) {
  if (axis) await choose(axis, index);
  for (const menu of menus())
    if (menu.offsetParent && !(await changes(menu))) same.push(menu.labels[0].textContent);
}
return { same, requests: view.performance.getEntriesByType("resource").map((entry) => entry.name)
    .filter((name) => !name.startsWith("file:"))
    , metrics: [drawn.length, new Set(drawn).size, drawn.filter(Boolean).length],
  scroll: page.documentElement.scrollWidth, width: view.innerWidth };
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A function that runs a study and returns the folder of all reports."""
    folder, done = tmp_path_factory.mktemp("smoke"), set()

    def run(study):
        if study not in done:
            run_plainly(study, RunOptions(out=str(folder), profile="smoke", offline=True))
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
    assert len(re.sub("<[^>]*>", "", sentence).split()) <= MOST_WORDS
    assert not re.search(r"[ℓδ‖σρβ²√±]|norm|z-score", sentence)
    assert not any(entry.title in sentence for entry in dpalgos.catalog())
    assert len(text.encode()) <= MOST_BYTES
    seen = look(text, 390, folder)
    assert seen["scroll"] <= 390
    assert [seen[what] for what in ("clipped", "touching", "small", "hidden", "menus")] == [[]] * 5


@pytest.mark.parametrize("study", study_names())
def test_a_page_begins_with_a_sentence_for_anyone_and_five_lines(reports, study, tmp_path):
    begins_for_anyone(reports(study) / study / "report.html", tmp_path)


def test_scorecard_and_index_of_all_studies_open_without_a_word_on_the_console(reports, tmp_path):
    folder = reports("housing")
    write_scorecard(folder)
    for page in (folder / "index.html", folder / "scorecard" / "report.html"):
        (tmp_path / page.stem).mkdir(exist_ok=True)
        assert look(page.read_text(encoding="utf-8"), 1100, tmp_path / page.stem, CONTROLS)["requests"] == []
