"""One private release about an analyst's data: requested, planned, charged to the ledger, then drawn.

The order protects. Everything that can be wrong is checked, and the cost is known, before the charge. The
charge is on the disk before noise is drawn. The result is in the ledger before it is shown.
"""

import hashlib
import logging
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from math import inf
from typing import Any

import numpy as np

import dpalgos
from data.columns import Column, Derived
from data.errors import AnswerLost, DataError
from data.formats.canonical import CanonicalBatch, meanings
from data.ledger import Account, Charge, Fingerprinter, Ledger, PrivacyCost, Question
from data.ledger.charges import PENDING, RESERVED, canonical_json
from data.tables.declared import DeclaredReader, DeclaredTable
from data.tables.queries import Query
from data.tables.reading import Numbers, Watch, n_rows_stated
from data.tables.sources import Part, Source, is_folder
from data.tables.streams import HELD_NUMBERS, StreamedTable
from dpalgos import Sample
from dpalgos.accounting.risk import risk_of_events
from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.stored import plain_model
from dpalgos.catalog import Estimator
from dpalgos.coefficients import HAZARD
from dpalgos.core.estimator import AnyEstimator
from dpalgos.core.record import cautions
from dpalgos.formula.allowed import plain_code
from dpalgos.formula.columns import CategoryColumn
from dpalgos.formula.design import FormulaDesign
from dpalgos.formula.nested import signature_of
from dpalgos.goodness import binned, in_units
from dpalgos.hardened_release import ReleasePlan, check_data, draw_release, release_plan
from dpalgos.interval import why_none
from dpalgos.result import Result
from dpalgos.rows.blocks import StreamedRows, StreamRefused
from dpalgos.rows.partitions import PartitionedRows
from dpalgos.typing import FloatArray
from tasks.cells import one_blas_thread
from tasks.errors import SpecError
from tasks.own_table.analyst_table import require_clusters
from tasks.own_table.file_units import AT_CENTERS
from tasks.own_table.row_design import RowDesign
from tasks.release.request import ReleaseRequest
from tasks.release.spending import event_entries, require_unit, room_in
from tasks.study.estimators import OFFSET
from tasks.workers import map_on_workers

# Keywords that version 2.1 or 3.0 lacks, at values that mean what it did: questions stay the same questions.
_LATER = {
    **{"person_weight": "equal", "max_rows": None, "max_weight": None},  # since 3.0
    **{"with_times": False},  # since 4.0
    **{"counted_events": "", "n_periods": None, "hazard_limit": None, "count_bound": None},  # since 5.0
}
PLAN_FACTS = {"reserve", "plan", "file", "forecast"}  # of a question of a registered plan


def _spellings(pairs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the texts of categories with their categories, without other notations of one code."""
    texts, levels = [text for text, _ in pairs], [level for _, level in pairs]
    meant = zip(meanings(texts, has_codes=True), meanings(levels, has_codes=True), levels, strict=True)
    codes = {(str(text).removesuffix(".0"), level) for text, of_level, level in meant if text != of_level}
    return sorted(map(list, codes))


def question_parameters(
    estimator: Estimator, params: AnyEstimator, design: RowDesign, *, as_in_3_0: bool = False
) -> dict[str, Any]:
    """Return every field that a release is drawn from, next to the data, as plain data.

    ``as_in_3_0``: in the form of version 3.0, which depends on spellings.
    """
    n_columns, task = design.n_columns, estimator.task
    order = list(range(n_columns))
    if task == "mean" or (not as_in_3_0 and design.formula is None and task not in ("counts", "sums")):
        first = int(getattr(params, OFFSET, None) is not None)  # an offset stays the first column
        last = len(design.names) - int(bool(getattr(params, "intercept", False)) and not design.intercept)
        order[first:last] = sorted(order[first:last], key=lambda j: design.names[j])
        design = _sorted(design, [j for j in order if j < len(design.names)])
    keywords: dict[str, Any] = {}
    for item in fields(params):
        value = getattr(params, item.name)
        if item.metadata.get("per_column") and value is not None:
            of_column = value * n_columns if len(value) == 1 else value
            value = [of_column[j] for j in order]
        keywords[item.name] = value
    keywords = {name: each for name, each in keywords.items() if name not in _LATER or each != _LATER[name]}
    rows = _plain(design.described)
    if not as_in_3_0 and (declaration := rows["declaration"]):
        declaration["marks"] = {"decimal": "", "thousands": ""}
        is_table = any(getattr(each.derived, "kind", "") == "table1" for each in design.columns)
        counted = {name for each in design.columns if each.derived for name in each.derived.counts_missing}
        for column in declaration["columns"]:
            column.pop("periods", None)
            if is_table:  # it rounds what was released
                column.pop("resolution", None)
            column["spellings"] = _spellings(column["spellings"])
            if column["name"] in counted:
                column["impute"] = None
    return {"keywords": _plain(keywords), "rows": rows}


def model_of_question(parameters: Mapping[str, Any], signature: Sequence[Any] = ()) -> dict[str, Any]:
    """Return what is left of a question with a formula if spelling and order of terms do not count.

    Without the ``signature`` of its design, only simple spellings are recognized, as up to version 4.0.
    """
    rows = parameters["rows"]
    if not (formula := rows.get("formula")) or not (declaration := rows.get("declaration")):
        return {}
    columns = [each for each in declaration["columns"] if each.get("derived") is None]
    model = {
        "sides": [plain_code(formula[side]) for side in ("response", "offset")],
        "factors": sorted(sorted(map(plain_code, term)) for term in formula["factors"]),
    }
    return {
        "keywords": parameters["keywords"],
        "declaration": {**declaration, "columns": sorted(columns, key=lambda each: str(each["name"]))},
        "columns": formula["columns"],
        "model": list(signature) or model,
    }


def canonical_request(request: ReleaseRequest) -> str:
    """Return the one text of all spellings of a request, apart from its budget; it needs no row."""
    params = public_plan(request).params
    parameters = question_parameters(request.estimator, params, request.design)
    if request.by_formula:
        parameters = model_of_question(parameters, signature_of(request.by_formula))
    keywords = {**parameters["keywords"], "epsilon": None, "delta": None}
    return canonical_json({**parameters, "estimator": request.estimator.name, "keywords": keywords})


def _sorted(design: RowDesign, order: Sequence[int]) -> RowDesign:
    """Return a design with its columns in another order, and those of the file by name."""
    declaration = design.declaration
    if declaration:
        by_name = sorted(declaration.columns, key=lambda column: column.name)
        declaration = replace(declaration, columns=tuple(by_name))
    return replace(design, columns=tuple(design.columns[j] for j in order), declaration=declaration)


def _plain(value: Any, digests: dict[int, str] | None = None) -> Any:
    """Return a value with all its fields as plain data; a formula, which many columns share, is a digest."""
    digests = {} if digests is None else digests  # by the identity of a formula, which lives longer
    if id(value) in digests:
        return digests[id(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(each, digests) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each, digests) for each in value]
    if isinstance(value, Derived):
        text = canonical_json(_plain(value.described, digests))
        return digests.setdefault(id(value), hashlib.sha256(text.encode()).hexdigest())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name), digests) for item in fields(value)}
    return value


class ClippedCells:
    """Which cells of X and y were clipped at a bound, one bit each, for `dpalgos.Sample`."""

    def __init__(self, design: RowDesign) -> None:
        more = [AT_CENTERS, design.response.name] if design.response else []
        self._columns, self._pieces = [*design.names, *more], list[np.ndarray]()

    def add(self, piece: DeclaredTable) -> None:
        cells = np.zeros((len(piece.is_complete), len(self._columns)), dtype=bool)
        for j, name in enumerate(self._columns):
            cells[piece.is_complete, j] = piece.sides.get(name, 0)
        self._pieces.append(np.packbits(cells, axis=1))

    def add_unclipped(self, n_rows: int) -> None:
        self._pieces.append(np.packbits(np.zeros((n_rows, len(self._columns)), dtype=bool), axis=1))

    @cached_property
    def _bits(self) -> np.ndarray:
        return np.concatenate(self._pieces)

    def any(self) -> bool:
        return bool(self._bits.any())

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the cells of some rows, (m, columns)."""
        return np.unpackbits(self._bits[rows], axis=1, count=len(self._columns)).astype(bool)


class _DesignReader(DeclaredReader):
    """Reads the columns of X and the response from a table's files, in public units.

    A row that is left out for a missing cell becomes a row of zeros. If sums are released (``of_sums``), the
    file may have fewer users than declared.
    """

    def __init__(self, source: Source, design: RowDesign, of_sums: bool = False) -> None:
        # No refusal may depend on codes that the analyst chooses: a coded id is one user.
        declaration = design.declaration or design.plain_declaration
        super().__init__(source, replace(declaration, missing_codes=()))
        self._design, self.clipped_cells, self._of_sums = design, ClippedCells(design), of_sums
        self._n_declared = declaration.n_users or 0
        self._weights: list[FloatArray] = []

    @property
    def weights(self) -> FloatArray | None:
        """The weights of the rows (n,), 0 where a row is left out."""
        return np.concatenate(self._weights) if self._design.weights else None

    @property
    def users(self) -> np.ndarray | None:
        """A code per row (n,) for the user it belongs to, if they are protected."""
        return self.ids.codes() if self.ids else None

    @property
    def without_rows(self) -> range:
        """The codes of declared users who have no row."""
        n_users = int(self.ids.codes().max()) + 1 if self.ids else 0
        return range(n_users, max(n_users, self._n_declared))

    def _other_users(self, found: int) -> list[str]:
        return [] if self._of_sums and found < self._n_declared else super()._other_users(found)

    def pieces(self, part: Part, watch: Watch | None = None) -> Iterator[Numbers]:
        for piece in self.tables(part, watch):
            at = piece.is_complete
            if watch:  # the first pass
                self.clipped_cells.add(piece)
                self._add_weights(piece)
            kept, responses = self._design.rows(piece.table)
            rows = np.zeros((len(at), kept.shape[1]), order="F")
            rows[at] = kept
            numbers = dict(zip((*self._design.names, AT_CENTERS), rows.T, strict=False))
            if response := self._design.response:
                numbers[response.name] = np.zeros(len(rows))
                numbers[response.name][at] = responses
            yield numbers

    def _add_weights(self, piece: DeclaredTable) -> None:
        if name := self._design.weights:
            self._weights.append(np.zeros(len(piece.is_complete)))
            self._weights[-1][piece.is_complete] = piece.table[name]


class _PersonReader(_DesignReader):
    """Reads the declared columns of a time to an event, with categories as codes.

    A row that is left out for a missing cell has public values, and is known by ``is_complete``.
    """

    def __init__(self, source: Source, design: RowDesign, formula: FormulaDesign) -> None:
        super().__init__(source, design)
        self._formula = formula
        self.is_complete: list[np.ndarray] = []
        self.is_clipped: list[np.ndarray] = []  # whether a covariate was clipped

    @property
    def categories(self) -> tuple[Column, ...]:
        """The columns that it reads as codes."""
        return tuple(each for each in self._columns if each.categories and each.name in self._formula.uses)

    def pieces(self, part: Part, watch: Watch | None = None) -> Iterator[Numbers]:
        for piece in self.tables(part, watch):
            at, sides = piece.is_complete, piece.sides
            if watch:  # the first pass
                self._add_weights(piece)
                self.is_complete.append(at)
                self.is_clipped.append(np.zeros(len(at), dtype=bool))
                for name in sides.keys() & set(self._formula.uses) - set(self._formula.times):
                    self.is_clipped[-1][at] |= sides[name] != 0
            numbers = {name: np.full(len(at), float(self._public(name))) for name in self._formula.uses}
            for name, values in numbers.items():
                values[at] = piece.table[name]
            yield numbers

    def _public(self, name: str) -> float:
        column, time = self._formula.source[name], self._formula.survival
        if isinstance(column, CategoryColumn):
            return 0.0
        return time.periods[0] if time and name in self._formula.times else column.lower


def read_rows(
    reader: Fingerprinter,
    data: Source,
    request: ReleaseRequest,
    progress: Callable[[int], None] | None = None,
) -> Sample:
    """Read and check the file once; of a large file without users keep no number."""
    columns, design, formula = request.columns, request.design, request.by_formula
    if isinstance(data, Query) and columns.user_id and not data.is_ordered:
        raise SpecError(
            f"{data} must state the order of its rows, since at most max_rows of a user's rows are used; add "
            "ORDER BY with columns that no two rows of a user share"
        )
    reader.expect(n_rows_stated(data))

    def watch(batch: CanonicalBatch) -> None:
        reader.add(batch)
        if progress and not columns.user_id:  # how many rows users have is private
            progress(reader.n_rows)

    if request.table:
        require_clusters(data, request.table)
    if formula and formula.joins_rows:
        return _person_rows(data, design, formula, watch)
    return rows_of(data, design, watch, drops=request.is_sum, streams=partial(_takes_streams, request))


def _takes_streams(request: ReleaseRequest, n_rows: int) -> bool:
    """Return whether the estimator reads so many rows in passes over a file."""
    try:
        shape = n_rows, request.design.n_columns
        release_plan(request.estimator.name, *shape, request.keywords, streamed=True)
    except StreamRefused:
        return False
    return True


def _person_rows(path: Source, design: RowDesign, formula: FormulaDesign, watch: Watch) -> Sample:
    """Return the person-periods of a time to an event, as `dpalgos.formula.phreg` makes them of a frame."""
    from dpalgos.formula.person_rows import person_sample  # loaded if a response is a time

    make = partial(_PersonReader, path, design, formula)
    reader, table = make(), StreamedTable(path, make)
    table.check(reader, watch, inf)
    numbers, _ = table.in_memory()
    rows: dict[str, Any] = dict(zip(formula.uses, numbers.T, strict=True))
    for column in reader.categories:
        rows[column.name] = np.array(column.categories)[rows[column.name].astype(int)]
    is_complete, is_clipped = map(np.concatenate, (reader.is_complete, reader.is_clipped))
    return Sample(
        **person_sample(
            formula,
            rows,
            np.arange(len(numbers)) if reader.users is None else reader.users,
            is_clipped=is_clipped if is_clipped.any() else None,
            row_weights=reader.weights,
            is_complete=None if is_complete.all() else is_complete,
        )
    )


def rows_of(
    path: Source,
    design: RowDesign,
    watch: Watch,
    *,
    drops: bool,
    streams: Callable[[int], bool] = lambda _: False,
) -> Sample:
    """Return the rows of a design. Many rows without users are streamed if ``streams`` allows their number.

    A missing cell is refused where rows of zeros would not do (``drops`` is false): they would move a mean.
    A declared user without a row gets a row of zeros. Workers of a cluster make the partial sums of a
    folder's files.
    """
    make = partial(_DesignReader, path, design, drops)
    reader = make()
    table = StreamedTable(path, make, design.response.name if design.response else "")
    table.check(reader, watch, inf if reader.ids else HELD_NUMBERS)
    if reader.repairs and not drops:
        raise DataError(
            f"{path}: {reader.repairs[0].reason}; only regressions can be released without some rows, "
            "since the number of rows left is private; give the column impute = a public constant, or "
            'release means of groups by a formula such as "age ~ region"'
        )
    more = reader.without_rows
    reader.clipped_cells.add_unclipped(len(more))
    clipped = reader.clipped_cells if reader.clipped_cells.any() else None
    parts = table.partitions
    if not table.is_held and streams(sum(n_rows for _, n_rows in parts)):
        rows = PartitionedRows(parts, map_on_workers) if is_folder(path) else StreamedRows(*parts[0])
        return Sample(rows, moved=clipped, row_weights=reader.weights)
    X, y, weights = (_with_zeros(each, len(more)) for each in (*table.in_memory(), reader.weights))
    users = None if reader.users is None else np.append(reader.users, np.array(more, dtype=int))
    return Sample(X, y, user_ids=users, row_weights=weights, moved=clipped)


def _with_zeros(values: FloatArray | None, count: int) -> FloatArray | None:
    """Return numbers with so many more rows of zeros."""
    if values is None or not count:
        return values
    return np.concatenate([values, np.zeros((count, *values.shape[1:]))])


def columns_read(request: ReleaseRequest) -> dict[str, tuple[str, ...]]:
    """Return the columns of the file that determine the estimate, with the declared levels of each."""
    columns, analyst_table = request.columns, request.table
    names = {*columns.all_numbers, *filter(None, [columns.user_id])}
    levels: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    if analyst_table:
        used = analyst_table.needed(each for each in analyst_table.columns if each.name in names)
        levels |= {each.name: each.categories for each in used}
    return levels


_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedRelease:
    """A release that can be charged and drawn."""

    request: ReleaseRequest
    n_units: int  # how many rows or users are protected, which is public
    drawing: ReleasePlan
    sample: Sample
    question: Question
    cost: PrivacyCost

    @property
    def params(self) -> AnyEstimator:
        """All keywords of the estimator, defaults included."""
        return self.drawing.params

    @property
    def question_of_3_0(self) -> Question:
        """The same question, as version 3.0 identified it."""
        asked = self.request.estimator, self.params, self.request.design
        return replace(self.question, parameters=question_parameters(*asked, as_in_3_0=True))

    @property
    def offset(self) -> str:
        """The offset of a rate model, as its formula writes it or by its column; "" if there is none."""
        if design := self.request.by_formula:
            return design.offset_code
        return self.request.units.names[0] if getattr(self.params, OFFSET, None) else ""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredRelease:
    """A release: its plan and charge, the stored result, and the budget since."""

    plan: PlannedRelease
    charge: Charge
    answer: Mapping[str, Any]
    account: Account  # the dataset's budget and charges, this one included

    @property
    def replayed(self) -> bool:
        """Whether it is the stored result of the same question, at no cost."""
        return self.charge.answer is not None

    @property
    def estimate(self) -> dict[str, float]:
        """The numbers by column and class, in the order of the request: the ledger keeps names sorted."""
        names, stored = self.plan.request.units.coef_names, self.answer["estimate"]
        if names[0] not in stored:
            classes = range(len(stored) // len(names))
            names = tuple(f"{name}, class {k}" for name in names for k in classes)
        return {name: stored[name] for name in names}

    @property
    def interval(self) -> dict[str, list[float | None]]:
        """The confidence limits by column, if requested; None for one without a valid interval."""
        return dict(self.answer.get("interval", {}))

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the release, as stored with the charge."""
        # A charge of a version without stored facts has those of today, without software versions.
        planned, charged = self.plan.cost, self.charge.cost
        return {**planned.facts, "software": {}, **charged.facts}


def release(
    ledger: Ledger,
    request: ReleaseRequest,
    data: Source,
    *,
    again: bool = False,
    allow_new_content: bool = False,
    before_charge: Callable[[PlannedRelease], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> StoredRelease:
    """Make one release, or replay the stored one.

    With ``again`` the analyst pays once more for a lost result; with ``allow_new_content`` other data share
    the budget. ``before_charge`` is called with the plan of a question that will be charged, or drawn from a
    reserve; it raises to change nothing. Refusals (SpecError, InputError, DataError) show no value of the
    data. ``progress`` is called with the number of rows read so far.
    """
    others = {"allow_new_content": allow_new_content}
    account = ledger.account(request.dataset)
    plan = plan_on_rows(ledger, account, request, data, progress=progress, **others)
    if not again and (text := _spelling_of_charge(plan, account.charges)):
        _log.warning("the same model was released as %r, and is shown as released", text)
        plan = plan_on_rows(ledger, account, request.with_formula(text), data, progress=progress, **others)
    charged = {each.question.identity for each in account.charges}
    if plan.question.identity not in charged and plan.question_of_3_0.identity in charged:
        plan = replace(plan, question=plan.question_of_3_0)
    charges = [each for each in account.charges if each.question.identity == plan.question.identity]
    if not charges and not again:
        _refuse_unmatched(plan.question, account.charges)
    is_lost = bool(charges) and charges[-1].state == PENDING
    if before_charge and (not charges or charges[-1].state == RESERVED or (is_lost and again)):
        before_charge(plan)
    room = room_in(account.budget)
    # A question of a registered plan stays one, even if it is charged again.
    of_plan = {
        key: each.cost.facts[key] for each in charges[-1:] for key in PLAN_FACTS & each.cost.facts.keys()
    }
    cost = replace(plan.cost, facts={**plan.cost.facts, **of_plan})
    with ledger.answering(plan.question, cost, room, again=again, **others) as (charge, account):
        answer = charge.answer or ledger.store(charge, draw_answer(plan))
    return StoredRelease(plan=plan, charge=charge, answer=answer, account=account)


def plan_on_rows(
    ledger: Ledger,
    account: Account,
    request: ReleaseRequest,
    data: Source,
    *,
    allow_new_content: bool = False,
    progress: Callable[[int], None] | None = None,
) -> PlannedRelease:
    """Read and check the rows of a dataset, and plan a release from them."""
    require_unit(account.budget, account.charges, request.unit)
    one_blas_thread()
    allow_new_content = allow_new_content or bool(account.budget.unit)
    reader = ledger.fingerprinter(
        account.contents, request.dataset, read=columns_read(request), allow_new_content=allow_new_content
    )
    return plan_release(request, read_rows(reader, data, request, progress), reader)


def plan_release(request: ReleaseRequest, sample: Sample, reader: Fingerprinter) -> PlannedRelease:
    """Check everything, and return what will be asked, what it costs, and how it is drawn."""
    content, n_users = reader.fingerprint(), None
    if sample.user_codes is not None:
        n_users = int(sample.n_users.min())
        _check_one_row(request, sample, n_users)
    drawing = release_plan(
        request.estimator.name,
        reader.n_rows,
        request.design.n_columns,
        request.keywords,
        n_users=n_users,
        streamed=sample.rows.streamed,
    )
    _check_plan(drawing, request)
    n_units = n_users or reader.n_rows
    _warn_of_large_delta(request.delta, n_units, "users" if n_users else "rows")
    check_data(drawing.estimator, drawing.params, sample)
    question = Question(
        dataset=request.dataset,
        content=content,
        estimator=request.estimator.name,
        parameters=question_parameters(request.estimator, drawing.params, request.design),
        epsilon=request.epsilon,
        delta=request.delta,
        exact=reader.exact(),
    )
    return PlannedRelease(
        request=request,
        n_units=n_units,
        drawing=drawing,
        sample=sample,
        question=question,
        cost=PrivacyCost(**vars(drawing.cost), unit=request.unit, facts=_facts(drawing, request, reader)),
    )


def _check_one_row(request: ReleaseRequest, sample: Sample, n_users: int) -> None:
    """Refuse curves of persons with several rows, as the library does."""
    is_of_curves = request.by_group is not None and request.by_group.survival is not None
    if is_of_curves and n_users < len(sample.rows):
        raise DataError(
            "columns.user_id must be a column in which each person has one row, got a person with several; "
            "survival needs the follow-up of a person in one row: join the rows"
        )


def public_plan(request: ReleaseRequest) -> ReleasePlan:
    """Plan a release by its declarations alone."""
    assert request.table is not None
    name, shape = request.estimator.name, (request.table.units[0], request.design.n_columns)
    return release_plan(name, *shape, request.keywords, n_users=request.n_users)


def is_charged(plan: PlannedRelease, charge: Charge) -> bool:
    """Whether a charge is of the question of a plan, in whatever spelling of its formula."""
    one, other = plan.question, charge.question
    if one.identity == other.identity:
        return True
    stored = charge.cost.facts.get("model")
    same_budget = (one.estimator, one.epsilon, one.delta) == (other.estimator, other.epsilon, other.delta)
    own = plan.cost.facts.get("model")
    if not stored or not own or not same_budget or stored["read"] != own["read"]:
        return False
    models = [model_of_question(each.parameters, stored["signature"]) for each in (one, other)]
    return own["signature"] == stored["signature"] and models[0] == models[1] != {}


def _spelling_of_charge(plan: PlannedRelease, charges: Sequence[Charge]) -> str:
    """Return how the formula of a charge for the same question is spelled; "" if it is as in the plan."""
    same = [each for each in charges if is_charged(plan, each)]
    if not same or any(each.question.identity == plan.question.identity for each in same):
        return ""
    return str(same[-1].cost.facts["model"]["formula"])


def _refuse_unmatched(question: Question, charges: Sequence[Charge]) -> None:
    """Refuse to charge a charged model in another spelling, or what an earlier version may have charged."""
    known = {name: set(part) for name, part in question.parameters.items()}
    budget = question.estimator, question.epsilon, question.delta
    for one, facts in ((each.question, each.cost.facts) for each in charges if each.state != RESERVED):
        same_budget = (one.estimator, one.epsilon, one.delta) == budget
        if not same_budget or (one.exact != question.exact and one.content != question.content):
            continue
        model = model_of_question(question.parameters)
        if model and model == model_of_question(one.parameters):
            terms = ", ".join(one.parameters["rows"]["formula"]["terms"])
            raise SpecError(
                f"formula must be spelled as in the charge of {question.dataset!r} for the same model; for "
                f"its result, at no cost, write the terms {terms} in this order. To charge this, add --again"
            )
        version = facts.get("software", {}).get("dpcost", "1.1")
        is_other = {name: set(part) for name, part in one.parameters.items() if name in known} != known
        if is_other and version != dpalgos.__version__:
            raise AnswerLost(
                f"nothing was charged: version {version} charged {question.dataset!r} for {one.estimator} at "
                f"epsilon {one.epsilon:g} and delta {one.delta:g}, and its request cannot be compared with "
                "this one; dpcost ledger show --json prints its result. To charge this request, add --again"
            )


def _check_plan(plan: ReleasePlan, request: ReleaseRequest) -> None:
    """Stop before the charge if the plan differs from the request, which would be a fault of the program."""
    budget = request.epsilon, request.delta
    planned = getattr(plan.params, "epsilon", None), getattr(plan.params, "delta", None)
    if planned != budget or not plan.cost.epsilon(request.delta) <= request.epsilon:
        raise AssertionError(f"planned {planned} at {plan.cost.epsilon(request.delta)}, asked {budget}")


def _warn_of_large_delta(delta: float, n: int, units: str) -> None:
    if delta * n >= 1:
        _log.warning(
            "delta %g is not below 1/%d, one over the number of %s: publishing a whole one of them at random "
            "would satisfy it; take a delta well below it, e.g. %.0e",
            *(delta, n, units, 1 / n**2),
        )


def _facts(drawing: ReleasePlan, request: ReleaseRequest, reader: Fingerprinter) -> dict[str, Any]:
    """Return the facts to store with the charge: a later version might compute them differently."""
    design = request.by_formula
    model: dict[str, Any] = {}
    if design:
        model = {"formula": design.formula, "signature": signature_of(design)}
        model["read"] = reader.exact(of_table=True)
    return {
        **({"model": model} if model else {}),
        "rho": drawing.cost.rho,
        "events": event_entries(drawing.events),
        "risk": risk_of_events(drawing.events, request.delta, request.relation.unit_of_privacy).to_dict(),
        "software": {
            "dpcost": dpalgos.__version__,
            "opendp": version("opendp"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def draw_answer(plan: PlannedRelease) -> dict[str, Any]:
    """Draw the estimate of a plan that was charged, and return it as plain data in the units of the file.

    Nothing in here is refused for what the rows hold. A file that is not any more what was planned is
    refused; noise may have been drawn by then. Therefore the charge stays.
    """
    units = plan.request.units
    try:
        drawn = draw_release(plan.drawing, plan.sample)
    except DataError as error:
        raise DataError(
            f"{error}; what was charged stays spent, since noise may have been drawn: to pay once more, add "
            "--again"
        ) from None
    answer: dict[str, Any] = {
        "estimate": _named(units.coef_names, units.of(drawn.estimate)),
        "events": event_entries(drawn.events),
    }
    answer |= _fit(plan.request, drawn)
    hidden = drawn.hidden
    if drawn.intervals is not None:
        pairs, why = units.limits_of(drawn.intervals, drawn.estimate)
        limits = [[None if np.isnan(limit) else float(limit) for limit in pair] for pair in pairs]
        answer["interval"] = dict(zip(units.coef_names, limits, strict=True))
        if hidden is not None:
            hidden = replace(drawn.intervals, reasons=why).hidden(units.coef_names)
        if why.any():
            answer["interval_note"] = why_none(why, units.coef_names)
        model = released_model(drawn, plan.request, plan.offset)
        content = plain_model(model) if model else None
        answer |= {"released_model": content} if content else {}
    found = cautions(drawn.diagnostics, hidden)
    return answer | ({"cautions": found} if found else {})


def released_model(drawn: Result, request: ReleaseRequest, offset: str = "") -> ReleasedModel | None:
    """Return the releases of a regression with intervals, from which further results follow."""
    if not drawn.has_model:
        return None
    units, design = request.units, request.by_formula
    matrix, shift = units.affine
    return drawn.released_model(
        units.coef_names,
        matrix=matrix,
        shift=shift,
        by_term=units.groups or {name: (name,) for name in units.coef_names},
        columns=units.columns or units.coef_names,
        response=design.response.name if design and design.response else request.response,
        intercept=units.intercept,
        offset=offset,
        ratios=HAZARD if design and design.survival else "",
    )


def _fit(request: ReleaseRequest, drawn: Result) -> dict[str, Any]:
    """Return how well the model fits, as far as it was released, in the units of the response."""
    units, intercept = request.units, request.design.intercept
    unit, center = (units.factor[-1], units.offset[-1]) if intercept else (1.0, 0.0)
    ones = len(units.names) - 1 if intercept else None
    released = drawn.goodness(ones, units.reach)
    bins = binned(drawn.diagnostics, float(unit), float(center))
    plain = {name: [None if np.isnan(v) else float(v) for v in values] for name, values in bins.items()}
    note = {"fit_note": released.pop("fit_note")} if "fit_note" in released else {}
    return {
        **note,
        **({"fit": in_units(released, float(unit))} if released else {}),
        **({"binned_fit": plain} if plain else {}),
    }


def _named(columns: Sequence[str], estimate: FloatArray) -> dict[str, float]:
    """Return the numbers of an estimate by column, and by class where there are any."""
    if estimate.ndim == 1:
        return dict(zip(columns, map(float, estimate), strict=True))
    rows = zip(columns, estimate, strict=True)
    return {f"{name}, class {k}": float(value) for name, row in rows for k, value in enumerate(row)}
