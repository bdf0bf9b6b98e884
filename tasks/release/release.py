"""One private release about an analyst's data: requested, planned, charged to the ledger, then drawn.

The order protects. Everything that can be wrong is checked, and the cost is known, before the charge. The
charge is on the disk before noise is drawn. The result is in the ledger before it is shown.
"""

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

import dpalgos
from data.errors import DataError
from data.ledger import Account, Charge, Fingerprinter, Ledger, PrivacyCost, Question
from data.ledger.charges import PENDING, RESERVED
from data.tables.sources import Source
from dpalgos import Sample
from dpalgos.accounting.risk import risk_of_events
from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.stored import plain_model
from dpalgos.catalog import Estimator
from dpalgos.cautions import cautions
from dpalgos.coefficients import HAZARD
from dpalgos.core.estimator import AnyEstimator
from dpalgos.errors import BrokenEstimator, InputError
from dpalgos.formula.nested import signature_of
from dpalgos.goodness import binned, in_units
from dpalgos.hardened_release import ReleasePlan, check_data, draw_release, release_plan
from dpalgos.interval import why_none
from dpalgos.plugins import origin_of
from dpalgos.result import Result
from dpalgos.typing import FloatArray
from tasks.cells import one_blas_thread
from tasks.release.question import question_parameters, refuse_unmatched, spelling_of_charge
from tasks.release.request import ReleaseRequest
from tasks.release.rows import columns_read, read_rows
from tasks.release.spending import event_entries, require_unit, room_in
from tasks.study.estimators import OFFSET

PLAN_FACTS = {"reserve", "plan", "file", "forecast"}  # of a question of a registered plan
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
        estimator, design = self.request.estimator, self.request.design
        parameters = question_parameters(estimator, self.params, design, as_in_3_0=True)
        return replace(self.question, parameters=parameters)

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
    if not again and (text := spelling_of_charge(plan.question, plan.cost, account.charges)):
        _log.warning("the same model was released as %r, and is shown as released", text)
        plan = plan_on_rows(ledger, account, request.with_formula(text), data, progress=progress, **others)
    charged = {each.question.identity for each in account.charges}
    if plan.question.identity not in charged and plan.question_of_3_0.identity in charged:
        plan = replace(plan, question=plan.question_of_3_0)
    charges = [each for each in account.charges if each.question.identity == plan.question.identity]
    if not charges and not again:
        refuse_unmatched(plan.question, account.charges)
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


def public_plan(request: ReleaseRequest) -> ReleasePlan:
    """Plan a release by its declarations alone."""
    assert request.table is not None
    name, shape = request.estimator.name, (request.table.units[0], request.design.n_columns)
    return release_plan(name, *shape, request.keywords, n_users=request.n_users)


def draw_answer(plan: PlannedRelease) -> dict[str, Any]:
    """Draw the estimate of a plan that was charged, and return it as plain data in the units of the file.

    Nothing in here is refused for what the rows hold. A file that is not any more what was planned is
    refused; noise may have been drawn by then. Therefore the charge stays.
    """
    units = plan.request.units
    try:
        drawn = draw_release(plan.drawing, plan.sample)
    except (DataError, InputError, BrokenEstimator) as error:
        raise type(error)(
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
    sentences = [*filter(None, [outside_claim(plan.request.estimator)]), *cautions(drawn.diagnostics, hidden)]
    return answer | ({"cautions": sentences} if sentences else {})


def outside_claim(estimator: Estimator) -> str:
    """Return the caution about an external estimator; empty for one of the project."""
    origin = origin_of(estimator.module)
    claim = "Its guarantee is a claim of this file, which dpcost has not tested."
    return f"The estimator is {origin}. {claim}" if origin else ""


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
