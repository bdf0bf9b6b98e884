"""The manifest of a report: its inputs, versions, time and place, and how estimators split their budget."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dpalgos
from data.store.code_digest import code_digest
from data.store.folders import PROJECT_ROOT, home, read_json, sha256_file
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import Event, Relation
from dpalgos.api import build_params
from dpalgos.plugins import named_files
from tasks.cache import Written, digest
from tasks.run.datasets import Tables
from tasks.run_options import Profile, RunOptions
from tasks.size_rules import delta_at
from tasks.study.estimators import EstimatorSpec
from tasks.study.spec import Panel, StudySpec

_FEW_ROWS = 50  # whose plan has all releases, where a size is not that of rows
NOT_FOR_PUBLICATION = (
    "NOT FOR PUBLICATION: this page shows non-private estimates of your own data and distances to them; "
    "publish the output of dpcost release"
)
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)
_PACKAGES = ("prefect", "numpy", "scipy", "pandas", "pyarrow", "statsmodels", "vl-convert-python")
MANIFEST = "manifest.json"
_SEAL = "manifest_sha256"  # of the rest


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
    grid, people = spec.grid_of(panel), panel.problem.traits.of_people
    sizes = panel.problem.sizes(max(grid.n))
    sizes |= {name: max(each) for name, each in {"s": grid.s, "T": grid.steps}.items() if each}
    budget: dict[str, Any] = {
        "epsilon": spec.headline.epsilon,
        "delta": delta_at(spec.headline.delta, spec.headline.n),
    }
    budget["calibration"] = item.smallest_noise
    estimator = dpalgos.get_estimator(item.name).for_unit(people=people)
    some = {"range_failure": 1.0} if estimator.takes("range_failure") else {}  # too few to find any range
    params = build_params(estimator, {**item.keywords(sizes), **some, **budget})
    events = params.events(max(_FEW_ROWS, spec.headline.n), sizes["d"])
    return tuple(replace(each, relation=estimator.relation or Relation.CENTRAL) for each in events)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class RunOfStudy:
    """The part of a manifest that describes a run."""

    study: str  # its name or its file, as it was typed
    options: RunOptions
    command: str = ""
    n_computed: int = 0  # blocks, and those that were stored
    n_stored: int = 0
    started: str = field(default_factory=now)


def sealed(manifest: dict[str, Any]) -> bytes:
    """Return the content of a manifest's file, which holds a digest of itself."""
    whole = {**manifest, _SEAL: _digest(manifest)}
    return json.dumps(whole, indent=1, ensure_ascii=False).encode()


def is_sealed(manifest: Any) -> bool:
    """Return whether nobody changed a manifest after `sealed` wrote it."""
    return isinstance(manifest, dict) and manifest.get(_SEAL) == _digest(manifest)


def was_edited(manifest: dict[str, Any]) -> bool:
    """Return whether somebody changed a manifest; one of version 2 has no digest, and is taken as it is."""
    return _SEAL in manifest and not is_sealed(manifest)


def _digest(manifest: dict[str, Any]) -> str:
    plain = json.loads(json.dumps({key: value for key, value in manifest.items() if key != _SEAL}))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def report_key(spec: StudySpec, options: RunOptions, tables: Tables) -> str:
    """Return a digest of all that a report, and each number on it, is made of."""
    plain = spec.model_dump(mode="json")
    data = [[table.sha256, table.reasons] for table in tables.values()]  # why, for a stand-in
    settings = [options.profile, options.reps or spec.replicates[options.profile], options.seed]
    return digest(["tasks.report.write", *spec.modules()], plain, data, settings, of_page=True)


def report_at(folder: Path, spec: StudySpec, options: RunOptions, tables: Tables) -> Path | None:
    """Return the page in a folder if its manifest says that it is made of this, and all files are whole."""
    with suppress(*_UNREADABLE):
        manifest = read_json(folder / MANIFEST)
        is_same = manifest["made_of"]["report"] == report_key(spec, options, tables)
        if is_same and is_sealed(manifest) and _are_whole(folder, manifest, manifest["files"]):
            return folder / "report.html"
    return None


def _are_whole(folder: Path, manifest: dict[str, Any], names: Iterable[str]) -> bool:
    return all(sha256_file(folder / name) == manifest["files"][name] for name in names)


def build_manifest(spec: StudySpec, run: RunOfStudy, tables: Tables, results: Written) -> dict[str, Any]:
    options, study = run.options, run.study
    options = options.model_copy(update={"reps": options.reps or spec.replicates[options.profile]})
    again = [study, *(["--out", options.out] if options.out else [])]
    plugins = [word for file in named_files() for word in ("--with", _below(Path.cwd(), file))]
    code, cell = spec.modules(), _example_cell(spec, options.profile)
    file = Path(study).name if study.endswith(".toml") else f"flows/studies/{study}.toml"
    return {
        "study": {"name": spec.name, "file": file, "sha256": spec.sha256},
        **({"warning": NOT_FOR_PUBLICATION} if spec.analyst_table else {}),
        "dpcost": version("dpcost"),
        "commit": commit(),
        "code_sha256": {
            "computing": code_digest(["tasks.run.compute", "tasks.run.collect", *code]),
            "rendering": code_digest(["tasks.report.write", *code], of_page=True),
        },
        "made_of": {"report": report_key(spec, options, tables)},
        "data": [{**table.to_dict(), "path": _below(home(), table.path)} for table in tables.values()],
        "results_sha256": results.files[0][1],
        "packages": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        **options.recorded(),
        "command": run.command or options.command(study),
        "started": run.started,
        "replicates_rule": spec.replicates_rule,
        "finished": now(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "budgets": [
            {"estimator": estimator, "form": form, "shares": shares}
            for (estimator, form), shares in budget_split(spec).items()
        ],
        "not_run": spec.not_run,
        "blocks": {"computed": run.n_computed, "stored": run.n_stored},
        "ledger": {"epsilon_spent": 0.0, "note": "research runs charge no ledger"},
        "rerun_commands": [
            " ".join(filter(None, [options.command(study), shlex.join(plugins)])),
            shlex.join(["dpcost", "rerun", *again, *plugins, "--task", "run_block", "--cell", cell]),
            shlex.join(["dpcost", "report", *again, *plugins]),
        ],
    }


def commit() -> str:
    """Return the commit of the checkout, marked where files differ from it, or "unknown"."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.check_output(
            command, cwd=PROJECT_ROOT, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _below(folder: Path, path: str) -> str:
    """Return a path from a folder; the name of a file elsewhere, since a page shows no other folder."""
    file = Path(path)
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name


def _example_cell(spec: StudySpec, profile: Profile) -> str:
    blocks = spec.blocks(profile, replicates=1, seed=0)
    cells = spec.headline_cells(blocks) or blocks[0].cells
    return cells[0].key
