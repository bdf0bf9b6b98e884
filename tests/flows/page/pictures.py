"""Draw the pictures of the page again, in Chromium: ``python -m tests.flows.page.pictures``."""

import base64
import tempfile
from pathlib import Path

import numpy as np

from tests.builders import PROJECT
from tests.flows.page.driving import check, click, confirm, fill, foresee, served, wait, window
from tests.flows.small_project import until

FOLDER = PROJECT / "docs" / "tutorials"


def students(folder: Path, n: int = 4000) -> None:
    rng = np.random.default_rng(0)
    sat, school = rng.normal(1000, 150, n).clip(400, 1600).round(), rng.choice(["arts", "law", "science"], n)
    gpa = 2.6 + 0.0015 * (sat - 1000) + 0.2 * (school == "law") + rng.normal(0, 0.5, n)
    lines = (f"{a:g},{b},{c:.2f}" for a, b, c in zip(sat, school, gpa.clip(0, 4), strict=True))
    (folder / "students.csv").write_text("sat,school,gpa\n" + "\n".join(lines) + "\n")


def picture(tab, name: str, height: int) -> None:
    size = {"width": 960, "height": height, "deviceScaleFactor": 1, "mobile": False}
    tab.send("Emulation.setDeviceMetricsOverride", **size)
    wait(tab)
    shot = tab.send("Page.captureScreenshot", format="png")["data"]
    (FOLDER / f"page_{name}.png").write_bytes(base64.b64decode(shot))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        students(folder)
        with served(folder, "students.csv") as address, window(address, folder / "browser") as tab:
            check(tab, "used", "sat", "school", "gpa")
            check(tab, "unit", "one")
            fill(tab, source_all="the codebook", number_lower_0="400", number_upper_0="1600")
            fill(tab, category_categories_1="arts, law, science", number_lower_2="0", number_upper_2="4")
            picture(tab, "columns", 1000)
            click(tab, "2 Questions")
            fill(tab, left="gpa")
            check(tab, "right", "sat", "school")
            click(tab, "Add the question")
            click(tab, "3 Forecast")
            until(lambda: tab.run("!!document.querySelector('svg.chart polyline')"))
            fill(tab, guessed="shares of school", guess_shares_1="0.3, 0.3, 0.4", wanted="0.1")
            until(lambda: tab.run("!!document.querySelector('svg.chart polyline')"))
            picture(tab, "forecast", 860)
            foresee(tab)
            confirm(tab, "students")
            until(lambda: "Released." in tab.text(), timeout=180)
            picture(tab, "release", 1000)


if __name__ == "__main__":
    main()
