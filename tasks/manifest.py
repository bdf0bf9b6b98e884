"""The manifest of a report: what it was made from, with what, when and where."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from tasks.budget import budget_split
from tasks.digest import COMPUTING, RENDERING, ROOT, code_digest
from tasks.records import Record
from tasks.spec import StudySpec

_PACKAGES = ("prefect", "numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


def build_manifest(
    spec: StudySpec, table: dict[str, Any], results: Record, context: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest as plain data.

    Parameters
    ----------
    spec : StudySpec
    table : dict
        The dataset's reference.
    results : Record
        Of ``results.parquet``.
    context : dict
        ``profile``, ``replicates``, ``seed``, ``command`` and ``started`` of the run.
    """
    return {
        "study": {"name": spec.name, "file": f"flows/studies/{spec.name}.toml", "sha256": spec.sha256},
        "dpcost": version("dpcost"),
        "commit": _commit(),
        "code_sha256": {"computing": code_digest(COMPUTING), "rendering": code_digest(RENDERING)},
        "data": table,
        "results_sha256": results["sha256"],
        "packages": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        **{key: context[key] for key in ("profile", "replicates", "seed", "command", "started")},
        "finished": now(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "budgets": budget_split(spec),
        "ledger": {"epsilon_spent": 0.0, "note": "research runs on public data charge no ledger"},
        "rerun_commands": [
            context["command"],
            f"dpcost rerun {spec.name} --task run_block --cell '{_example_cell(spec)}'",
            f"dpcost report {spec.name}",
        ],
    }


def now() -> str:
    """Return the time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> str:
    """Return the commit of the checkout, marked where files differ from it, or "unknown"."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def _example_cell(spec: StudySpec) -> str:
    head = spec.headline
    for block in spec.blocks("paper", replicates=1, seed=0, data_source="real"):
        for cell in block.cells:
            if block.prepare == head.prepare and block.n == head.n and cell.epsilon == head.epsilon:
                return cell.key
    return ""
