"""Write the README's table of a release: run the cells of the tutorial on a rare event, and print its record.

The noise is cryptographic, so that each run writes other numbers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
README, TUTORIAL = PROJECT / "README.md", PROJECT / "docs" / "tutorials" / "rare_event.md"
START, END = "<!-- table: start -->\n", "<!-- table: end -->\n"


_CELL = re.compile(r"^```\{code-cell\}.*\n(?:^:tags:.*\n)?([^`]*)^```", re.MULTILINE)


def table_of_the_tutorial() -> str:
    """Return the table of the tutorial's release; this process then is in the folder that it made."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, Any] = {"shell": partial(subprocess.run, shell=True, check=True)}
    for cell in _CELL.findall(TUTORIAL.read_text(encoding="utf-8")):
        exec(re.sub(r"^!(.*)$", r"shell(f'\1')", cell, flags=re.MULTILINE), names)  # as Jupyter reads it
    subprocess.run(["dpcost", "table", "record", "--out", "table.md"], check=True)
    return Path("table.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    before, rest = README.read_text(encoding="utf-8").split(START)
    _, after = rest.split(END)
    README.write_text(f"{before}{START}\n{table_of_the_tutorial()}\n{END}{after}", encoding="utf-8")
