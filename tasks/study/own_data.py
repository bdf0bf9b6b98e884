"""An owner's declarations in a study file: all that a release takes from it, without panels and grid."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.formats.canonical import composed
from data.store.folders import read_small
from data.tables.queries import Query
from data.tables.sources import source_of
from dpalgos.formula.design import FormulaDesign
from tasks.errors import SpecError
from tasks.file_schema import Strict, sentences, undeclared_fault, undeclared_keys
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.formula import expand_formula
from tasks.own_table.row_simulator import Guesses
from tasks.own_table.simulated_rows import check_guesses
from tasks.study.estimators import EstimatorSpec

STUDY_FILE_VERSION = 1  # what study files look like; a file that says none is of the first version


class OwnData(Strict):
    """The table of a study file's ``[data]``, guesses about it, and settings for its estimators."""

    data: AnalystTable
    formula: str = ""
    guesses: Guesses = Guesses()
    estimators: tuple[EstimatorSpec, ...] = ()  # of the headline's panel, or of the whole study


def checked_data(path: Path, besides_open: bool = False) -> tuple[OwnData | None, list[str]]:
    """Return what a study file declares of its owner's table, and all that is missing or wrong in it.

    Both are empty for a study without ``[data]``. ``besides_open``: leave out the keys where "?" stands.
    """
    plain = read_study(path)[1]
    if not isinstance(plain.get("data"), dict):
        return None, []
    head = plain.get("headline")
    name = head.get("panel") if isinstance(head, dict) else None
    of_panel = [each.get("estimators") for each in panels_in(plain) if each.get("name") == name]
    parts: dict[str, Any] = {key: plain[key] for key in ("data", "formula", "guesses") if key in plain}
    parts["estimators"] = next(filter(None, of_panel), plain.get("estimators", ()))
    undeclared = dict(undeclared_keys(parts))
    own, faults = None, [] if besides_open else undeclared_fault(undeclared)
    try:
        own = OwnData(**parts)
        own = own.model_copy(update={"data": own_table(own, path)[0]})
        check_guesses(own.guesses, own.data.columns, [own.data.weights])
    except ValueError as error:
        faults += sentences(error, undeclared, parts)
    return own, list(dict.fromkeys(faults))


def own_table(own: OwnData, path: Path) -> tuple[AnalystTable, FormulaDesign | None]:
    """Return the table with its file's whole path and the columns of the formula, if there is one."""
    source = source_of(own.data.path, path.parent)
    whole = source.address if isinstance(source, Query) else str(Path(str(source)).resolve())
    table = own.data.model_copy(update={"path": whole})
    if not own.formula:
        return table, None
    table, design = expand_formula(own.formula, table)
    if design.times:
        raise SpecError(
            f"formula of a study must have a number or a category on its left, got {own.formula!r}; write "
            "times to an event into a release file or a plan"
        )
    return table, design


def read_toml(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a TOML file that a person wrote: its bytes, and its content as plain data."""
    try:
        content = read_small(path)
        return content, _composed(tomllib.loads(content.decode("utf-8-sig")), path.parent)
    except OSError as error:
        raise SpecError(f"{path} cannot be read ({error.strerror}); pass a .toml file") from None
    except (ValueError, RecursionError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(f"{path.name} is not a TOML file: {reason}; correct it there") from None


def _composed(value: Any, folder: Path) -> Any:
    """Return plain data whose names have one Unicode form, as the headers of tables; paths are kept."""
    if isinstance(value, dict):
        return {composed(key): _composed(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [_composed(each, folder) for each in value]
    if not isinstance(value, str) or value.isascii():
        return value
    with suppress(OSError, ValueError):  # a text that can be no path
        if (folder / value).exists():
            return value
    return composed(value)


def read_study(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a study file; the members of ``[lists]`` take the place of a list's name in ``estimators``."""
    content, plain = read_toml(path)
    version, lists = plain.pop("version", 1), plain.pop("lists", {})
    if isinstance(version, bool) or version != STUDY_FILE_VERSION:
        newer = isinstance(version, int) and version > STUDY_FILE_VERSION
        remedy = "update dpcost" if newer else "write the file anew with dpcost init under another name"
        raise SpecError(f"{path.name}: version must be {STUDY_FILE_VERSION}, got {version!r}; {remedy}")
    if not isinstance(lists, dict) or not all(isinstance(each, list) for each in lists.values()):
        raise SpecError(f"lists must be a table of lists of estimators, got {lists!r:.80}")
    for table in (plain, *panels_in(plain)):
        members: list[Any] = []
        estimators = table.get("estimators")
        for each in estimators if isinstance(estimators, list) else ():
            if isinstance(each, str) and each not in lists:
                known = ", ".join(lists) or "none"
                raise SpecError(f"estimators must name one of lists ({known}) or be a table, got {each!r}")
            members += lists[each] if isinstance(each, str) else [each]
        if isinstance(estimators, list):
            table["estimators"] = members
    return content, plain


def panels_in(plain: dict[str, Any]) -> list[dict[str, Any]]:
    panels = plain.get("panels")
    return [each for each in panels if isinstance(each, dict)] if isinstance(panels, list) else []
