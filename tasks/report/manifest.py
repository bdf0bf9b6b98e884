"""The manifest of a report: its inputs, versions, time and place, and how estimators split their budget."""

import os
import platform
import shlex
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from data.store.code_digest import code_digest
from data.store.folders import PROJECT_ROOT, home, read_json
from data.store.references import DatasetRef
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import Event
from tasks.cache import Record
from tasks.problems.problem import BringsPublicRows
from tasks.run_options import Profile, RunOptions
from tasks.size_rules import delta_at
from tasks.study.panel import EstimatorSpec, Panel
from tasks.study.spec import StudySpec

_FEW_ROWS, _NUMBERS = 50, 500_000  # of a made-up table: the least and the most


def budget_split(spec: StudySpec) -> dict[tuple[str, str], dict[str, float]]:
    """Return each estimator's and form's shares of the budget, in the headline's panel if it is there."""
    split: dict[tuple[str, str], dict[str, float]] = {}
    delta = delta_at(spec.headline.delta, spec.headline.n)
    for panel in sorted(spec.panels, key=lambda panel: panel.name != spec.headline.panel):
        for item in spec.estimators_of(panel):
            name = (item.name, item.form)
            if item.calibrations and name not in split:
                split[name] = budget_shares(released_events(spec, panel, item), delta)
    return split


def released_events(spec: StudySpec, panel: Panel, item: EstimatorSpec) -> tuple[Event, ...]:
    """Return what an estimator releases at the headline's ε and δ, with tight calibration where it has it."""
    grid, rng = spec.grid_of(panel), np.random.default_rng(0)
    sizes = {**panel.problem.sizes(max(grid.n)), **({"s": max(grid.s)} if grid.s else {})}
    own = panel.problem.public_X if isinstance(panel.problem, BringsPublicRows) else None
    # What is released, and whether public rows are asked about, depends on how many rows there are.
    n = spec.headline.n
    if own is None:
        n = max(_FEW_ROWS, min(n, _NUMBERS // sizes["d"]))
    X, y = rng.uniform(-1, 1, (n, sizes["d"])), rng.integers(0, 2, n)  # responses to every model
    keywords = item.keywords(sizes, max(item.steps, default=None))
    if dpalgos.get_estimator(item.name).unit_of_privacy == "user":
        keywords["range_failure"] = 1.0  # too few to find any range
    y_or_none = None if spec.task_of(panel) == "mean" else y
    result = dpalgos.estimate(
        item.name,
        dpalgos.Sample(X, y_or_none, public_rows=X if own is None else own, user_ids=np.arange(n)),
        rng=rng,
        epsilon=spec.headline.epsilon,
        delta=delta_at(spec.headline.delta, spec.headline.n),
        calibration="tight" if "tight" in item.calibrations else item.calibrations[0],
        **keywords,
    )
    return result.events


NOT_FOR_PUBLICATION = (
    "NOT FOR PUBLICATION: errors are distances to the true answer on data of your own, and answers without "
    "privacy are among them; publish what dpcost release answers"
)
_CONTENTS = 5  # of a file that changed, which its report names
_PACKAGES = ("prefect", "numpy", "scipy", "pandas", "pyarrow", "statsmodels", "vl-convert-python")


def build_manifest(
    spec: StudySpec, tables: list[DatasetRef], results: Record, context: dict[str, Any]
) -> dict[str, Any]:
    options: RunOptions = context["options"]
    cell, study = _example_cell(spec, options.profile), options.study
    again = [study, *(["--out", options.out] if options.out else [])]
    code = spec.modules()
    file = Path(study).name if study.endswith(".toml") else f"flows/studies/{study}.toml"
    return {
        "study": {"name": spec.name, "file": file, "sha256": spec.sha256},
        **({"warning": NOT_FOR_PUBLICATION} if spec.analyst_table else {}),
        "dpcost": version("dpcost"),
        "commit": commit(),
        "code_sha256": {
            "computing": code_digest(["tasks.run.block", "tasks.run.collect", *code]),
            "rendering": code_digest(["tasks.report.write", *code], of_page=True),
        },
        "data": [{**table.to_dict(), "path": _below_home(table.path)} for table in tables],
        **({"public": spec.public_rows.facts} if spec.public_rows else {}),
        "results_sha256": results["sha256"],
        "packages": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        **options.recorded(),
        **{key: context[key] for key in ("command", "started")},
        "replicates_rule": spec.replicates_rule,
        "finished": now(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "budgets": [
            {"estimator": estimator, "form": form, "shares": shares}
            for (estimator, form), shares in budget_split(spec).items()
        ],
        "not_run": context.get("not_run", {}),
        "blocks": context.get("blocks", {}),
        "earlier_contents": context.get("earlier_contents", []),
        "ledger": {"epsilon_spent": 0.0, "note": "research runs charge no ledger"},
        "rerun_commands": [
            shlex.join(options.command()),
            shlex.join(["dpcost", "rerun", *again, "--task", "run_block", "--cell", cell]),
            shlex.join(["dpcost", "report", *again]),
        ],
    }


def earlier_contents(folder: Path, dataset: str, content: str) -> list[dict[str, str]]:
    """Return which other contents of a dataset's file earlier reports in a folder were made from."""
    try:
        last = read_json(folder / "manifest.json")
        sha256 = str(next(one["source_sha256"] for one in last["data"] if one["name"] == dataset))
        contents = [dict(one) for one in last.get("earlier_contents", [])]
        contents.append({"source_sha256": sha256, "finished": str(last["finished"])})
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return []
    latest = {one["source_sha256"]: one for one in contents}
    return [one for one in latest.values() if one["source_sha256"] != content][-_CONTENTS:]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str:
    """Return the commit of the checkout, marked where files differ from it, or "unknown"."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.check_output(
            command, cwd=PROJECT_ROOT, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _below_home(path: str) -> str:
    file = Path(path)
    return file.relative_to(home()).as_posix() if file.is_relative_to(home()) else file.name


def _example_cell(spec: StudySpec, profile: Profile) -> str:
    head = spec.headline
    cells = [cell for block in spec.blocks(profile, replicates=1, seed=0) for cell in block.cells]
    at_headline = [cell for cell in cells if (cell.n, cell.epsilon) == (head.n, head.epsilon)]
    return (at_headline or cells)[0].key
