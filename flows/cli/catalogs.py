"""The commands that list what there is: ``dpcost studies``, ``dpcost estimators``, ``dpcost datasets``."""

import logging
import tomllib
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flows.cli.options import AsJson, Plugins, argument, flag, option, rendered, show, use_plugins

if TYPE_CHECKING:
    from dpalgos.planned import PlanLine

_FLOWS = Path(__file__).resolve().parents[1]
RELEASE_COLUMNS = ("release", "times", "share", "sensitivity", "noise/sensitivity")
_SIZES = (
    "r, w and L are thresholds that are public or released before; p is a number of columns. If earlier "
    "releases show the need, a later one is of another kind in this table, at the same cost."
)
_log = logging.getLogger(__name__)


def studies(as_json: AsJson = False) -> None:
    """List the studies."""
    from tasks.papers import CLAIMS_FILE

    files = {path.stem: path for path in sorted((_FLOWS / "studies").glob("*.toml"))}
    files["scorecard"] = CLAIMS_FILE
    rows = []
    for name, path in files.items():
        try:  # a study is read without the seconds that checking it takes
            study = tomllib.loads(path.read_text(encoding="utf-8"))
            problems = [panel["problem"] for panel in study.get("panels", [])]
            datasets = list(dict.fromkeys(each["dataset"] for each in problems if "dataset" in each))
            about = {"title": study["title"], "datasets": datasets, "question": study["question"].strip()}
            rows.append({"name": name, **about})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("%s is skipped (%s); dpcost run %s shows the fault", path.name, error, name)
    show(rows, (f"{row['name']:<24}{row['title']}" for row in rows), as_json)


def estimators(
    name: Annotated[str | None, argument("NAME", "Estimator to explain; default: list all.")] = None,
    task: Annotated[str | None, option("NAME", "Only estimators for this task, e.g. mean.")] = None,
    model: Annotated[
        str | None, option("[none|central|local|user]", "Only estimators with this privacy model.")
    ] = None,
    n: Annotated[
        int | None, option("N", "Rows (or people): print the plan of releases; needs --d.", min=2)
    ] = None,
    d: Annotated[int | None, option("D", "Columns of that plan, including the intercept.", min=1)] = None,
    epsilon: Annotated[float, option("NUMBER", "ε of that plan.")] = 1.0,
    family: Annotated[
        str, option("NAME", "Family of that plan; default: as in the estimator's example.")
    ] = "",
    interval: Annotated[float | None, option("NUMBER", "Confidence level of that plan's intervals.")] = None,
    people: Annotated[bool, flag("--people", "Plan for people with all their rows.")] = False,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List the estimators, or explain one."""
    use_plugins(plugins or [])
    import dpalgos
    from dpalgos.planned import (
        EXAMPLE_BUDGET,
        EXAMPLE_NUMBERS,
        EXAMPLE_SIZES,
        planned_releases,
        worked_examples,
    )

    if (n is None) != (d is None) or (n is not None and name is None):
        raise dpalgos.InputError("--n and --d go together, after the NAME of an estimator; pass all three")
    if name is not None and n is not None and d is not None:
        settings = {
            "intercept": dpalgos.get_estimator(name).takes("intercept") or None,
            "family": family or None,
            "interval": interval,
        }
        settings = {key: value for key, value in settings.items() if value is not None}
        delta, public = 1 / n**2, {"n": n, "d": d, **settings}
        keywords = {"epsilon": epsilon, "delta": delta, **settings}
        releases, proved = planned_releases(name, n, d, keywords, people=people)
        text = ", ".join(f"{key} = {value}" for key, value in public.items())
        lines = [
            f"{name}: {text}; together they prove ε = {proved:.6g} at δ = {delta:.3g}",
            _SIZES,
            *_aligned(releases),
        ]
        sizes, budget = {"n": n, "d": d}, {"epsilon": epsilon, "delta": delta}
        chosen = _by_forecast(name, sizes, budget, family)
        lines += _forecast_lines(chosen)
        plan = {"name": name, "public": public, "epsilon": proved, "delta": delta}
        plan |= {"by_forecast": chosen} if chosen else {}
        show({**plan, "releases": [each._asdict() for each in releases]}, lines, as_json)
        return
    if name is not None:
        entry = dpalgos.get_estimator(name)
        examples = worked_examples(entry) if entry.private else ()
        text = rendered(
            "estimator.txt.jinja",
            row=entry.to_dict(),
            examples=[(setting, _aligned(plan)) for setting, plan in examples],
            numbers=EXAMPLE_NUMBERS,
            sizes=_SIZES,
            chosen=_forecast_lines(_by_forecast(name, EXAMPLE_SIZES, EXAMPLE_BUDGET)),
        )
        show(entry.to_dict(), text, as_json)
        return
    rows = [entry.to_dict() for entry in dpalgos.catalog()]
    for field, words, value in (("task", "--task", task), ("privacy_model", "--model", model)):
        known = sorted({row[field] for row in rows})
        if value is not None and value not in known:
            raise dpalgos.InputError(f"{words} must be one of {', '.join(known)}, got {value!r}")
        rows = [row for row in rows if value in (None, row[field])]
    show(rows, (f"{row['name']:<28}{row['privacy_model']:<9}{row['summary']}" for row in rows), as_json)


def _by_forecast(
    name: str, sizes: Mapping[str, int], budget: Mapping[str, float], family: str = ""
) -> dict[str, dict[str, Any]]:
    """Return the settings that a forecast chooses for an estimator, by calibration; {} without a rule."""
    import dpalgos

    if not dpalgos.get_estimator(name).parameters.by_forecast:
        return {}
    from tasks.study.forecast_steps import settings_of_example

    return settings_of_example(name, sizes, budget, family)


def _forecast_lines(chosen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not chosen:
        return []
    about = (
        "“by forecast” chooses, on synthetic rows with columns uniform on ±1 and coefficients of length 1:"
    )
    settings = {
        calibration: ", ".join(f"{key} = {value:.4g}" for key, value in each.items())
        for calibration, each in chosen.items()
    }
    return [about, *(f"  {calibration:<7}{text}" for calibration, text in settings.items())]


def _aligned(plan: Sequence["PlanLine"]) -> list[str]:
    """Return the lines of a table of releases."""
    rows = [RELEASE_COLUMNS, *release_rows(plan)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [f"  {'  '.join(map(str.ljust, cells, widths)).rstrip()}" for cells in rows]


def release_rows(plan: Sequence["PlanLine"]) -> list[tuple[str, ...]]:
    """Return a row of :data:`RELEASE_COLUMNS` for each release of a plan."""
    return [
        (
            one.label,
            str(one.times),
            "" if isnan(one.share) else f"{one.share:.4f}",
            one.sensitivity,
            one.noise,
        )
        for one in plan
    ]


def datasets(as_json: AsJson = False) -> None:
    """List the datasets."""
    from data.datasets import load_registry

    rows = [
        {
            "name": d.name,
            "title": d.title,
            "rows": d.n_rows,
            "privacy_unit": d.privacy_unit,
            "license": d.license,
            "citation": d.citation,
            "source": d.source.url,
            "columns": [column.name for column in d.columns],
        }
        for d in load_registry().values()
    ]
    show(rows, (f"{row['name']:<16}{row['rows']:>8,} rows  {row['title']}" for row in rows), as_json)
