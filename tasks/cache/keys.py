"""What a cached result depends on: digests of code, libraries and inputs, and the keys made of them."""

import hashlib
import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Code that a number in a results table depends on, and code that a page depends on.
COMPUTING = (
    "dpalgos",
    "data/table_design.py",
    "data/group_difference.py",
    "data/frame_features.py",
    "data/traced_group.py",
    "data/simulations",
    "tasks/run/block.py",
    "tasks/work_units.py",
    "tasks/problems/base.py",
    "tasks/problems/group_differences.py",
    "tasks/problems/train_test_split.py",
    "tasks/run/deletion_influence.py",
    "tasks/run/prepare.py",
    "tasks/problems/prepare_groups.py",
    "tasks/problems/prepare_traced.py",
    "tasks/problems/subsamples.py",
    "tasks/rules.py",
    "tasks/problems/simulation.py",
    "tasks/problems/membership.py",
    "reports/results.py",
)
RENDERING = (
    "reports",
    "data/flock_summary.py",
    "flows/claims.toml",
    "tasks/report/budget_split.py",
    "tasks/scorecard/claims.py",
    "tasks/scorecard/evidence.py",
    "tasks/problems/swarm_exhibits.py",
    "tasks/problems/genome_map.py",
    "tasks/report/manifest.py",
    "tasks/report/build_page.py",
    "tasks/study/panel.py",
    "tasks/report/render.py",
    "tasks/scorecard/judging.py",
    "tasks/study/spec.py",
    "tasks/report/attacks_page.py",
    "dpalgos/audit/ceilings.py",
    "dpalgos/audit/roc.py",
    "dpalgos/theory",
    "dpalgos/catalog.py",
)
LIBRARIES = ("dp-accounting", "numpy", "scikit-learn", "scipy")
_SUFFIXES = {".py", ".toml", ".jinja", ".html", ".md", ".css", ".js"}


@cache
def code_digest(parts: tuple[str, ...] = COMPUTING) -> str:
    """Return a sha256 over the paths and bytes of the project's files below ``parts``."""
    digest = hashlib.sha256()
    for part in parts:
        for path in _files(ROOT / part):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def cache_key(name: str, *inputs: Any) -> str:
    """Return the key of a computation: its name, inputs, code and numerical libraries."""
    libraries = {library: version(library) for library in LIBRARIES}
    return _key(name, [*inputs, code_digest(COMPUTING), libraries])


def page_key(name: str, *inputs: Any) -> str:
    """Return the key of a rendered page: its name, inputs, code and plotting library."""
    return _key(name, [*inputs, code_digest(RENDERING), version("matplotlib")])


def is_key(name: str) -> bool:
    """Whether a name is one that `cache_key` or `page_key` makes."""
    return re.fullmatch(r"[a-z]+-[0-9a-f]{32}", name) is not None


def _key(name: str, content: list[Any]) -> str:
    blob = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{name}-{hashlib.sha256(blob.encode()).hexdigest()[:32]}"


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    return sorted(
        file
        for file in found
        if "out" not in file.relative_to(ROOT).parts and "__pycache__" not in file.parts
    )
