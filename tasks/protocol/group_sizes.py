"""One size of a group in a plan: that of its baseline table is the first number at risk of its curves."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpalgos.answers.baseline import BaselineTable
from dpalgos.formula.group_table import SurvivalCells
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.report.coefficients import by_group_of, read_record


def with_sizes(record: Mapping[str, Any], plan: PlanFile, question: str, folder: Path) -> Mapping[str, Any]:
    """Return the record of curves with the sizes of their groups, if a record in the folder has them."""
    curves = plan.requests[question].by_group
    if not isinstance(curves, SurvivalCells):
        return record
    for each in plan.plan.released:
        other = plan.requests[each.name].by_group
        if each.table1 and other and other.group == curves.group:
            with suppress(SpecError):
                table = by_group_of(read_record(folder / each.name)["release"])
                assert isinstance(table, BaselineTable)
                release = record["release"]
                by_group = {**release["by_group"], "sizes": list(table.sizes)}
                return {**record, "release": {**release, "by_group": by_group}}
    return record
