"""Two pages for each estimator of the catalog: how it is called, and why it is private."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

import dpalgos
from dpalgos.catalog import Estimator
from dpalgos.params import describe_keywords
from dpalgos.planned import EXAMPLE_NUMBERS, worked_examples
from flows.cli.catalogs import RELEASE_COLUMNS, release_rows
from generate.docstrings import escaped

PROJECT = Path(__file__).resolve().parents[2]
_COLUMNS = ("keyword", "default", "meaning")
MODELS = {
    "none": "Not private",
    "central": "A trusted curator",
    "user": "A trusted curator, all rows of a user protected",
    "local": "Nobody is trusted",
}


def pages() -> dict[str, str]:
    written = {
        "api/index.rst": _list("Estimators", "How each estimator is called."),
        "theory/index.rst": _list(
            "Formulas and proofs", "What each estimator computes, and why it is private."
        ),
    }
    for entry in dpalgos.catalog():
        written[f"api/{entry.name}.rst"] = api_page(entry)
        written[f"theory/{entry.name}.rst"] = theory_page(entry)
    return written


def heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]], widths: str = "auto") -> str:
    head = f".. list-table::\n   :header-rows: 1\n   :widths: {widths}\n\n"
    body = ""
    for row in (columns, *rows):
        cells = [str(cell).replace("\n", " ") for cell in row]
        body += "   * - " + "\n     - ".join(cells) + "\n"
    return head + body


def _list(title: str, sentence: str) -> str:
    parts = [heading(title), sentence, ""]
    for model, words in MODELS.items():
        entries = [entry for entry in dpalgos.catalog() if entry.privacy_model == model]
        rows = [
            (f":doc:`{entry.name}`", entry.task.replace("_", " "), escaped(entry.summary))
            for entry in entries
        ]
        parts += [heading(words, "-"), table(("estimator", "task", "what it does"), rows, "28 16 56"), ""]
    names = "\n   ".join(entry.name for entry in dpalgos.catalog())
    return "\n".join([*parts, f".. toctree::\n   :hidden:\n\n   {names}\n"])


def api_page(entry: Estimator) -> str:
    rows = []
    for each in describe_keywords(entry.parameters):
        default = "required" if each["required"] else f"``{each['default']!r}``"
        rows.append((f"``{each['name']}``", default, escaped(each["doc"])))
    return "\n".join(
        [
            heading(entry.name),
            f"**{escaped(entry.title)}.** {escaped(entry.summary)}",
            "",
            _facts(entry),
            ".. code-block:: python",
            "",
            *("   " + line for line in call(entry).splitlines()),
            "",
            *([heading("Keywords", "-"), table(_COLUMNS, rows, "24 20 56")] if rows else []),
            "",
            "Next to these, :func:`dpalgos.estimate` takes ``rng``, ``replicates``, ``row_mask`` and "
            "``user_ids``.",
            "",
        ]
    )


def _facts(entry: Estimator) -> str:
    facts = [("Task", entry.task.replace("_", " "))]
    if entry.private:
        relation = f"(ε, δ) under {entry.neighboring_relation}, per {entry.unit_of_privacy}"
        facts += [
            ("Guarantee", f"{relation} ({entry.privacy_model} model)"),
            ("Calibrations", ", ".join(f"``{each}``" for each in entry.calibrations)),
        ]
    facts += [
        ("Public", escaped(entry.public)),
        ("Intervals", "``interval=0.95``" if entry.has_interval else f"none: {escaped(entry.no_interval)}"),
        ("Streamed rows", "no, it needs all rows in memory" if entry.in_memory else "yes"),
        ("``dpcost release``", escaped(f"refused: {entry.no_release}") if entry.no_release else ""),
        ("Reference", escaped(entry.reference)),
        ("Theory", f":doc:`formula, guarantee and proof </generated/theory/{entry.name}>`"),
    ]
    return "\n".join(f":{name}: {value}" for name, value in facts if value) + "\n"


def call(entry: Estimator) -> str:
    """Return Python that calls the estimator with the keywords of its example."""
    lines = [
        "import numpy as np, dpalgos",
        "",
        "rng = np.random.default_rng(0)",
        "X = rng.uniform(-1, 1, (5000, 3))",
    ]
    if entry.task != "mean":
        lines.append("y = X @ [1.0, -0.5, 0.25] + 0.1 * rng.standard_normal(5000)")
    keywords = {"epsilon": 1.0, "delta": 1e-6} if entry.private else {}
    shown = [f"{name}={value!r}" for name, value in keywords.items()]
    for name, value in entry.example.items():
        if name == "public_X":
            lines.append("public_X = rng.uniform(-1, 1, (2000, 3))")
        shown.append(f"{name}={'public_X' if name == 'public_X' else repr(value)}")
    if entry.privacy_model == "user":
        lines.append("user_ids = np.arange(5000) // 2")
        shown.append("user_ids=user_ids")
    arguments = [f'"{entry.name}"', "X", *(["y"] if entry.task != "mean" else []), *shown, "rng=rng"]
    one_line = f"result = dpalgos.estimate({', '.join(arguments)})"
    if len(one_line) > 80:
        one_line = "\n".join(["result = dpalgos.estimate(", *(f"    {each}," for each in arguments), ")"])
    return "\n".join([*lines, one_line, "result.estimate"])


def theory_page(entry: Estimator) -> str:
    """Return the page of an estimator's formula and proof, the docstring of its file, and its releases."""
    module = sys.modules[entry.module]
    place = Path(inspect.getfile(module)).relative_to(PROJECT)
    source = f"Source: ``{place.as_posix()}``. How it is called: :doc:`/generated/api/{entry.name}`."
    page = [heading(entry.name), f".. automodule:: {module.__name__}", "   :no-index:", ""]
    if entry.private:
        page += [heading("Releases", "-"), f"Plans for {EXAMPLE_NUMBERS}.", ""]
        for setting, plan in worked_examples(entry):
            cells = (map(escaped, row) for row in release_rows(plan))
            page += [heading(setting, "~"), table(RELEASE_COLUMNS, cells), ""]
    return "\n".join([*page, source, ""])
