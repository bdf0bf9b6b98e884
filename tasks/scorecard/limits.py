"""Private methods of stored studies whose error is not mainly due to privacy noise, for the scorecard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.results.summary import summarize
from reports.cells import cells_of
from reports.fairness import limited_in_panels
from reports.pages.scorecard import LimitedRow
from tasks.problems.kinds import measure_of
from tasks.report.write import page_of
from tasks.study.spec import StudySpec


def limited_methods(spec: StudySpec, results_path: Path, manifest: Mapping[str, Any]) -> list[LimitedRow]:
    """Return a row for each limited method, by panel; none for a study without runs without noise."""
    if not measure_of(spec.head_panel.problem).has_noise_off:
        return []
    page, results = page_of(spec, results_path, dict(manifest))
    found = limited_in_panels(cells_of(summarize(results), page), page)
    return [LimitedRow(spec.name, where, limited) for where, limited in found]
