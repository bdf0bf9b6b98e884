"""The pages as a browser lays them out, and what their controls do."""

import base64
import html as escaping
import importlib.resources
import json
import re
import subprocess
import threading
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import uvicorn

from flows import serve
from flows.studies.find_study import readable_studies
from reports.pages.index import render_index
from reports.pages.release_page import render_release
from reports.pages.study import render_study
from reports.render import SCRIPT, PageTable, page_script, render_page
from tasks.report.build_page import build_page
from tasks.run.compute import compute_block
from tasks.scorecard.claims import load_scorecard
from tasks.scorecard.judging import scorecard_page
from tests.bench.league import page as league
from tests.builders import CHROMIUM
from tests.flows.small_project import until
from tests.reports.devtools import opened_tab
from tests.reports.synthetic import entry, figure_4b, replaced
from tests.tasks.test_membership import study  # noqa: F401

pytestmark = pytest.mark.browser


def javascript(name):
    return Path(__file__).with_name(f"{name}.js").read_text(encoding="utf-8")


PARTS = tomllib.loads(Path(__file__).with_name("pages.toml").read_text(encoding="utf-8"))
LAYOUT = javascript("layout")
ANSWER = f"<pre id=answer></pre><script>{javascript('answer')}</script>"


def opened(address, folder):
    """Let Chromium open a page until the page's own clock, which nothing else moves, says hours later."""
    if not CHROMIUM:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    command = [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", "--dump-dom", "--window-size=1400,3200"]
    command += ["--virtual-time-budget=10000000", "--enable-logging=stderr", "--v=0"]
    return subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=True)


def look(html: str, width: int, folder, script: str = LAYOUT) -> dict:
    """Return what a script finds in a page of a width, or alone in the window; the console stays empty."""
    function = f"async (page, view) => {{ {script} }}"
    if script == LAYOUT:
        style = f"iframe {{ border: 0; width: {width}px; height: 3000px }}"
        onload = "answer(contentDocument, contentWindow, look)"
        content = f"<!doctype html><style>{style}</style>{ANSWER}<script>const look = {function}</script>"
        content += f'<iframe srcdoc="{escaping.escape(html)}" onload="{onload}">'
    else:
        content = f"{html}{ANSWER}<script>answer(document, window, {function})</script>"
    for place in (folder, folder.parent):
        (place / SCRIPT).write_bytes(page_script())
    (folder / "frame.html").write_text(content, encoding="utf-8")
    done = opened((folder / "frame.html").as_uri(), folder)
    assert "CONSOLE" not in done.stderr
    found = re.search(r'<pre id="answer">(.+?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, "the page did not load"
    return json.loads(escaping.unescape(found.group(1)))


def test_dark_mode_changes_page_and_figures(report, tmp_path):
    html = report.files["report.html"].decode()
    pages = (html.replace("(prefers-color-scheme: dark)", media) for media in ("not all", "all"))
    by_day, by_night = (look(each, 800, tmp_path) for each in pages)
    for part in ("background", "ink", "chart"):
        assert by_day[part] != by_night[part]


def index_page(report, *_):
    longer = entry(report, "a_second_study_with_a_long_name", {"title": "W" * 60})
    return render_index([entry(report), longer])["index.html"].decode()


def release_page(*_):
    terms = ["Intercept", "C(insurance, Treatment('basic'))[T.none]:age", "age", "a_column_of_numbers" * 4]
    answer = [{"name": name, "estimate": -123.456, "lower": -234.5, "upper": -12.3} for name in terms]
    bins = {name: [0.1 * k for k in range(1, 11)] for name in ("predicted", "observed", "std_error")}
    more = {"rows": [100.0] * 10, "residual_std": [1.0] * 10}
    release = {"answer": answer, "model": {"family": "poisson", "n": 1000, "formula": " + ".join(terms)}}
    release |= {"estimator": "preconditioned_glm", "interval_note": "", "binned_fit": {**bins, **more}}
    record = PARTS["record"]
    return render_release({**record, "release": {**record["release"], **release}}).decode()


def printed_page(_, results, page):
    table = {"name": "Figure 3", "columns": "d", "values": [5], "printed": [["1/n^2", 0.5, "0.25 (0.01)"]]}
    figures = figure_4b(), figure_4b(**table)
    with_figures = replace(page, figures=figures, papers={"A": "The paper"})
    return render_study(results, with_figures).files["report.html"].decode()


def own_table_page(_, results, page):
    rows = [[f"C(region)[T.{'south' * 5}]:age_{j}", 1.0, -123.456, 2345.678, 0.9] for j in range(3)]
    about = {"estimator": "adassp", "form": "", "epsilon": 0.5, "n": 20_000, "numbers": "terms"}
    content = {**about, "rows": rows, "left_out": [], "covers": "Intervals cover something."}
    own = replace(replaced(page, own_table=content), n_coefficients=3)
    return render_study(results, own).files["report.html"].decode()


def data_card(report, *_):
    return next(text.decode() for name, text in report.files.items() if name.startswith("data-"))


def attack_page(request):
    spec = request.getfixturevalue("study")
    results = pd.concat([compute_block(each) for each in spec.blocks("standard", replicates=2, seed=3)])
    return render_study(results, build_page(spec, results, {"data": []})).files["report.html"].decode()


def league_page(_):
    return league.league_page(PARTS["league"], "Measured in a test.")[0].decode()


def scorecard(request):
    folder = request.getfixturevalue("tmp_path") / "scorecard"
    about = {"profile": "smoke", "seed": 1, "command": "dpcost run scorecard", "started": "", "evidence": {}}
    return scorecard_page(load_scorecard(), {}, readable_studies(), folder, about).read_text(encoding="utf-8")


def protocol_page(*_):
    about = PARTS["protocol"]
    tables = {name: PageTable(**about[name], stacked=True) for name in ("plan", "charges")}
    estimate = PageTable(**about["estimate"])
    tables |= {"estimates": {"primary": estimate, "other": "There is none."}, "tests": {"primary": estimate}}
    return render_page("pages/protocol.jinja", **(about | tables))[0].decode()


def of_study(make):
    return lambda request: make(*(request.getfixturevalue(name) for name in ("report", "results", "page")))


PAGES = {
    "report": lambda request: request.getfixturevalue("report").files["report.html"].decode(),
    "data card": lambda request: data_card(request.getfixturevalue("standin_report")),
    "own table": of_study(own_table_page), "printed figures": of_study(printed_page),
    "index": of_study(index_page),
    "release": release_page, "attack": attack_page, "league": league_page, "scorecard": scorecard,
    "protocol": protocol_page,
}  # fmt: skip


@pytest.fixture(params=PAGES)
def kind_of_page(request):
    return PAGES[request.param](request)


def fits_a_phone(html, folder):
    seen = look(html, 390, folder)
    assert seen["scroll"] <= 390
    assert [seen[what] for what in ("clipped", "touching", "small", "hidden", "menus")] == [[]] * 5


def test_every_kind_of_page_fits_a_phone_and_can_be_read_there(kind_of_page, tmp_path):
    fits_a_phone(kind_of_page, tmp_path)


AXE = "return (await axe.run(page)).violations.map((found) => [found.id, found.nodes[0].html]);"


def test_a_checker_of_accessibility_finds_nothing(kind_of_page, tmp_path):
    checker = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    assert look(f"{kind_of_page}<script>{checker}</script>", 1100, tmp_path, AXE) == []


SEARCH = """
const chosen = page.querySelector(".filters").dataset.items;
const items = () => [...page.querySelectorAll(chosen)].filter((item) => item.offsetParent);
await pause(1000);
const folded = [...page.querySelectorAll("details")];
const search = page.getElementById("search");
folded.forEach((part) => (part.open = true));
const all = items().length;
folded.forEach((part) => (part.open = false));
search.value = "glm_lowdim";
search.dispatchEvent(new view.Event("input"));
return [all, items().length, folded.every((part) => part.open)];
"""


def test_a_search_leaves_the_claims_with_its_words(request, tmp_path):
    whole, left, is_open = look(scorecard(request), 1100, tmp_path, SEARCH)
    assert 0 < left < whole
    assert is_open


MENUS = "[...document.querySelectorAll('select')].filter((e) => e.offsetParent).map((e) => e.id || e.name)"
BOXES = "[...document.querySelectorAll('#labels button:not(:disabled)')].map((each) => each.title)"
FOCUS = """
(() => { const at = document.activeElement, known = "a, button, select, input, summary, pre, [role=region]";
  const seen = at.matches(known) && getComputedStyle(at).outlineStyle != "none";
  return seen ? at.id || at.name || at.title || at.tagName : at.tagName; })()
"""


TO_FOCUS = (
    "(name) => [...document.querySelectorAll('[name], [title]')].find(e => [e.name, e.title].includes(name))"
)


def test_the_tab_key_reaches_each_menu_in_sight_and_the_arrow_keys_choose(report, tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / SCRIPT).write_bytes(page_script())
    (folder / "page.html").write_bytes(report.files["report.html"])
    with opened_tab(folder / "page.html", tmp_path) as tab:
        menus = tab.run(MENUS)
        assert {"at_panel", "at_epsilon", "at_delta_rule", "axis"} <= set(menus)
        reached = []
        while "BODY" not in reached and len(reached) < 100:
            tab.press("Tab", 9)
            reached.append(tab.run(FOCUS))
        assert [each for each in reached if each in menus] == menus
        lines = tab.run(BOXES)
        assert set(lines) <= set(reached)
        keys = dict.fromkeys(("at_panel", "at_epsilon", "at_delta_rule"), ("ArrowDown", 40))
        for name, key in (keys | dict.fromkeys(lines[:2], (" ", 32))).items():
            shown = "document.querySelector('#live-chart svg').outerHTML"
            before = tab.run(shown)
            tab.run(f"({TO_FOCUS})({json.dumps(name)}).focus()")
            tab.press(*key)
            tab.run("new Promise((done) => setTimeout(done, 300))")
            assert tab.run(shown) != before, name


NAMES = """
(() => { const all = [...document.querySelectorAll("#labels button")];
const boxes = all.map((each) => each.getBoundingClientRect());
const cut = (e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1;
const parts = all.flatMap((e) => [e, e.firstChild]);
return { names: all.length, cut: parts.filter((e) => e.clientWidth && cut(e)).length,
  covered: boxes.slice(1).filter((box, place) => box.top < boxes[place].bottom - 1).length }; })()
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_at_line_ends_are_shown_whole_and_cover_no_other(results, page, tmp_path, width):
    named = {"adassp": "A regression with a name of more than one line at the end of its line in a chart"}
    named["sheffet_ols"] = "Sketched" + " and again" * 8
    longer = [replace(each, title=named.get(each.name, each.title)) for each in page.estimators]
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / SCRIPT).write_bytes(page_script())
    report = render_study(results, replace(page, estimators=tuple(longer)))
    (folder / "page.html").write_bytes(report.files["report.html"])
    with opened_tab(folder / "page.html", tmp_path, width=width) as tab:
        until(lambda: tab.run("document.querySelectorAll('#labels button').length"))
        found = tab.run(NAMES)
    assert found["names"] > 4
    assert (found["cut"], found["covered"]) == (0, 0)


A4 = {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
FOLDED = "[...document.querySelectorAll('details > :not(summary)')].filter(e => !e.checkVisibility()).length"
WHOLE = "[...document.querySelectorAll('figure, tr')].every(e => getComputedStyle(e).breakInside == 'avoid')"
CUT_OFF = """
[...document.querySelectorAll("table, img.drawn")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.height > 0 && box.right > innerWidth + 1;
}).map((each) => each.alt || each.caption?.textContent)
"""


def test_print_opens_what_is_folded_and_cuts_no_table_and_no_chart(kind_of_page, tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / SCRIPT).write_bytes(page_script())
    (folder / "page.html").write_text(kind_of_page, encoding="utf-8")
    with opened_tab(folder / "page.html", tmp_path, width=718) as tab:  # of A4 between its margins
        tab.send("Emulation.setEmulatedMedia", media="print")
        tab.send("Emulation.setDeviceMetricsOverride", **A4)
        assert tab.run(CUT_OFF) == []
        assert tab.run(FOLDED) == 0
        assert tab.run(WHOLE)
        assert base64.b64decode(tab.send("Page.printToPDF")["data"]).startswith(b"%PDF")


# Where the answers are: what privacy costs, which method, is it the noise, is it the paper's figure and what
# differs, what if ε = 1, can I trust ε, what are the data, where are numbers and commands.
QUESTIONS = """
const has = (choice, words) => [...page.querySelectorAll(choice)].find((e) => e.textContent.includes(words));
const answers = { cost: has("h1", "noise of privacy"), method: has(".sentence", "Preconditioned regression"),
  part: has("dt", "hardly any noise"), chart: has("#live-chart svg .role-axis-label", ""),
  paper: has("[role=tab]", "of the paper"), epsilon: has("#menus .vega-bind", "ε"),
  trust: has("li", "Certified"), data: has("section p", "The data are real"),
  numbers: has("[role=tab]", "Download"), table: has("[role=tab]", "Table") };
const place = (e) => e ? (e.getBoundingClientRect().bottom + view.scrollY) / 900 : null;
const words = page.querySelector("main").innerText.split(/\\s+/).filter(Boolean).length;
return [Object.entries(answers).map(([name, e]) => [name, place(e)]), words];
"""


def test_ten_questions_are_answered_on_the_first_screen_and_a_third(results, page, tmp_path):
    with_figure = replace(page, figures=(figure_4b(),), papers={"A": "The paper"})
    report = render_study(results, with_figure)
    places, words = look(report.files["report.html"].decode(), 1280, tmp_path, QUESTIONS)
    assert [each for each in places if each[1] is None or each[1] > 1.3] == []
    assert words <= 600
    assert len(report.files["report.md"].decode().split()) <= 1300
    assert dict(places)["chart"] <= 1


PLANTED = "<img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>"


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A function that puts pages into ``/reports`` of a server and returns what Chromium makes of one."""
    monkeypatch.setattr(serve, "_knows", lambda headers, authentication: True)
    folder = tmp_path / "out"
    folder.mkdir()
    whole = serve.with_reports(lambda scope, receive, send: None, folder, "a:b", ["127.0.0.1"])
    server = uvicorn.Server(uvicorn.Config(whole, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)

    def made_of(page, *, guarded=True):
        place = folder / "study" / "page.html"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(page)
        host = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        return opened(f"{host}/reports/study/page.html" if guarded else place.as_uri(), tmp_path).stdout

    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield made_of
    finally:
        server.should_exit = True
        thread.join()


RAN = "<title>ran</title>"


def test_a_strangers_page_runs_no_script_on_the_server(served, report, tmp_path):
    page = b"<!doctype html><title>x</title>" + PLANTED.encode()
    assert RAN in served(page, guarded=False)  # it would
    assert RAN not in served(page)
    (tmp_path / "out" / "theirs.js").write_text("document.title='ran'")
    (tmp_path / "out" / SCRIPT).write_text("document.title='ran'")
    html = report.files["report.html"].decode()
    for name in (SCRIPT, "theirs.js"):
        theirs = html.replace(f"../{SCRIPT}", f"../{name}").encode()
        assert RAN in served(theirs, guarded=False)
        assert RAN not in served(theirs)  # the server has a script of its own in that place


def test_a_page_without_its_script_shows_its_picture(report, tmp_path):
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "page.html").write_bytes(report.files["report.html"])
    seen = opened((tmp_path / "alone" / "page.html").as_uri(), tmp_path).stdout
    assert "mark-symbol" not in seen
    assert '<html lang="en">' in seen  # not live
