"""The file of an analysis plan: its questions as requests for releases, with columns from a study file."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from data.errors import numbered
from dpalgos import InputError
from dpalgos.formula.allowed import read_formula
from dpalgos.protocol import Plan, PlanQuestion
from tasks.errors import SpecError
from tasks.file_schema import sentences
from tasks.release.request import (
    ReleaseConfig,
    ReleaseRequest,
    complete_request,
    unknown_columns,
    with_formula,
)
from tasks.release.rows import units_as_declared
from tasks.report.coefficients import table_format
from tasks.study.spec import StudySpec
from tasks.study.study_file import checked_study, read_toml

PAGES = ("protocol.html", "protocol.md")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFile:
    """A plan as a file states it, and the configurations and studies of its released questions."""

    path: Path
    plan: Plan
    sha256: str
    configs: Mapping[str, tuple[ReleaseConfig, StudySpec]]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def data(self) -> Path:
        (_, study), *_ = self.configs.values()
        assert study.analyst_table is not None
        return self.path.parent / (self.plan.data or study.analyst_table.path)

    def request(self, name: str, epsilon: float) -> ReleaseRequest:
        """Return the request for the release of a question at an ε."""
        question = next(each for each in self.plan.questions if each.name == name)
        config, study = self.configs[name]
        budget: Any = {"epsilon": epsilon, "delta": self.plan.delta, "interval": question.interval}
        estimator = question.estimator or _default_estimator(question, config)
        with self.naming(name):
            return complete_request(config, study, estimator, self.path, **budget)

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
        raise SpecError(f"{path.name}: [plan] must state dataset, the ledger's name of the data, and study")
    _check_tables(path, plan)
    study, of_study = checked_study(path.parent / plan.study)
    if study is None or of_study or study.analyst_table is None:
        fault = numbered(of_study) or "study must be a study file with [data]"
        raise SpecError(f"{path.name}: {plan.study}: {fault}")
    configs: dict[str, tuple[ReleaseConfig, StudySpec]] = {}
    checked, faults = dict[str, PlanQuestion](), list[str]()
    for question in sorted(plan.questions, key=lambda each: bool(each.submodel)):
        try:
            if not question.submodel:
                configs[question.name] = config, spec = _config(plan, question, study)
                question = _with_terms(question, config, spec)
            elif question.submodel in configs:
                _check_nested(question, *configs[question.submodel])
            checked[question.name] = question
        except (SpecError, InputError) as error:
            faults.append(f"question {question.name!r}: {error}")
    if faults:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    plan = plan.model_copy(update={"questions": tuple(checked[each.name] for each in plan.questions)})
    return PlanFile(path=path, plan=plan, sha256=hashlib.sha256(content).hexdigest(), configs=configs)


def _check_tables(path: Path, plan: Plan) -> None:
    names = [*(table.out for table in plan.tables), *(each.name for each in plan.questions)]
    for name in names[: len(plan.tables)]:
        table_format(Path(name), "out")
        if Path(name).name != name or names.count(name) > 1 or name in PAGES:
            raise SpecError(f"{path.name}: out of a table must be a file name without a folder, got {name!r}")


def _default_estimator(question: PlanQuestion, config: ReleaseConfig) -> str:
    if config.columns.user_id:
        return "user_level_mean" if question.mean else "user_level_regression"
    of_rows = "preconditioned_glm" if question.family else "preconditioned_regression"
    return "box_mean" if question.mean else of_rows


def _config(plan: Plan, question: PlanQuestion, study: StudySpec) -> tuple[ReleaseConfig, StudySpec]:
    """Return a question as a release file and its study would state it."""
    assert study.analyst_table is not None
    user_id = {"user_id": study.analyst_table.user_id} if study.analyst_table.user_id else {}
    family = {"family": question.family} if question.family else {}
    # Next to Gaussian releases, pure ε costs many times as much.
    noise = {"noise": "gaussian"} if question.mean and not question.estimator and not user_id else {}
    plain: dict[str, Any] = {
        "dataset": {"name": plan.dataset, "study": plan.study},
        "columns": {**question.columns, **({"x": question.mean} if question.mean else {}), **user_id},
        "formula": question.formula,
        "bounds": question.bounds,
        "params": {**family, **noise, **question.params},
    }
    try:
        config = ReleaseConfig(**plain)
    except ValidationError as error:
        raise SpecError(numbered(sentences(error))) from None
    study, config = with_formula(study.model_copy(update={"formula": question.formula}), config)
    if faults := [*unknown_columns(config.columns, study)]:
        raise SpecError(numbered(faults))
    return config, study


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
