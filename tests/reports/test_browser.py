"""The pages as a browser lays them out."""

import json
import re
import shutil
import subprocess

import pytest

from reports.pages.index import Card, render_index

pytestmark = pytest.mark.browser

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)

FRAME = """<!doctype html><body><style>iframe {{ border: 0; width: {width}px; height: 3000px }}</style>
<iframe id=f srcdoc="{page}"></iframe>
<pre id=answer></pre><script>
document.getElementById("f").addEventListener("load", (event) => {{
  const page = event.target.contentDocument, view = event.target.contentWindow;
  const shown = [...page.querySelectorAll("svg")].filter((svg) => svg.getBoundingClientRect().width > 0);
  const clipped = shown.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {{
    const box = text.getBoundingClientRect(), frame = svg.getBoundingClientRect();
    const aside = box.right > frame.right + 1 || box.left < frame.left - 1;
    return box.width > 0 && (aside || box.bottom > frame.bottom + 1 || box.top < frame.top - 1);
  }}).map((text) => text.textContent));
  document.getElementById("answer").textContent = JSON.stringify({{
    scroll: page.documentElement.scrollWidth, width: view.innerWidth, clipped, figures: shown.length,
    background: view.getComputedStyle(page.body).backgroundColor,
    ink: view.getComputedStyle(page.body).color,
    line: view.getComputedStyle(page.querySelector("svg text")).fill,
  }});
}});
</script>"""


def look(html: str, width: int, folder) -> dict:
    if CHROMIUM is None:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    escaped = html.replace("&", "&amp;").replace('"', "&quot;")
    (folder / "frame.html").write_text(FRAME.format(width=width, page=escaped), encoding="utf-8")
    command = [
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-sync", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000"),
        *("--window-size=1400,3200", "--dump-dom", (folder / "frame.html").as_uri()),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="answer">(.*?)</pre>', dom, flags=re.DOTALL)
    assert found, "the page did not load"
    return json.loads(found.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.mark.parametrize("width", [360, 390, 800, 1200])
@pytest.mark.parametrize("fixture", ["files", "standin_files"])
def test_nothing_overflows_or_is_clipped(fixture, width, request, tmp_path):
    seen = look(request.getfixturevalue(fixture)["report.html"].decode(), width, tmp_path)
    assert seen["width"] == width
    assert seen["scroll"] <= width
    assert seen["clipped"] == []
    assert seen["figures"] > 5


def test_dark_mode_changes_page_and_figures(files, tmp_path):
    html = files["report.html"].decode()
    dark = html.replace("(prefers-color-scheme: dark)", "all")
    light = html.replace("(prefers-color-scheme: dark)", "not all")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_day, by_night = look(light, 800, tmp_path / "a"), look(dark, 800, tmp_path / "b")
    for part in ("background", "ink", "line"):
        assert by_day[part] != by_night[part]


def test_index_fits_a_phone(files, tmp_path):
    seen = look(render_index([Card.from_json(files["card.json"])])["index.html"].decode(), 360, tmp_path)
    assert seen["scroll"] <= 360
    assert seen["clipped"] == []
