"""The pages as a browser lays them out, and what their controls do."""

import html as escaping
import importlib
import itertools
import json
import re
import shutil
import subprocess
import threading
import time
from dataclasses import replace

import pytest
import uvicorn

from data.store.folders import PROJECT_ROOT
from dpalgos.accounting.events import Relation
from flows import website
from reports.charts.explorer import packed
from reports.pages.compare import ComparedRun, render_comparison
from reports.pages.index import Card, render_index
from reports.pages.release_page import render_release
from reports.pages.study import render_study
from tasks.scorecard.claims import load_scorecard
from tasks.scorecard.judging import scorecard_page
from tests.reports.test_release_page import RECORD
from tests.tasks.blocks import written_report
from tests.tasks.test_membership import study  # noqa: F401

pytestmark = pytest.mark.browser

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)

# Runs in the page's frame when it has drawn; `answer` is what the test gets.
LAYOUT = r"""
const shown = [...page.querySelectorAll("svg")].filter((svg) => svg.getBoundingClientRect().width > 0);
const clipped = shown.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.width > 0 && !svg.closest(".scroll") && (box.right > view.innerWidth + 1 || box.left < -1);
}).map((text) => text.textContent));
return {
  scroll: page.documentElement.scrollWidth, width: view.innerWidth, clipped, figures: shown.length,
  outside: [...page.querySelectorAll(".card")].flatMap((card) => [...card.querySelectorAll("text")]
    .filter((text) => text.getBoundingClientRect().right > card.getBoundingClientRect().right)
    .map((text) => text.textContent)),
  small: shown.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
    const scale = text.getScreenCTM().a;
    return scale > 0 && parseFloat(view.getComputedStyle(text).fontSize) * scale < 8;
  }).map((text) => text.textContent)),
  background: view.getComputedStyle(page.body).backgroundColor,
  ink: view.getComputedStyle(page.body).color,
  line: view.getComputedStyle(page.querySelector("svg text") ?? page.body).fill,
  hidden: [...page.querySelectorAll("td")].filter((cell) => /\d to [−\d]|\[[−\d]/.test(cell.textContent)
    && cell.getBoundingClientRect().right > view.innerWidth && cell.closest("table.stacked"))
    .map((cell) => cell.textContent),
  labels: [...page.querySelectorAll("#live-chart .mark-text text")].map((text) => [
    text.textContent, parseFloat(view.getComputedStyle(text).fontSize),
    text.getBoundingClientRect().toJSON()]),
  lines: page.querySelectorAll("#lines input:checked").length,
  requests: view.performance.getEntriesByType("resource").map((entry) => entry.name),
};
"""
EXPLORE = """
const points = () => [...page.querySelectorAll("#live-chart .mark-symbol path")];
const marks = () => points().map((point) => point.getAttribute("transform")).join();
const cell = () => page.querySelector("#view-table tbody td").textContent;
const choose = async (id, text) => {
  const select = page.getElementById(id);
  select.selectedIndex = [...select.options].findIndex((option) => option.textContent === text);
  select.dispatchEvent(new view.Event("change"));
  await pause(300);
};
const lines = () => page.querySelectorAll("#lines input:checked").length;
const rows = page.querySelectorAll("#view-table tbody tr").length;
const seen = { rows, lines: lines(), first: [marks(), cell()] };
await choose("control-epsilon", "2");
seen.second = [marks(), cell()];
await choose("control-axis", "ε");
seen.columns = [...page.querySelectorAll("#view-table thead tr:nth-child(2) th")].map((th) => th.textContent);
const box = page.querySelector("#lines input");
box.click();
await pause(300);
seen.left = lines();
seen.address = view.location.hash;
const name = page.querySelectorAll("#lines label")[0].textContent.trim().slice(2);
const texts = [...page.querySelectorAll("#live-chart .mark-text text")];
const named = texts.find((text) => text.textContent === name);
named.dispatchEvent(new view.MouseEvent("click", { bubbles: true }));
await pause(300);
seen.clicked = lines();
page.querySelector("#lines details input").click();
await pause(300);
seen.more = lines();
seen.labeled = [...page.querySelectorAll("select, #lines input")].every((one) => one.labels.length === 1);
page.querySelectorAll("#view-table th button")[0].click();
await pause(300);
seen.sorted = page.querySelector("#view-table th[aria-sort]").textContent;
page.getElementById("csv").click();
seen.csv = decodeURIComponent(page.getElementById("csv").href).split("\\n")[0];
return seen;
"""
TABLES = r"""
const told = (cell) => [
  cell.tagName, cell.className, cell.title.replace(/\s/g, " "), cell.colSpan, cell.textContent.trim(),
  cell.querySelector(".swatch")?.style.color ?? "",
];
const rows = (place) => [...place.querySelector("table.errors").rows];
const all = (place) => ({
  rows: rows(place).map((row) => [row.className, ...[...row.cells].map(told)]),
  key: [...place.querySelectorAll("dl.key > *")].map((each) => each.textContent),
});
const before = new view.DOMParser().parseFromString(STATIC, "text/html").getElementById("view-table");
return { before: all(before), after: all(page.getElementById("view-table")) };
"""
ALONE = """{page}<pre id=answer></pre><script>
const pause = (ms) => new Promise((done) => setTimeout(done, ms)), page = document, view = window;
pause(800).then(async () => {{ {script} }}).then((answer) => {{
  document.getElementById("answer").textContent = JSON.stringify(answer);
}});
</script>"""
FRAME = """<!doctype html><body><style>iframe {{ border: 0; width: {width}px; height: 3000px }}</style>
<iframe id=f srcdoc="{page}"></iframe>
<pre id=answer></pre><script>
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
document.getElementById("f").addEventListener("load", async (event) => {{
  const page = event.target.contentDocument, view = event.target.contentWindow;
  await pause(800);
  const answer = await (async () => {{ {script} }})();
  document.getElementById("answer").textContent = JSON.stringify(answer);
}});
</script>"""


def look(html: str, width: int, folder, script: str = LAYOUT) -> dict:
    """Return what a script finds in a page of a width, or alone in the window; the console stays empty."""
    if CHROMIUM is None:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    framed = FRAME.format(width=width, page=escaping.escape(html), script=script)
    content = framed if script == LAYOUT else ALONE.format(page=html, script=script)
    (folder / "frame.html").write_text(content, encoding="utf-8")
    command = [
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-sync", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=9000"),
        *("--enable-logging=stderr", "--v=0"),
        *("--window-size=1400,3200", "--dump-dom", (folder / "frame.html").as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, "the page did not load"
    return json.loads(escaping.unescape(found.group(1)))


@pytest.mark.parametrize("width", [360, 390, 800, 1200])
@pytest.mark.parametrize("fixture", ["files", "standin_files"])
def test_nothing_overflows_or_is_clipped(fixture, width, request, tmp_path):
    seen = look(request.getfixturevalue(fixture)["report.html"].decode(), width, tmp_path)
    assert seen["width"] == width
    assert seen["scroll"] <= width
    assert seen["clipped"] == []
    assert seen["requests"] == []
    assert seen["figures"] >= 2


def test_every_line_has_its_name_on_a_phone(files, tmp_path):
    seen = look(files["report.html"].decode(), 390, tmp_path)
    names = [(text, size, box) for text, size, box in seen["labels"] if len(text) > 8]
    assert 2 <= seen["lines"] == len(names) <= 5
    assert all(size >= 11 for _, size, _ in names)
    boxes = sorted((box["top"], box["bottom"]) for _, _, box in names)
    assert all(above[1] <= below[0] + 1 for above, below in itertools.pairwise(boxes))


def test_controls_change_the_marks_the_table_and_the_address(files, tmp_path):
    seen = look(files["report.html"].decode(), 1100, tmp_path, EXPLORE)
    assert seen["rows"] == 11  # of all estimators; the chart draws five
    assert seen["lines"] == 5
    assert seen["first"] != seen["second"]
    assert seen["columns"][1:5] == ["0.2", "0.5", "1", "2"]
    assert seen["left"] == seen["lines"] - 1
    assert seen["clicked"] == seen["left"] - 1  # after a click on a name in the chart
    assert seen["more"] == seen["clicked"] + 1
    assert "axis=epsilon" in seen["address"]
    assert "epsilon=2" in seen["address"]
    assert seen["labeled"] is True
    assert seen["sorted"] == "Estimator"
    assert seen["csv"].partition(",")[2].startswith("estimator,noise,metric,panel,epsilon,mean,se")


def with_local(page):
    """Return the page on which AdaSSP keeps the strongest promise, so that it alone is ranked."""
    others = [replace(e, relation=Relation.LOCAL) if e.name == "adassp" else e for e in page.estimators]
    return replace(page, estimators=tuple(others))


TABLES_OF_PAGES = {
    "plain": (lambda rows: rows, lambda page: page, {"best", "worse", "missing", "plain"}),
    "useless": (lambda rows: scaled(rows, 100), lambda page: page, {"worse", "missing", "plain"}),
    "tiny": (lambda rows: scaled(rows, 1e-5), lambda page: page, {"best", "missing", "plain"}),
    "huge": (lambda rows: scaled(rows, 3e6), lambda page: page, {"worse", "missing", "plain"}),
    "two promises": (lambda rows: rows, with_local, {"best", "worse", "missing", "plain"}),
    "prepared": (
        lambda rows: rows,
        lambda page: replace(page, headline={**page.headline, "panel": "paper"}),
        {"best", "worse", "missing", "plain"},
    ),
}


def scaled(rows, factor):
    private = rows["privacy_model"] != "none"
    return rows.assign(value=rows["value"].where(~private, rows["value"] * factor))


@pytest.mark.parametrize("kind", TABLES_OF_PAGES)
def test_the_table_is_the_same_with_and_without_scripts(results, page, tmp_path, kind):
    rows, changed, kinds = TABLES_OF_PAGES[kind]
    html = render_study(rows(results), changed(page))["report.html"].decode()
    alone = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    seen = look(html, 1100, tmp_path, f"const STATIC = {json.dumps(alone)};" + TABLES)
    assert seen["before"] == seen["after"]
    cells = [cell for row in seen["after"]["rows"] for cell in row[1:] if cell[0] == "TD"]
    assert {cell[1] for cell in cells} - {"", "flagged"} == kinds
    assert seen["after"]["rows"][2][0] == "dn"
    assert seen["after"]["key"][0] == "a"
    if kind == "two promises":
        best = [row[1][4] for row in seen["after"]["rows"] if any(cell[1] == "best" for cell in row[1:])]
        assert all(name.startswith("AdaSSP") for name in best)


def test_dark_mode_changes_page_and_figures(files, tmp_path):
    html = files["report.html"].decode()
    dark = html.replace("(prefers-color-scheme: dark)", "all")
    light = html.replace("(prefers-color-scheme: dark)", "not all")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_day, by_night = look(light, 800, tmp_path / "a"), look(dark, 800, tmp_path / "b")
    for part in ("background", "ink", "line"):
        assert by_day[part] != by_night[part]


def index_page(files):
    card = Card.from_json(files["card.json"])
    costs = [(0.5, 3.0, 0.2), (2.0, 1.5, 0.1)]
    longer = replace(card, name="a_second_study_with_a_long_name", title="W" * 60, costs=costs)
    return render_index([replace(card, costs=costs), longer])["index.html"].decode()


def release_page(files):
    terms = ["Intercept", "C(insurance, Treatment('basic'))[T.none]:age", "age", "a_column_of_numbers" * 4]
    answer = [{"name": name, "estimate": -123.456, "lower": -234.5, "upper": -12.3} for name in terms]
    bins = {name: [0.1 * k for k in range(1, 11)] for name in ("predicted", "observed", "std_error")}
    more = {"rows": [100.0] * 10, "clipped_share": [0.01] * 10, "residual_std": [1.0] * 10}
    release = {"answer": answer, "model": {"family": "poisson", "n": 1000, "formula": " + ".join(terms)}}
    release |= {"interval_note": "", "binned_fit": {**bins, **more}}
    return render_release({**RECORD, "release": {**RECORD["release"], **release}}).decode()


def own_table_page(results, page):
    rows = [[f"C(region)[T.{'south' * 5}]:age_{j}", 1.0, -123.456, 2345.678, 0.9] for j in range(3)]
    about = {"estimator": "adassp", "form": "", "epsilon": 0.5, "n": 20_000, "of_terms": True}
    content = {**about, "rows": rows, "left_out": [], "covers": "Intervals cover something."}
    own = replace(page, exhibits={"own_table": content}, n_coefficients=3)
    return render_study(results, own)["report.html"].decode()


def comparison_page(results, page):
    runs = [ComparedRun("main", page, results), ComparedRun("a_branch_with_a_long_name" * 3, page, results)]
    changed = results.assign(value=results["value"] * 3)
    return render_comparison([*runs, ComparedRun("other", page, changed)]).decode()


PAGES = {
    "report": lambda files, results, page: files["report.html"].decode(),
    "own table": lambda files, results, page: own_table_page(results, page),
    "data card": lambda files, results, page: next(
        text.decode() for name, text in files.items() if name.startswith("data-")
    ),
    "index": lambda files, results, page: index_page(files),
    "release": lambda files, results, page: release_page(files),
    "comparison": lambda files, results, page: comparison_page(results, page),
}


def fits_a_phone(html, folder):
    seen = look(html, 390, folder)
    assert seen["scroll"] <= 390
    assert [seen[what] for what in ("clipped", "outside", "small", "hidden")] == [[]] * 4


@pytest.mark.parametrize("kind", PAGES)
def test_every_kind_of_page_fits_a_phone_and_can_be_read_there(kind, request, results, page, tmp_path):
    files = request.getfixturevalue("standin_files" if kind == "data card" else "files")
    fits_a_phone(PAGES[kind](files, results, page), tmp_path)


def test_the_scorecard_fits_a_phone(tmp_path):
    about = {"profile": "smoke", "seed": 1, "command": "dpcost run scorecard", "started": "", "evidence": {}}
    scorecard_page(load_scorecard(), {}, tmp_path / "scorecard", about)
    fits_a_phone((tmp_path / "scorecard" / "report.html").read_text(encoding="utf-8"), tmp_path)


def test_the_league_fits_a_phone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "docs"))
    importlib.import_module("generate.league").copy_page(tmp_path)
    fits_a_phone((tmp_path / "league" / "report.html").read_text(encoding="utf-8"), tmp_path)


def test_the_page_of_attacks_fits_a_phone(study, tmp_path, home):  # noqa: F811
    written_report(study, tmp_path, replicates=6)
    fits_a_phone((tmp_path / "out" / "report.html").read_text(encoding="utf-8"), tmp_path)


def test_a_chart_is_there_before_scripts_run(files):
    page = files["report.html"].decode()
    figure = page[page.index('class="static-only"') :]
    assert figure.index("<svg") < figure.index("<figcaption")


PLANTED = "<img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{}</svg>'
PICTURES = {
    "handler": SVG.format("<path d='M0,0h9' onclick='1'/>").replace(
        "<svg ", "<svg onload=\"document.title='ran'\" "
    ),
    "script": SVG.format("<script>document.title='ran'</script>"),
    "marked section": SVG.format("<title><![CDATA[" + PLANTED + "]]></title>"),
    "comment": SVG.format("<!-- --!>" + PLANTED + "<!-- -->"),
    "foreign": SVG.format(
        f"<foreignObject><body xmlns='http://www.w3.org/1999/xhtml'>{PLANTED}</body></foreignObject>"
    ),
    "link": SVG.format("<a href=\"javascript:document.title='ran'\"><text>x</text></a>"),
    "no picture": PLANTED,
}


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A function that puts pages into ``/reports`` of a server and returns what Chromium makes of one."""
    if CHROMIUM is None:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    monkeypatch.setattr(website, "_knows", lambda headers, authentication: True)
    folder = tmp_path / "out"
    folder.mkdir()
    whole = website.with_reports(lambda scope, receive, send: None, folder, "a:b", ["127.0.0.1"])
    server = uvicorn.Server(uvicorn.Config(whole, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)

    def opened(page, *, guarded=True):
        (folder / "page.html").write_bytes(page)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/reports/page.html"
        command = [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
            *("--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--virtual-time-budget=9000", "--dump-dom"),
            address if guarded else (folder / "page.html").as_uri(),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield opened
    finally:
        server.should_exit = True
        thread.join()


RAN = "<title>ran</title>"


def test_a_strangers_page_runs_no_script_on_the_server(served, files):
    page = b"<!doctype html><title>x</title>" + PLANTED.encode()
    assert RAN in served(page, guarded=False)  # it would
    assert RAN not in served(page)
    library = 'id="vega-library">' + packed("document.title='ran'") + "<"
    html = files["report.html"].decode()
    theirs = re.sub(r'id="vega-library">[^<]*<', lambda _: library, html).encode()
    assert RAN in served(theirs, guarded=False)
    assert RAN not in served(theirs)


def test_planted_titles_names_and_labels_run_nothing_and_the_chart_comes_alive(served, results, page):
    dataset = replace(page.dataset, title=PLANTED, origin=PLANTED)
    estimators = tuple(replace(each, title=f"{each.title} {PLANTED}") for each in page.estimators)
    labels = {name: f"{words} {PLANTED}" for name, words in page.panels_and_forms.items()}
    planted = replace(
        page, title=f"T {PLANTED}", dataset=dataset, estimators=estimators, panels_and_forms=labels
    )
    html = render_study(results, planted)["report.html"]
    for guarded in (True, False):
        seen = served(html, guarded=guarded)
        assert RAN not in seen
        assert re.search(r'id="live-chart"[^>]*>.*?mark-symbol', seen, re.DOTALL)


@pytest.mark.parametrize("picture", PICTURES)
def test_a_strangers_card_runs_nothing(served, files, picture):
    card = Card.from_json(files["card.json"])
    words = dict.fromkeys(("title", "headline", "kind", "source", "commit", "data_source"), PLANTED)
    planted = replace(card, **words, datasets=[PLANTED], estimators=[PLANTED], figure_svg=PICTURES[picture])
    index = render_index([planted])["index.html"]
    for guarded in (True, False):
        assert RAN not in served(index, guarded=guarded)


def test_our_own_pictures_are_shown(files):
    card = Card.from_json(files["card.json"])
    assert render_index([card])["index.html"].count(b"<svg") == 3  # the overview in two widths, and its own
