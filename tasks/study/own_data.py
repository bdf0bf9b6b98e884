"""An owner's declarations in a study file: all that a release takes from it, without panels and grid."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from data.store.folders import read_small
from dpalgos.formula.design import FormulaDesign
from tasks.errors import SpecError
from tasks.file_schema import Strict, sentences, undeclared_fault, undeclared_keys
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.formula import expand_formula
from tasks.own_table.simulated_rows import StatedGuesses, check_guesses
from tasks.study.estimators import EstimatorSpec

STUDY_FILE_VERSION = 1  # what study files look like; a file that says none is of the first version


class OwnData(Strict):
    """The table of a study file's ``[data]``, guesses about it, and settings for its estimators."""

    data: AnalystTable
    formula: str = ""
    guesses: StatedGuesses = StatedGuesses()
    estimators: tuple[EstimatorSpec, ...] = ()  # of the headline's panel


def checked_data(path: Path) -> tuple[OwnData | None, list[str]]:
    """Return what a study file declares of its owner's table, and all that is missing or wrong in it.

    Both are empty for a study without ``[data]``.
    """
    plain = of_this_version(read_toml(path)[1], path.name)
    if not isinstance(plain.get("data"), dict):
        return None, []
    plain = with_lists(plain)
    parts: dict[str, Any] = {key: plain[key] for key in ("formula", "guesses") if key in plain}
    parts |= {"data": plain["data"], "estimators": _estimators(plain)}
    undeclared = dict(undeclared_keys(parts))
    own, faults = None, undeclared_fault(undeclared)
    try:
        own = OwnData(**parts)
        own = own.model_copy(update={"data": own_table(own, path)[0]})
        check_guesses(own.guesses, own.data.columns, [own.data.weights])
    except ValidationError as error:
        faults += sentences(error, undeclared)
    except ValueError as error:
        faults.append(str(error))
    return own, list(dict.fromkeys(faults))


def own_table(own: OwnData, path: Path) -> tuple[AnalystTable, FormulaDesign | None]:
    """Return the table with its file's whole path and the columns of the formula, if there is one."""
    table = own.data.model_copy(update={"path": str((path.parent / own.data.path).resolve())})
    if not own.formula:
        return table, None
    table, design = expand_formula(own.formula, table)
    if design.times:
        raise SpecError(
            f"formula of a study must have a number or a category on its left, got {own.formula!r}; write "
            "times to an event into a release file or a plan"
        )
    return table, design


def _estimators(plain: dict[str, Any]) -> Any:
    """Return the estimators of the headline's panel: its own, or those of the whole study."""
    head, panels = plain.get("headline"), plain.get("panels")
    name = head.get("panel") if isinstance(head, dict) else None
    panels = [each for each in panels if isinstance(each, dict)] if isinstance(panels, list) else []
    own = [each.get("estimators") for each in panels if each.get("name") == name]
    return next(filter(None, own), plain.get("estimators", ()))


def read_toml(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a TOML file that a person wrote: its bytes, and its content as plain data."""
    try:
        content = read_small(path)
        return content, tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise SpecError(f"{path} cannot be read ({error.strerror}); pass a .toml file") from None
    except (ValueError, RecursionError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(f"{path.name} is not a TOML file: {reason}; correct it there") from None


def of_this_version(plain: dict[str, Any], file: str) -> dict[str, Any]:
    version = plain.pop("version", 1)
    if isinstance(version, bool) or version != STUDY_FILE_VERSION:
        newer = isinstance(version, int) and version > STUDY_FILE_VERSION
        remedy = "update dpcost" if newer else "write the file anew with dpcost init under another name"
        raise SpecError(f"{file}: version must be {STUDY_FILE_VERSION}, got {version!r}; {remedy}")
    return plain


def with_lists(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a study file's content, with the members of ``[lists]`` where ``estimators`` name a list."""
    lists = plain.get("lists", {})
    if not isinstance(lists, dict) or not all(isinstance(each, list) for each in lists.values()):
        raise SpecError(f"lists must be a table of lists of estimators, got {lists!r:.80}")

    def spliced(table: Any) -> Any:
        if not isinstance(table, dict) or not isinstance(table.get("estimators"), list):
            return table
        members: list[Any] = []
        for each in table["estimators"]:
            if isinstance(each, str) and each not in lists:
                known = ", ".join(lists) or "none"
                raise SpecError(f"estimators must name one of lists ({known}) or be a table, got {each!r}")
            members += lists[each] if isinstance(each, str) else [each]
        return {**table, "estimators": members}

    content: dict[str, Any] = spliced({key: value for key, value in plain.items() if key != "lists"})
    if isinstance(content.get("panels"), list):
        content["panels"] = [spliced(panel) for panel in content["panels"]]
    return content
