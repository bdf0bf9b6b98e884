"""How a release prepares the rows, in sentences: all choices that change the answer."""

from collections.abc import Iterator, Sequence

from reports.writing import words
from tasks.problems.analyst_table import AnalystColumn, AnalystTable
from tasks.release.request import ReleaseRequest


def preparation_of(request: ReleaseRequest) -> str:
    """Say what becomes of missing cells, of values beyond bounds and of levels, but not of how many."""
    table, columns = request.table, request.config.columns
    if table is None:
        return "No row is left out: a file with a missing cell is refused. Columns are used as they stand."
    used = table.needed(each for each in table.columns if each.name in {*columns.x, columns.y})
    drops = table.missing == "drop" and columns.y and not columns.user_id
    return " ".join([_missing(used, drops=bool(drops)), *_values(table, used)])


def _missing(used: Sequence[AnalystColumn], *, drops: bool) -> str:
    rule = "No row is left out: a file with a missing cell is refused"
    if drops:
        rule = (
            "Rows with a missing cell are left out: they count in the number of rows, and add zeros to sums"
        )
    imputed = [f"of {each.name} are taken as {each.impute}" for each in used if each.impute is not None]
    markers = [f"{words(list(map(repr, each.missing)))} of {each.name}" for each in used if each.missing]
    text = rule + f", but missing cells {words(imputed)}" * bool(imputed)
    return text + f"; missing are also {words(markers)}" * bool(markers) + "."


def _values(table: AnalystTable, used: Sequence[AnalystColumn]) -> Iterator[str]:
    if numbers := [each for each in used if each.lower is not None and each.uses == (each.name,)]:
        listed = words([f"{one.name} {one.lower:.10g} to {one.upper:.10g}{_units(one)}" for one in numbers])
        done = "are moved to them" if table.outside == "clip" else "are refused with their file"
        yield f"Values beyond the public bounds {done}: {listed}."
    if logs := [each.name for each in used if each.transform]:
        yield f"Of {words(logs)} the logarithm is used."
    for each in used:
        merged = [
            f"{words(list(map(repr, texts)))} as {level!r}" for level, texts in each.levels.items() if texts
        ]
        if each.others:
            merged.append(f"every other text as {each.others!r}")
        if merged:
            yield f"Of {each.name}, {words(merged)} count."
    yield f"One {'user' if table.user_id else 'row'} stands for: {table.privacy_unit.rstrip('.')}."


def _units(column: AnalystColumn) -> str:
    """Return the public unit of a column, if it is declared."""
    stated = {"center": column.center, "scale": column.scale}
    listed = words([f"{name} {value:.10g}" for name, value in stated.items() if value is not None])
    return f" ({listed})" if listed else ""
