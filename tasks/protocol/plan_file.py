"""The file of an analysis plan: its questions as requests for releases, with columns from a study file."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data.errors import numbered
from data.store.folders import sha256_file
from data.tables.sources import Source, source_of
from dpalgos import InputError
from dpalgos.answers.contrasts import check_hypotheses
from dpalgos.formula.group_table import BaselineNumbers, SurvivalCells
from dpalgos.formula.nested import check_nested
from reports.writing import words
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.row_design import ReleaseColumns
from tasks.protocol.questions import PlanQuestion, QuestionSet
from tasks.release.faults import faults_of_settings, unknown_columns
from tasks.release.question import canonical_request
from tasks.release.release import public_plan
from tasks.release.request import (
    ReleaseConfig,
    ReleaseDataset,
    ReleaseRequest,
    complete_request,
    with_declared_columns,
)
from tasks.report.coefficients import means_formula, table_format
from tasks.study.own_data import OwnData, checked_data, read_toml

PAGES = ("protocol.html", "protocol.md")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFile:
    """A plan as a file states it, and the requests of its released questions at the ε of the plan."""

    path: Path
    plan: QuestionSet
    sha256: str
    study_sha256: str
    data: Source
    requests: Mapping[str, ReleaseRequest]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def digest(self) -> str:
        """The digest of the plan's file and its study file."""
        return _digest(self.sha256, self.study_sha256)

    def request(self, name: str, epsilon: float) -> ReleaseRequest:
        return replace(self.requests[name], epsilon=epsilon)

    @property
    def ratios_of_curves(self) -> Iterator[tuple[str, str]]:
        """The nested hazard models whose ratios are those of curves in the plan, and the curves."""
        curves = {
            name: each.by_group
            for name, each in self.requests.items()
            if isinstance(each.by_group, SurvivalCells)
        }
        for question in self.plan.questions:
            larger = self.requests.get(question.submodel)
            for name, numbers in curves.items() if larger and larger.by_formula else ():
                with suppress(InputError):
                    numbers.check_ratios(question.formula)
                    yield question.name, name

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
        plan = QuestionSet.read(plain)
    except InputError as error:
        raise SpecError(f"{path.name}: {error}") from None
    if not plan.dataset or not plan.study:
        raise SpecError(f"{path.name}: [plan] must state dataset, the ledger's name of the data, and study")
    _check_tables(path, plan)
    own, of_study = checked_data(path.parent / plan.study)
    if own is None or of_study:
        fault = numbered(of_study) or "study must be a study file with [data]"
        raise SpecError(f"{path.name}: {plan.study}: {fault}")
    requests, checked, faults = dict[str, ReleaseRequest](), dict[str, PlanQuestion](), list[str]()
    for question in sorted(plan.questions, key=lambda each: bool(each.submodel)):
        try:
            if not question.submodel:
                requests[question.name] = request = request_of(path, plan, question, own)
                question = with_terms_of(question, request)
            elif question.submodel in requests:
                check_nested_question(question, requests[question.submodel])
                if question.test:
                    alone = question.model_copy(update={"submodel": ""})
                    with_terms_of(alone, request_of(path, plan, alone, own))
            checked[question.name] = question
        except (SpecError, InputError) as error:
            faults.append(f"question {question.name!r}: {error}")
    faults += [*_faults_of_groups(plan, requests), *_asked_twice(requests)]
    if faults:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    plan = plan.model_copy(update={"questions": tuple(checked[each.name] for each in plan.questions)})
    data = source_of(plan.data or own.data.path, path.parent)
    return PlanFile(
        path=path,
        plan=plan,
        sha256=hashlib.sha256(content).hexdigest(),
        study_sha256=sha256_file(path.parent / plan.study),
        data=data,
        requests=requests,
    )


def _asked_twice(requests: Mapping[str, ReleaseRequest]) -> Iterator[str]:
    """Yield the questions that are another question of the plan, in whatever spelling."""
    first: dict[str, str] = {}
    for name, request in requests.items() if len(requests) > 1 else ():
        with suppress(SpecError, InputError):  # what has no plan is refused by itself
            text = canonical_request(request, public_plan(request).params)
            if (other := first.setdefault(text, name)) != name:
                yield (
                    f"question {name!r} must differ from {other!r}, got the same question twice, which would "
                    "divide the budget; take one out, and keep the smaller target"
                )


def digest_of(*files: Path) -> str:
    """Return the digest that a plan would have if its file and its study file were read now."""
    return _digest(*map(sha256_file, files))


def _digest(*digests: str) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _faults_of_groups(plan: QuestionSet, requests: Mapping[str, ReleaseRequest]) -> Iterator[str]:
    """Yield what is wrong with the categories by which tables have means."""
    sources = {each.name: each.submodel or each.name for each in plan.questions}
    for table in plan.tables:
        table_requests = [requests[sources[name]] for name in table.columns if sources.get(name) in requests]
        if table.by and len(levels := {f"{each.level:g}" for each in table_requests if each.level}) > 1:
            yield f"table {table.out!r}: by needs one confidence level, got {words(sorted(levels))}"
        for name in table.columns if table.by else ():
            design = requests[sources[name]].by_formula if sources.get(name) in requests else None
            try:
                if design is None:
                    raise SpecError(f"by must be a category of a formula, got {table.by!r} for {name!r}")
                means_formula(design, table.by)
            except (SpecError, InputError) as error:
                yield f"table {table.out!r}: {error}"


def _check_tables(path: Path, plan: QuestionSet) -> None:
    names = [*(table.out for table in plan.tables), *(each.name for each in plan.questions)]
    for name in names[: len(plan.tables)]:
        table_format(Path(name), "out")
        if Path(name).name != name:
            raise SpecError(f"{path.name}: out of a table must be a file name without a folder, got {name!r}")
        if names.count(name) > 1 or name in PAGES:
            raise SpecError(
                f"{path.name}: out of a table must differ from {words(PAGES)}, other tables and questions, "
                f"got {name!r}; choose another name"
            )


def request_of(path: Path, plan: QuestionSet, question: PlanQuestion, own: OwnData) -> ReleaseRequest:
    """Return the request that a release file of the question would make at the ε of the plan."""
    user_id, defaults = own.data.user_id, {}
    if question.survival or question.table1:
        default = (SurvivalCells if question.survival else BaselineNumbers).estimator
    elif user_id and question.mean:
        default = "user_level_mean"
    elif question.mean:  # next to Gaussian noise, pure ε costs many times as much
        default, defaults = "box_mean", {} if question.estimator else {"noise": "gaussian"}
    else:
        default = "preconditioned_glm" if question.family else "preconditioned_regression"
    family = {"family": question.family} if question.family else {}
    config = ReleaseConfig(
        dataset=ReleaseDataset(name=plan.dataset, study=plan.study, form=question.form),
        columns=_columns_of(question, own.data),
        formula=question.formula,
        survival=question.survival,
        table1=question.table1,
        bounds=question.bounds,
        params={**defaults, **family, **question.params},
    )
    faults = [*faults_of_settings(config.columns, config.bounds, config.params)]
    own, config = with_declared_columns(own.model_copy(update={"formula": question.formula}), config)
    if faults := [*faults, *unknown_columns(config.columns, own.data)]:
        raise SpecError(numbered(faults))
    design = own.data.formula_of(config.columns.x)
    if design and design.survival:
        default = "preconditioned_glm"
    budget: Any = {"epsilon": plan.epsilon, "delta": plan.delta, "interval": question.interval}
    return complete_request(config, own, question.estimator or default, path, **budget)


def _columns_of(question: PlanQuestion, table: AnalystTable) -> ReleaseColumns:
    """Return the columns of a question, with the user ids of the study file.

    A regression has its weights, too, if the question names no others or none.
    """
    columns, update = question.columns, dict[str, Any]()
    weights = question.weights if columns.weights is None else columns.weights
    if weights is None and (question.formula or columns.y):
        weights = table.weights
    update |= {"x": question.mean} if question.mean else {}
    update |= {"user_id": table.user_id} if table.user_id else {}
    return columns.model_copy(update={**update, "weights": weights})


def with_terms_of(question: PlanQuestion, request: ReleaseRequest) -> PlanQuestion:
    """Return a question with targets by terms; refuse terms of targets and tests that it lacks."""
    if request.by_group:
        return question.with_terms(request.by_group.terms)
    public_plan(request)  # which an estimator may refuse
    units = request.units
    terms = [each for each in units.coef_names if each != units.intercept]
    assert request.table is not None
    columns = [each.name for each in request.table.columns]
    for test in question.test:
        check_hypotheses("test", test, units.coef_names, columns)
    return question.with_terms(
        terms, [each.name for each in request.table.columns if each.categories], columns
    )


def check_nested_question(question: PlanQuestion, larger: ReleaseRequest) -> None:
    """Refuse a nested model whose terms its release does not span."""
    if isinstance(larger.by_group, SurvivalCells):
        larger.by_group.check_ratios(question.formula)
        return
    design = larger.by_formula
    assert design is not None
    try:
        check_nested(design, question.formula)
    except InputError as error:
        rule = f"formula must be nested in that of {question.submodel!r}, {design.formula!r}"
        raise SpecError(f"{rule}: {error}") from None
