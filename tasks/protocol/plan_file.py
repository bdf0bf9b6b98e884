"""The file of an analysis plan: its questions as requests for releases, with columns from a study file."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from data.errors import numbered
from dpalgos import InputError
from dpalgos.formula.allowed import read_formula
from dpalgos.protocol import Plan, PlanQuestion
from dpalgos.protocol.questions import MEAN_SETTINGS
from tasks.errors import SpecError
from tasks.file_schema import sentences
from tasks.own_table.analyst_table import AnalystTable
from tasks.release.request import ReleaseConfig, ReleaseRequest, complete_request, with_formula
from tasks.release.rows import units_as_declared
from tasks.report.coefficients import table_format
from tasks.run_options import PROFILES
from tasks.study.spec import StudySpec
from tasks.study.study_file import checked_study, read_toml

PAGES = ("protocol.html", "protocol.md")
_BOX = {"lower": -2.0, "upper": 2.0}  # in the place of bounds that the release states


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFile:
    """A plan as a file states it, and the studies and configurations of its released questions."""

    path: Path
    plan: Plan
    sha256: str
    data: Path
    configs: Mapping[str, tuple[ReleaseConfig, StudySpec]]

    @property
    def name(self) -> str:
        return self.path.stem

    def question(self, name: str) -> PlanQuestion:
        return next(each for each in self.plan.questions if each.name == name)

    def request(self, name: str, epsilon: float) -> ReleaseRequest:
        """Return the request for the release of a question at an ε."""
        question, (config, study) = self.question(name), self.configs[name]
        budget: dict[str, float] = {"epsilon": epsilon, "delta": self.plan.delta}
        with self.naming(name):
            estimator = _estimator(question, study)
            return complete_request(config, study, estimator, self.path, **budget, interval=question.interval)

    @contextmanager
    def naming(self, question: str) -> Iterator[None]:
        """Name a question in errors about it."""
        try:
            yield
        except (SpecError, InputError) as error:
            raise SpecError(f"{self.path.name}: question {question!r}: {error}") from None


def read_plan(path: Path) -> PlanFile:
    """Read and check a plan's file and its study file; no row is read.

    Raises
    ------
    SpecError
        All that is wrong in the plan, or in its study file.
    """
    content, plain = read_toml(path)
    try:
        plan = Plan.from_toml(plain)
    except InputError as error:
        raise SpecError(f"{path.name}: {error}") from None
    if not plan.dataset or not plan.study:
        raise SpecError(
            f"{path.name}: [plan] must state dataset, the ledger's name of the data, and study, a study file "
            "that declares the columns"
        )
    _check_tables(path, plan)
    study, configs, faults, checked = path.parent / plan.study, {}, [], {}
    for question in sorted(plan.questions, key=lambda each: bool(each.submodel)):
        try:
            if not question.submodel:
                configs[question.name] = _config(plan, question, study)
                question = _with_terms(question, *configs[question.name])
            elif question.submodel in configs:
                _check_nested(question, *configs[question.submodel])
            checked[question.name] = question
        except (SpecError, InputError) as error:
            faults.append(f"question {question.name!r}: {error}")
    if faults:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    plan = replace(plan, questions=tuple(checked[each.name] for each in plan.questions))
    (_, declared), *_ = configs.values()
    assert declared.analyst_table is not None
    data = path.parent / plan.data if plan.data else Path(declared.analyst_table.path)
    sha256 = hashlib.sha256(content).hexdigest()
    return PlanFile(path=path, plan=plan, sha256=sha256, data=data, configs=configs)


def _check_tables(path: Path, plan: Plan) -> None:
    names = [*(table.out for table in plan.tables), *(each.name for each in plan.questions)]
    for name in names[: len(plan.tables)]:
        table_format(Path(name), "out")
        if Path(name).name != name or names.count(name) > 1 or name in PAGES:
            raise SpecError(
                f"{path.name}: out of a table must be a file name of its own without a folder, got {name!r}"
            )


def _estimator(question: PlanQuestion, study: StudySpec) -> str:
    return question.estimator_for(users=bool(study.analyst_table and study.analyst_table.user_id))


def _config(plan: Plan, question: PlanQuestion, study: Path) -> tuple[ReleaseConfig, StudySpec]:
    """Return a question as a release file and a study would state it."""
    columns: dict[str, Any] = {**question.columns, **({"x": list(question.mean)} if question.mean else {})}
    spec, faults = checked_study(study, lambda plain: _one_panel(plain, question, columns))
    if spec is None or faults or spec.analyst_table is None:
        raise SpecError(numbered(faults) or f"study must be a study file with [data], got {study.name!r}")
    table, settings = spec.analyst_table, {"family": question.family} if question.family else {}
    box = _box(table, question)
    plain: dict[str, Any] = {
        "dataset": {"name": plan.dataset, "study": study.name},
        "columns": {**columns, **({"user_id": table.user_id} if table.user_id else {})},
        "formula": question.formula,
        "bounds": {**box, **question.bounds},
        "params": {**(MEAN_SETTINGS if box else settings), **question.params},
    }
    try:
        config = ReleaseConfig(**plain)
    except ValidationError as error:
        raise SpecError(numbered(sentences(error))) from None
    spec, config = with_formula(spec, config)
    return config, spec


def _box(table: AnalystTable, question: PlanQuestion) -> dict[str, Any]:
    """Return the declared bounds of the columns of a mean in their units; nothing for other estimators."""
    if question.estimator_for(users=bool(table.user_id)) != "box_mean":
        return {}
    columns = {column.name: column for one in table.columns for column in one.columns}
    names = (name for each in question.mean for name in table.ingested(each))
    used = [columns[name] for name in names if name in columns]
    units = [(each, each.center or 0.0, each.scale or 1.0) for each in used]
    return {
        "lower": [(each.lower - center) / scale for each, center, scale in units],
        "upper": [(each.upper - center) / scale for each, center, scale in units],
    }


def _one_panel(plain: dict[str, Any], question: PlanQuestion, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a study file with one panel: the question on all rows of the table."""
    data = plain["data"] if isinstance(plain.get("data"), dict) else {}
    n, name = data.get("users") or data.get("rows") or 1, question.estimator_for(users="user_id" in data)
    family = {"family": question.family} if question.family else {}
    panels = [*plain.get("panels", []), plain]
    listed = [item for panel in panels for item in panel.get("estimators", []) if item.get("name") == name]
    suited = (each for each in listed if each.get("params", {}).get("family", "") == question.family)
    settings = {**(_BOX if name == "box_mean" else {}), **family, **question.bounds, **question.params}
    problem: dict[str, Any] = {"kind": "subsamples", "units": "public", **family}
    if not question.formula:
        problem |= {"covariates": list(columns.get("x", ())), "response": columns.get("y", "")}
    task = "glm" if family else "linear_regression" if question.formula or columns.get("y") else "mean"
    return {
        **{key: plain[key] for key in ("name", "version", "data", "guesses") if key in plain},
        **({"formula": question.formula} if question.formula else {}),
        **dict.fromkeys(("title", "question", "size_label", "metric_label"), question.name),
        "task": task,
        "grid": {"n": [n], "epsilon": [1.0], "delta": ["1/n^2"]},
        "replicates": dict.fromkeys(PROFILES, 1),
        "headline": {"n": n, "epsilon": 1.0, "delta": "1/n^2", "panel": "plan"},
        "panels": [{"name": "plan", "problem": problem}],
        "estimators": [{**next(suited, {"name": name, "params": settings}), "calibrations": ["tight"]}],
    }


def _with_terms(question: PlanQuestion, config: ReleaseConfig, study: StudySpec) -> PlanQuestion:
    table = study.analyst_table
    assert table is not None
    formula = table.formula_of(config.columns.x) if question.formula else None
    _, units = units_as_declared(table, config.columns, question.family, formula)
    terms = [each for each in units.coef_names if each != units.intercept]
    return question.with_terms(terms, [each.name for each in table.columns if each.categories])


def _check_nested(question: PlanQuestion, config: ReleaseConfig, study: StudySpec) -> None:
    """Refuse a nested model with a response or a column that its release does not have."""
    larger = study.analyst_table.formula_of(config.columns.x) if study.analyst_table else None
    assert larger is not None
    reading = read_formula(question.formula, larger.declared)
    if reading.left != larger.reading.left or not set(reading.right) <= set(larger.reading.right):
        raise SpecError(
            f"formula must be nested in that of {question.submodel!r}, {larger.formula!r}, got "
            f"{question.formula!r}"
        )
