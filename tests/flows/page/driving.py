"""``dpcost open`` in a process of its own, driven in Chromium as a person uses it."""

import base64
import json
import os
import sys
import time
from contextlib import contextmanager

from tests.builders import DPCOST
from tests.flows.small_project import until
from tests.own_processes import own_process
from tests.reports.devtools import browser

_SHOWN = "filter((each) => each.offsetParent)"
_BUSY = f"""
!document.documentElement || document.documentElement.classList.contains("shiny-busy") ||
[...document.querySelectorAll(".recalculating")].{_SHOWN}.length > 0
"""
_TYPE = """
(() => {
  const field = document.getElementById(%s);
  field.focus();
  field.value = %s;
  for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  field.blur();
})()
"""


@contextmanager
def served(folder, file="people.csv", wrapper=()):
    """Serve the page of a table in a folder; give its address."""
    log = folder / "page.log"
    environment = {**os.environ, "DPCOST_HOME": str(folder / "home")}
    with log.open("w") as output:
        options = {"cwd": folder, "env": environment, "stdout": output, "stderr": output}
        with own_process(
            [*wrapper, sys.executable, "-c", DPCOST, "open", *filter(None, [file]), "--no-browser"], **options
        ) as process:
            until(lambda: "token=" in log.read_text() or process.poll() is not None)
            yield next(word for word in log.read_text().split() if word.startswith("http"))


@contextmanager
def window(address, folder, *options, shows="Still missing or wrong"):
    """Open the page in a browser of its own, and wait until it shows a text."""
    folder.mkdir(exist_ok=True)
    with browser("about:blank", folder, "--window-size=1200,1000", *options) as tab:
        tab.send("Page.enable")
        tab.open(address, shows)
        wait(tab)
        yield tab


def wait(tab):
    """Wait until the page has answered."""
    time.sleep(0.4)  # it sends a change a moment later
    until(lambda: not tab.run(_BUSY))


def fill(tab, **fields):
    """Type into fields and leave each, or choose from menus."""
    for name, value in fields.items():
        until(lambda name=name: tab.run(f"!!document.getElementById({json.dumps(name)})"))
        tab.run(_TYPE % (json.dumps(name), json.dumps(value)))
        wait(tab)


def check(tab, name, *values):
    """Click boxes or radio buttons of a group."""
    for value in values:
        boxes = f"[...document.querySelectorAll('input[name={name}]')]"
        tab.run(f"{boxes}.find((each) => each.value == {json.dumps(value)}).click()")
    wait(tab)


def click(tab, words):
    buttons = f"[...document.querySelectorAll('a, button')].{_SHOWN}"
    tab.run(f"{buttons}.find((each) => each.innerText.trim() == {json.dumps(words)}).click()")
    wait(tab)


def act(tab, action):
    """Do one action of a person: click a button or a box, or fill a field."""
    name, is_field, value = action.partition("=")
    if not is_field:
        click(tab, {"all": "Use all columns", "add": "Add the question"}.get(name, name))
    elif tab.run(f"!!document.querySelector('input[name={name}]')"):
        check(tab, name, value)
    else:
        fill(tab, **{name: value})


def do(tab, actions):
    """Do actions of a person, between semicolons."""
    for action in actions.split("; "):
        act(tab, action)


def declare(tab):
    """Fill the first step for the table of `people`."""
    check(tab, "used", "age", "cost", "group")
    check(tab, "unit", "one")
    fill(tab, source_all="a law", number_lower_0="18", number_upper_0="90")
    fill(tab, number_lower_1="0", number_upper_1="200", category_categories_2="a, b")


def ask(tab):
    """Add a regression in the second step."""
    click(tab, "2 Questions")
    fill(tab, left="cost")
    check(tab, "right", "age", "group")
    click(tab, "Add the question")


def foresee(tab):
    """Open the budget and divide ε."""
    click(tab, "4 Budget")
    click(tab, "Open the budget")
    click(tab, "Forecast all questions and divide ε")
    until(lambda: "All together" in tab.text())


def confirm(tab, name="people", clicks=1):
    """Type the confirmation and click."""
    click(tab, "5 Release")
    fill(tab, confirm=name)
    button = "document.getElementById('release').click();"
    tab.run(button * clicks)
    until(lambda: "Under way" in tab.text() or "Released." in tab.text())


def people(folder, n=3000, note=""):
    """Write a table of people."""
    lines = (f"{18 + k * 7 % 73},{(k * 37 % 101) + (k * 7 % 73)},{'ab'[k * 3 % 2]},{note}" for k in range(n))
    (folder / "people.csv").write_text("age,cost,group,note\n" + "\n".join(lines) + "\n")
    return folder


def shot(tab, path, width=1280, height=900, dark=False):
    """Write a picture of the whole screen."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    tab.send("Emulation.setEmulatedMedia", features=scheme)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    tab.send("Emulation.setDeviceMetricsOverride", **size)
    wait(tab)
    content = tab.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
    path.write_bytes(base64.b64decode(content))
