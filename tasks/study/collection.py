"""Panels of a study file that are made from a collection of tables."""

import logging
from typing import Any

from data.collections import collections
from data.datasets import get_dataset
from data.errors import DataError
from tasks.errors import SpecError
from tasks.size_rules import whole

_log = logging.getLogger(__name__)


def with_collections(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a study file's content, with a panel for each table where a panel names a ``collection``.

    It may name ``groups`` of its tables. Sizes of its grid, or of the study's, may be rules in n, the table's
    rows. The panels of the headline's table run at smoke, too.
    """
    if not isinstance(plain.get("panels"), list):
        return plain
    head = plain.get("headline")
    collection = head.get("panel") if isinstance(head, dict) else None
    grid = {"grid": plain["grid"]} if "grid" in plain else {}
    panels = [each for panel in plain["panels"] for each in _panels(panel, collection, grid)]
    if panels != plain["panels"] and all(isinstance(each, dict) and "grid" in each for each in panels):
        grid = {"grid": None}  # each panel has its own
    return {**plain, **grid, "panels": panels}


def _panels(panel: Any, headline: Any, grid: dict[str, Any]) -> list[Any]:
    if not isinstance(panel, dict) or "collection" not in panel:
        return [panel]
    panel = {**grid, **panel}
    known, name = collections(), panel["collection"]
    if name not in known:
        raise SpecError(f"panels.collection must be one of {', '.join(known)}, got {name!r}")
    panels = []
    for dataset, problems in known[name].problems(panel.get("groups", ())).items():
        try:
            n_rows = get_dataset(dataset).n_rows
        except DataError as fault:
            _log.warning("the table %s is skipped: %s", dataset, fault)
            continue
        panels.append(_panel(panel, dataset, problems, n_rows, headline))
    return panels


def _panel(
    panel: dict[str, Any], dataset: str, own: dict[str, Any], n_rows: int, headline: Any
) -> dict[str, Any]:
    """Return the panel of a table; its name is the table's, and that of the entry of the study file."""
    shared = {key: value for key, value in panel.items() if key not in ("collection", "groups")}
    table = dataset.removeprefix(f"{panel['collection']}_").replace("_", "-")
    title = f"{table} {panel['name']}" if "name" in panel else table
    grid, problem = (dict(shared.get(key) or {}) for key in ("grid", "problem"))
    if isinstance(grid.get("n"), list):
        grid["n"] = [whole(rule, {"n": n_rows}, what="grid.n") for rule in grid["n"]]
    shared |= {"grid": grid, "problem": {**problem, "dataset": dataset, **own}}
    smoke = shared.get("smoke", True) or table == headline
    return {**shared, "name": title, "smoke": smoke}
