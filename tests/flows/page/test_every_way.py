"""What else a person does on the page: care for the ledger, lost estimates, figures, tables, refusals."""

import time
from unittest.mock import Mock

import numpy as np
import pytest

import tasks.release.release
from data.ledger import open_ledger
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tests.flows.page.driving import (
    act,
    ask,
    click,
    confirm,
    declare,
    do,
    fill,
    foresee,
    people,
    served,
    wait,
    window,
)
from tests.flows.page.test_walks import WALKS, cohort
from tests.flows.small_project import until

pytestmark = pytest.mark.browser

SAID = (
    "[...document.querySelectorAll('.shiny-notification-content-text')].map((each) => each.innerText).join()"
)
PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
WIDE = """
[...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > %d + 1)
.map((each) => each.outerHTML.slice(0, 120)).slice(0, 5)
"""
CLOSE = "document.querySelectorAll('.shiny-notification-close').forEach((each) => each.click())"


def hears(tab, words):
    """Wait until the page has told something; close what it told."""
    until(lambda: words in tab.run(SAID))
    tab.run(CLOSE)
    until(lambda: not tab.run(SAID))


def unfold(tab):
    tab.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")


def test_curves_have_figures_in_three_formats_and_a_plan_has_means_by_level(tmp_path):
    cohort(np.random.default_rng(1)).to_csv(tmp_path / "own.csv", index=False)
    with served(tmp_path, "own.csv") as address, window(address, tmp_path / "browser") as tab:
        do(tab, WALKS["epidemiologist"][1])
        do(tab, "2 Questions; kind=survival; time=time; event=event; right=smoker; add")
        do(tab, "kind=regression; left=age; right=smoker")
        unfold(tab)
        do(tab, "by_level=smoker; add; 3 Forecast")
        until(lambda: tab.run("!!document.querySelector('#half_widths svg.chart polyline')"))  # of curves
        assert "terms more" in tab.text()
        foresee(tab)
        unfold(tab)
        click(tab, "Back up the ledger")
        hears(tab, "keep it as secret")
        assert (tmp_path / "own.ledger-backup").stat().st_mode & 0o777 == 0o600
        click(tab, "Verify the ledger")
        hears(tab, "The ledger is complete")
        confirm(tab, "own")
        until(lambda: "Released." in tab.text(), timeout=300)
        until(lambda: "survival curves.pdf" in tab.text())
        for kind, head in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}.items():
            assert (tmp_path / "own-results" / f"survival curves.{kind}").read_bytes().startswith(head)
        means = (tmp_path / "own-results" / "means regression by smoker.md").read_text()
        assert "yes" in means
        assert "no" in means


def test_a_reserve_is_given_back_and_a_lost_estimate_is_charged_again(tmp_path, monkeypatch):
    folder = people(tmp_path)
    monkeypatch.setenv("DPCOST_HOME", str(folder / "home"))
    with served(folder) as address, window(address, tmp_path / "browser") as tab:
        declare(tab)
        ask(tab)
        foresee(tab)
        plan = read_plan(folder / "people-plan.toml")
        account = open_ledger().account("people")
        reserve_plan(prepare_plan(plan, account), open_ledger())
        tab.open(address, "Still missing or wrong")
        wait(tab)
        click(tab, "4 Budget")
        unfold(tab)
        click(tab, "Give it back; nothing was drawn")
        hears(tab, "is given back")
        assert [each.state for each in open_ledger().account("people").charges] == []
        reserve_plan(prepare_plan(plan, open_ledger().account("people")), open_ledger())
        with monkeypatch.context() as patch:
            patch.setattr(tasks.release.release, "draw_answer", Mock(side_effect=MemoryError))
            (reserve,) = open_ledger().account("people").charges
            request = plan.request("regression", reserve.epsilon)
            with pytest.raises(MemoryError):
                tasks.release.release.release(open_ledger(), request, plan.data)
        assert [each.state for each in open_ledger().account("people").charges] == ["pending"]
        fill(tab, plan_epsilon="2")  # pays for another charge
        click(tab, "Forecast all questions and divide ε")
        until(lambda: "All together" in tab.text())
        click(tab, "5 Release")
        tab.run("document.getElementById('again').click()")
        confirm(tab)
        until(lambda: "Released." in tab.text() or "It ended without" in tab.text(), timeout=120)
        assert "Released." in tab.text(), tab.text()
        states = [each.state for each in open_ledger().account("people").charges]
        assert sorted(states) == ["pending", "released"]
        click(tab, "3 Forecast")
        unfold(tab)
        until(lambda: "released half-widths are within a factor of 1.5" in tab.text())


# What a person does wrong on a screen, words of what the page says, and what resolves it on this screen.
REFUSALS = [
    ("1 Columns", "number_upper_0=old", "upper", "number_upper_0=90"),
    ("1 Columns", "number_upper_0=3", "upper", "number_upper_0=90"),
    ("1 Columns", "category_categories_2=a, a", "categories", "category_categories_2=a, b"),
    ("1 Columns", "privacy_unit=", "what a row or person is", "privacy_unit=a person"),
    ("1 Columns", "size=many", "rows", "size=3000"),
    ("1 Columns", "unit=people", "choose its column", "unit=one"),
    ("1 Columns", "weights=age; max_weight=", "weight", "weights="),
    ("2 Questions", "left=cost; formula=cost ~ height; add", "height", "formula=cost ~ age; add"),
    ("2 Questions", "formula=cost ~ age; test=age = x y; add", "test", "test=age = 0; add"),
    ("2 Questions", "kind=survival; add", "regression", "kind=mean; left=age; add"),
    ("3 Forecast", "wanted=four; aim", "four", "wanted=; aim"),
    ("4 Budget", "plan_epsilon=much; split", "epsilon", "plan_epsilon=1; split"),
    ("4 Budget", "plan_epsilon=90; split", "use less epsilon", "plan_epsilon=1; split"),
    ("4 Budget", "plan_delta=0.5; split", "less than or equal to 0.01", "plan_delta=1e-06; split"),
    (
        "4 Budget",
        "backup_file=; Back up the ledger",
        "check the path",
        "backup_file=b; Back up the ledger",
    ),
    ("5 Release", "confirm=no; Charge and release", "Nothing was charged", "confirm=people"),
]
BUTTONS = {"aim": "Make it a target of the plan", "split": "Forecast all questions and divide ε"}
FAULTS = """
[...document.querySelectorAll("main li, .banner, .shiny-notification-error, .shiny-notification-warning")]
.filter((each) => each.offsetParent && !each.closest("details")).map((each) => each.innerText).join(" ")
"""


def comes(tab, words, within=30):
    """Return whether the screen says soon that something is wrong, or soon no longer does."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        wait(tab)
        if words(tab.run(FAULTS)):
            return True
    return False


def test_each_refusal_has_a_control_on_its_screen_that_resolves_it(tmp_path):
    """The number of refusals without one is zero."""
    with served(people(tmp_path)) as address, window(address, tmp_path / "browser") as tab:
        declare(tab)
        ask(tab)
        foresee(tab)
        unseen, unresolved = [], []
        for screen, wrong, words, right in REFUSALS:
            click(tab, screen)
            for actions in (wrong, right):
                unfold(tab)
                for action in actions.split("; "):
                    act(tab, BUTTONS.get(action, action))
                if actions == wrong:
                    unseen += (
                        [] if comes(tab, lambda text, it=words: it in text) else [(wrong, tab.run(FAULTS))]
                    )
                    tab.run(CLOSE)
            if not comes(tab, lambda text, it=words: it not in text):
                unresolved.append((screen, right, tab.run(FAULTS)))
                tab.run(CLOSE)
        assert (unseen, unresolved) == ([], [])


def test_names_of_100_characters_break_no_layout(tmp_path):
    long, level = "a_long_name_" * 8 + "abcd", "level " * 16 + "last"
    script = "<script>document.title = 'run'</script>"  # of which no page runs anything
    rows = "\n".join(f"{k % 90},{k % 7},{(level, script)[k % 2]}" for k in range(2000))
    (tmp_path / "own.csv").write_text(f"{long}x,{long}y,{long}z\n{rows}\n")
    with served(tmp_path, "own.csv") as address, window(address, tmp_path / "browser") as tab:
        do(tab, "all; unit=one; source_all=a law; number_lower_0=0; number_upper_0=90; number_lower_1=0")
        do(tab, f"number_upper_1=7; category_categories_2={level}, {script}; 2 Questions; left={long}x")
        do(tab, f"right={long}y; right={long}z; add")
        foresee(tab)
        for width in (390, 1280):
            tab.send("Emulation.setDeviceMetricsOverride", **PHONE | {"width": width, "mobile": width < 600})
            for step in ("1 Columns", "2 Questions", "3 Forecast", "4 Budget", "5 Release"):
                tab.run(
                    f"[...document.querySelectorAll('a')].find((e) => e.innerText.trim() == '{step}').click()"
                )
                wait(tab)
                assert tab.run("document.documentElement.scrollWidth") <= width, (step, tab.run(WIDE % width))
                assert tab.run("document.title") == "dpcost: own"
