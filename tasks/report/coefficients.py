"""The table of releases, from their records."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.store.folders import atomic_write, read_json
from dpalgos import get_estimator
from dpalgos.answers.baseline import BaselineTable
from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.stored import model_of
from dpalgos.coefficients import CENTERED, HAZARD, SHRUNK, CoefficientTable, guarantee_of
from dpalgos.formula.columns import CategoryColumn
from dpalgos.formula.design import FormulaDesign, design_of_declaration
from dpalgos.formula.group_table import SurvivalCells, numbers_of_declaration
from dpalgos.formula.nested import check_nested, submodel_by_formula
from dpalgos.intervals.regression import ROBUST_LOCATION
from dpalgos.spelling import quoted
from dpalgos.survival.curves import SurvivalCurves
from reports.pages.coefficient_table import FORMATS, INTERCEPTS, ResultColumn, render_coefficients
from reports.pages.group_table import group_table
from reports.writing import interval_text, num_in
from tasks.errors import SpecError

_NO_MEAN = "A robust location is the mean if errors are symmetric. A release of `table1` contains means."
_FIT = {"r_squared": "R²", "residual_std": "residual std. deviation"}


def read_record(path: Path) -> dict[str, Any]:
    """Read a release's record: ``release.json``, or the folder that holds it."""
    file = path / "release.json" if path.is_dir() else path
    try:
        record = dict(read_json(file))
        model = column_of_record(record)
        if not model.rows or not all(map(_is_number, _numbers_of(record))):
            raise ValueError("a number is missing or not finite")
        return record
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"got another file ({type(error).__name__}: {error})"
    raise SpecError(f"{file} must be the record of a release, written by dpcost release --record; {reason}")


def _numbers_of(record: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the numbers of a record that a table shows."""
    release, loss = record["release"], record["deployment"]["privacy_loss"]["privacy_parameters"]
    yield from (loss["epsilon"], loss["delta"], *release.get("fit", {}).values())
    for each in release["answer"]:
        yield each["estimate"]
        yield from (end for end in (each.get("lower"), each.get("upper")) if end is not None)
    if (level := release["level"]) is not None:
        yield level if 0 < level < 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def nested_record(record: Mapping[str, Any], formula: str) -> dict[str, Any]:
    """Return the record of a release with the estimate of a nested model, which costs nothing.

    Nested in survival curves by group are their hazard ratios.
    """
    if isinstance(curves := by_group_of(record["release"]), SurvivalCurves):
        return _ratio_record(record, curves, formula)
    model = submodel_by_formula(released_model(record), formula)
    table = model.coefficients()
    return _nested(record, model, formula, zip(table.terms, table.estimate, *table.limits, strict=True))


def _nested(
    record: Mapping[str, Any], model: ReleasedModel, formula: str, rows: Iterable[tuple[Any, ...]]
) -> dict[str, Any]:
    """Return a record with the rows (term, estimate, lower, upper) of a nested model."""
    name = model.summary().title if model.offset else formula
    return {
        "deployment": {**record["deployment"], "product": {**record["deployment"]["product"], "name": name}},
        "release": {
            **record["release"],
            "answer": [dict(zip(("name", "estimate", "lower", "upper"), row, strict=True)) for row in rows],
            "fit": {},
            "fit_note": "",
            "nested_note": model.nested_note * (model.omitted is not None),
        },
    }


def _ratio_record(record: Mapping[str, Any], curves: SurvivalCurves, formula: str) -> dict[str, Any]:
    """Return the record of curves with their log hazard ratios to the first group."""
    release, deployment = record["release"], record["deployment"]
    numbers = numbers_of_declaration(release["by_group"]["declaration"])
    assert isinstance(numbers, SurvivalCells)
    numbers.check_ratios(formula)
    limits = curves.log_hazard_ratios().T.tolist()
    rows = zip(numbers.ratio_names, limits, strict=True)
    answer = [
        {"name": name, "estimate": log, "lower": low, "upper": high}
        for name, (log, low, high) in rows
        if not math.isnan(log)
    ]
    if not answer:
        raise SpecError("the noise of the curves hides their hazard ratios")
    return {
        "deployment": {**deployment, "product": {**deployment["product"], "name": formula}},
        "release": {
            **release,
            "answer": answer,
            "by_group": None,
            "model": {
                **release["model"],
                "family": HAZARD,
                "response": numbers.survival.name,
                "references": {curves.group: curves.groups[0]},
            },
            "nested_note": f"Hazard ratios follow from the released curves ({release['model']['formula']}).",
        },
    }


def record_by_group(record: Mapping[str, Any], by: str, *, titled: bool = False) -> dict[str, Any]:
    """Return the record of a release with the mean response of each level of a category; it costs nothing.

    If it is ``titled``, its rows and notes name the release, as a table of several needs it.
    """
    released = released_model(record)
    if not (declaration := released.declaration):
        raise SpecError(
            f"by must be a category of the release's formula, got {by!r} and a record without a formula of "
            f"version 2.2 or later; release e.g. 'y ~ {by}'"
        )
    design = design_of_declaration(declaration)
    response, formula = means_formula(design, by)
    model = submodel_by_formula(released, formula, design)
    n_levels = len(model.terms)
    means = model.means(np.eye(n_levels), np.zeros(n_levels), model.level).to_numpy()
    title = record["deployment"]["product"]["name"]
    first = f"{title}: {response}" if titled else response
    rows = ((f"{first}, {term}", *map(float, row)) for term, row in zip(model.terms, means, strict=True))
    nested = _nested(record, model, f"{title}: {formula}" if titled else formula, rows)
    about = {**nested["release"].get("model", {}), "family": ""}  # means have no ratios
    by_group = {"model": about, "by": by, "of_responses": model.released.of_responses}
    return {**nested, "release": {**nested["release"], **by_group}}


def means_formula(design: FormulaDesign, by: str) -> tuple[str, str]:
    """Return the response, and the nested formula whose predictions are its means by a category."""
    if not isinstance(design.declared.get(by), CategoryColumn):
        raise SpecError(f"by must be a category of the release's formula, {design.formula!r}, got {by!r}")
    if design.offset:
        raise SpecError(f"by must be of a response without exposure or offset, got {design.formula!r}")
    response = design.reading.names.spell(design.reading.response)
    formula = f"{response} ~ 0 + {quoted(by)}"
    check_nested(design, formula)
    return response, formula


def released_model(record: Mapping[str, Any]) -> ReleasedModel:
    """Return the model that a record holds; refuse one without."""
    if not (content := record["release"].get("released_model")):
        raise SpecError(
            "the record holds no released model: nested models and tests follow from a preconditioned "
            "regression with --interval, of version 2.0 or later"
        )
    return model_of(content)


def by_group_of(release: Mapping[str, Any]) -> SurvivalCurves | BaselineTable | None:
    if not (content := release.get("by_group")):
        return None
    numbers = numbers_of_declaration(content["declaration"])
    about = {"sizes": tuple(content["sizes"])} if "sizes" in content else {}
    result: SurvivalCurves | BaselineTable = numbers.result(
        content["estimate"], content["noise_std"], release["model"]["n"], release["level"], **about
    )
    return result


def write_table(records: Sequence[Mapping[str, Any]], file: Path) -> None:
    atomic_write(file, table_of(records, file))


def table_of(records: Sequence[Mapping[str, Any]], file: Path) -> bytes:
    """Return the content of a file with the table of one or several releases; its name says the format."""
    return render_coefficients(_columns_of(records), table_format(file))


def table_format(file: Path, option: str = "--table") -> str:
    """Return the format that a file's name asks for; refuse one that is not known; ``option`` named it."""
    ending = file.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise SpecError(f"{option} must end in .{', .'.join(FORMATS)}, got {file.name!r}")
    return ending


def text_of(records: Sequence[Mapping[str, Any]]) -> str:
    return render_coefficients(_columns_of(records), "txt").decode()


def _columns_of(records: Sequence[Mapping[str, Any]]) -> list[ResultColumn]:
    if len(records) > 1 and any(each["release"].get("by_group") for each in records):
        raise SpecError("a survival or table1 release has a table of its own; write one without others")
    return [column_of_record(record) for record in records]


def column_of_record(record: Mapping[str, Any]) -> ResultColumn:
    release, deployment = record["release"], record["deployment"]
    about, loss = release.get("model", {}), deployment["privacy_loss"]
    parameters, unit = loss["privacy_parameters"], loss["privacy_unit"].lower()
    answer, level = release["answer"] or [], release["level"]
    if bins := release.get("binned_fit"):
        tenths = enumerate(bins["observed"], 1)
        answer = [{"name": f"mean, tenth {k}", "estimate": each} for k, each in tenths if each is not None]
    ends = [[each.get(end) for each in answer] for end in ("lower", "upper")]
    names = [each["name"] for each in answer]
    table = CoefficientTable(
        terms=names,
        estimate=np.array([each["estimate"] for each in answer]),
        interval=np.array(ends, dtype=float) if level is not None else None,
        level=level,
        family=about.get("family", ""),
        intercept=next((name for name in INTERCEPTS if name in names), ""),
    )
    against = "; ".join(f"{name} against {level}" for name, level in about.get("references", {}).items())
    footer = {
        "response": about.get("response", ""),
        "offset": about.get("offset", ""),
        about.get("counted", f"{unit}s"): f"{about['n']:,}" if "n" in about else "",
        "ε": f"{parameters['epsilon']:g}",
        "δ": f"{parameters['delta']:g}",
        "protected": f"each {unit}",
        "estimator": get_estimator(release["estimator"]).title,
        **{title: _with_ends(release.get("fit", {}), name) for name, title in _FIT.items()},
    }
    is_mean = get_estimator(release["estimator"]).task == "mean"
    by_group = by_group_of(release)
    has_ends = any(end is not None for end in ends[0])
    notes = [
        guarantee_of(unit, parameters["epsilon"], parameters["delta"], level if has_ends else None),
        release.get("outside", ""),
        release.get("covers", ""),
        f"{CENTERED if has_ends else SHRUNK}." if release.get("covers") else "",
        about.get("preparation", ""),
        f"Reference levels: {against}." if against else "",
        f"There is {release['fit_note']}." if release.get("fit_note") else "",
        release.get("nested_note", ""),
        f"The sample sizes by {release['by']} are private." if "by" in release else "",
        _NO_MEAN if (of_responses := release.get("of_responses", "mean")) == ROBUST_LOCATION else "",
    ]
    return ResultColumn(
        title=deployment["product"]["name"],
        of_responses=of_responses,
        n_of_mean="private" if "by" in release else f"{about['n']:,}" if "n" in about and is_mean else "",
        rows=by_group.frame().to_dict("records") if by_group else table.rows(),
        by_group=group_table(by_group) if by_group else None,
        level=level,
        footer={name: value for name, value in footer.items() if value},
        notes=[*filter(None, notes)],
    )


def _with_ends(fit: Mapping[str, float], name: str) -> str:
    if name not in fit:
        return ""
    low, high = fit[f"{name}_low"], fit[f"{name}_high"]
    return f"{num_in(fit[name], low, high)} {interval_text(low, high)}"
