"""The page in Chromium: each step, the keyboard alone, faults, accessibility, a phone and dark mode."""

import importlib.resources
import json
import re
import shutil
import time

import pytest

from tests.flows.page.driving import (
    ask,
    check,
    click,
    confirm,
    declare,
    fill,
    foresee,
    people,
    served,
    wait,
    window,
)
from tests.flows.small_project import until

pytestmark = pytest.mark.browser

STEPS = ("1 Columns", "2 Questions", "3 Forecast", "4 Budget", "5 Release")
FORMATS = ("docx", "tex", "md", "csv")
DECLARED = {
    "number_lower_0": "18",
    "number_upper_0": "90",
    "number_lower_1": "0",
    "number_upper_1": "200",
    "category_categories_2": "a, b",
}
FOCUSED = """
(({ id, name, value, innerText }) => [id, `${name}=${value}`, (innerText || "").trim()])(
  document.activeElement
)
"""
AXE = (
    "axe.run().then((found) => found.violations.map((each) => [each.id, each.nodes.map((one) => one.html)]))"
)


@pytest.fixture(scope="module")
def foreseen(tmp_path_factory):
    """Give a window whose plan is declared, foreseen and not yet released, and its folder."""
    folder = people(tmp_path_factory.mktemp("page"))
    with served(folder) as address, window(address, folder / "browser") as tab:
        declare(tab)
        ask(tab)
        foresee(tab)
        yield tab, folder, address


def foresee_again(tab):
    """Divide ε again, if the files changed since it was divided."""
    click(tab, "4 Budget")
    if "All together" not in tab.text():
        click(tab, "Forecast all questions and divide ε")
        until(lambda: "All together" in tab.text())


def releases(folder):
    return sorted((folder / "people-results").rglob("release.json"))


def test_accessible_on_a_phone_and_in_the_dark(foreseen):
    tab, *_ = foreseen
    checker = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    tab.run(checker)
    for dark in ("light", "dark"):
        tab.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": dark}])
        for step in STEPS:
            click(tab, step)
            time.sleep(1)
            assert tab.run(AXE) == [], (dark, step)
    background = "getComputedStyle(document.body).backgroundColor"
    by_night = tab.run(background)
    tab.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    until(lambda: tab.run(background) != by_night)
    tab.send("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    for step in STEPS:
        tab.run(f"[...document.querySelectorAll('a')].find((e) => e.innerText.trim() == '{step}').click()")
        wait(tab)
        assert tab.run("document.documentElement.scrollWidth") <= 390, step
    tab.send("Emulation.clearDeviceMetricsOverride")


def test_the_forecast_follows_the_budget_and_a_guess(foreseen):
    tab, folder, _ = foreseen
    written = (folder / "people.toml").read_bytes()
    click(tab, "1 Columns")
    click(tab, "3 Forecast")
    assert (folder / "people.toml").read_bytes() == written
    until(lambda: "±" in tab.text() and tab.run("!!document.querySelector('svg.chart polyline')"))
    for step in ("4 Budget", "3 Forecast"):
        click(tab, step)
    assert "age" in tab.run("document.getElementById('term').innerText")  # on each visit
    before = tab.run("document.getElementById('half_widths').innerText")
    tab.run("Shiny.setInputValue('epsilon', 0.5)")
    until(lambda: "At ε = 0.5" in tab.text())
    assert tab.run("document.getElementById('half_widths').innerText") != before
    fill(tab, wanted="4")
    assert "needs ε of about" in tab.run("document.getElementById('needed_budget').innerText")
    fill(tab, wanted="four")
    click(tab, "Make it a target of the plan")
    assert "'four'" in tab.run("document.querySelector('.shiny-notification').innerText")
    assert "four" not in (folder / "people-plan.toml").read_text()
    tab.run("document.querySelector('.shiny-notification-close').click()")
    until(lambda: not tab.run("!!document.querySelector('.shiny-notification')"))
    fill(tab, guessed="explained", guess_explained="0.3")
    assert "explained = 0.3" in (folder / "people.toml").read_text()
    fill(tab, guess_explained="")
    assert "explained" not in (folder / "people.toml").read_text()


def test_a_forecast_under_way_is_shown(foreseen):
    tab, *_ = foreseen
    click(tab, "4 Budget")
    fill(tab, plan_epsilon="0.9")
    click(tab, "Forecast all questions and divide ε")
    until(lambda: "Forecasting …" in tab.text())
    until(lambda: "All together" in tab.text())
    fill(tab, plan_epsilon="1")


def test_a_refused_question_is_explained_and_not_kept(foreseen):
    tab, folder, _ = foreseen
    click(tab, "2 Questions")
    fill(tab, formula="cost ~ height")
    click(tab, "Add the question")
    assert "height" in tab.run("document.querySelector('.shiny-notification').innerText")
    assert "height" not in (folder / "people-plan.toml").read_text()


def test_a_release_keeps_to_what_was_shown(foreseen):
    tab, folder, _ = foreseen
    foresee_again(tab)
    click(tab, "5 Release")
    study = folder / "people.toml"
    written = study.read_bytes()
    study.write_bytes(written.replace(b"upper = 90", b"upper = 95"))
    fill(tab, confirm="people")
    click(tab, "Charge and release")
    assert "changed" in tab.text()
    assert releases(folder) == []
    study.write_bytes(written)


def test_a_closed_window_and_a_second_click_make_one_release(foreseen, tmp_path):
    tab, folder, address = foreseen
    foresee_again(tab)
    click(tab, "5 Release")
    fill(tab, confirm="no")
    click(tab, "Charge and release")
    assert "Nothing was charged" in tab.text()
    confirm(tab, clicks=2)
    tab.send("Page.navigate", url="about:blank")  # the window is closed
    until(lambda: releases(folder), timeout=180)
    with window(address, tmp_path / "another", shows="Results") as other:  # it opens on the release
        until(lambda: "Released." in other.text(), timeout=120)
        inner = "document.querySelector('iframe.results')?.contentDocument?.body?.innerText.length || 0"
        until(lambda: other.run(inner) > 100)
        assert {f"models.{kind}" for kind in FORMATS} <= set(other.text().split())
        click(other, "4 Budget")
        assert other.text().count("people-plan/regression") == 1
    record = json.loads(releases(folder)[0].read_text())
    assert record["release"]["answer"]


def test_the_keyboard_alone_leads_from_columns_to_a_release(tmp_path):
    with served(people(tmp_path)) as address, window(address, tmp_path / "browser") as tab:
        for column in ("age", "cost", "group"):
            press_on(tab, f"used={column}", " ", 32)
        press_on(tab, "unit=one", " ", 32)
        write(tab, "source_all", "a law")
        for name, text in DECLARED.items():
            write(tab, name, text)
        press_on(tab, "1 Columns", "ArrowRight", 39)
        press_on(tab, "left", "ArrowDown", 40)  # from age to cost
        for column in ("age", "group"):
            press_on(tab, f"right={column}", " ", 32)
        press_on(tab, "Add the question", " ", 32)
        press_on(tab, "2 Questions", "ArrowRight", 39)
        until(lambda: tab.run("!!document.querySelector('svg.chart polyline')"))
        press_on(tab, "3 Forecast", "ArrowRight", 39)
        press_on(tab, "Open the budget", " ", 32)
        press_on(tab, "Forecast all questions and divide ε", " ", 32)
        until(lambda: "All together" in tab.text())
        press_on(tab, "4 Budget", "ArrowRight", 39)
        write(tab, "confirm", "people")
        press_on(tab, "Charge and release", " ", 32)
        until(lambda: "Released." in tab.text(), timeout=180)
        until(lambda: "Write the results again" in tab.text())
        assert 'formula = "cost ~ age + group"' in (tmp_path / "people-plan.toml").read_text()
        assert releases(tmp_path)


def press_on(tab, name, key, code):
    """Press Tab until a field, box or button has the focus, and press a key on it."""
    for _ in range(80):
        if name in tab.run(FOCUSED):
            break
        tab.press("Tab", 9)
    else:
        raise AssertionError(f"no Tab reaches {name}")
    tab.press(key, code)
    wait(tab)


def write(tab, name, text):
    press_on(tab, name, "End", 35)
    tab.send("Input.insertText", text=text)
    tab.press("Tab", 9)
    wait(tab)


def test_a_double_click_adds_one_question_and_one_without_intervals_needs_a_typed_word(tmp_path):
    with served(people(tmp_path, n=300)) as address, window(address, tmp_path / "browser") as tab:
        declare(tab)
        click(tab, "2 Questions")
        fill(tab, kind="table1", left="group")
        check(tab, "right", "age", "cost")
        tab.run("const add = document.getElementById('add'); add.click(); add.click();")
        wait(tab)
        plan = (tmp_path / "people-plan.toml").read_text()
        assert plan.count('table1 = "group ~ age + cost"') == 1
        click(tab, "Add the question")
        until(lambda: tab.run("!!document.querySelector('.shiny-notification')"))
        assert "'baseline table'" in tab.run("document.querySelector('.shiny-notification').innerText")
        assert (tmp_path / "people-plan.toml").read_text() == plan
        click(tab, "3 Forecast")
        until(lambda: "±" in tab.text())  # 95% intervals are the default of tables, too
        ask(tab)
        click(tab, "4 Budget")
        click(tab, "Open the budget")
        fill(tab, plan_epsilon="0.02")
        click(tab, "Forecast all questions and divide ε")
        until(lambda: "All together" in tab.text())
        click(tab, "5 Release")
        assert "No interval is expected for" in tab.text()
        fill(tab, confirm="people")
        click(tab, "Charge and release")
        until(lambda: "people without intervals" in tab.text())
        assert releases(tmp_path) == []
        confirm(tab, "people without intervals")
        until(lambda: "Released." in tab.text(), timeout=180)
        assert len(releases(tmp_path)) == 2


def test_two_windows_do_not_overwrite_each_other(tmp_path):
    with (
        served(people(tmp_path)) as address,
        window(address, tmp_path / "one") as one,
        window(address, tmp_path / "two") as two,
    ):
        fill(one, privacy_unit="a patient")
        fill(two, privacy_unit="a household")
        assert "changed outside this window" in two.text()
        assert 'privacy_unit = "a patient"' in (tmp_path / "people.toml").read_text()


def test_rows_are_read_in_the_release_alone(tmp_path):
    """The types of the columns are read before the page has an address; then no row until the release."""
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("no strace")
    trace = tmp_path / "trace"
    calls = "trace=read,pread64,openat,mmap,write,execve"
    words = [strace, "-f", "-qq", "-y", "-s", "300", "-e", calls, "-o", trace]
    with (
        served(people(tmp_path), wrapper=words) as address,
        window(address, tmp_path / "browser") as tab,
    ):
        declare(tab)
        ask(tab)
        click(tab, "3 Forecast")
        foresee(tab)
        click(tab, "5 Release")
        confirm(tab)
        until(lambda: "Released." in tab.text(), timeout=300)
    types, rest = trace.read_text().split("token=", 1)
    page, release = re.split(r'execve\(.*"protocol", "release"', rest, maxsplit=1)
    table = "/people.csv"
    assert table in types
    assert table not in page
    assert table in release
