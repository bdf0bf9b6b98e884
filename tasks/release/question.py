"""The question that a release answers, as the ledger stores it, and which charges are of the same question.

It is all that the estimate depends on, apart from the rows, in one form for all spellings of a request.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

import dpalgos
from data.columns import Derived
from data.errors import AnswerLost
from data.formats.canonical import meanings
from data.ledger import Charge, PrivacyCost, Question
from data.ledger.charges import RESERVED, canonical_json
from dpalgos.catalog import Estimator
from dpalgos.core.estimator import AnyEstimator
from dpalgos.formula.allowed import plain_code
from dpalgos.formula.nested import signature_of
from tasks.errors import SpecError
from tasks.own_table.row_design import RowDesign
from tasks.release.request import ReleaseRequest
from tasks.study.estimators import OFFSET

# Keywords that version 2.1 or 3.0 lacks, at values that mean what it did: questions stay the same questions.
_LATER = {
    **{"person_weight": "equal", "max_rows": None, "max_weight": None},  # since 3.0
    **{"with_times": False},  # since 4.0
    **{"counted_events": "", "n_periods": None, "hazard_limit": None, "count_bound": None},  # since 5.0
}


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


def canonical_request(request: ReleaseRequest, params: AnyEstimator) -> str:
    """Return the one text of all spellings of a request, apart from its budget; it needs no row."""
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


def is_charged(question: Question, cost: PrivacyCost, charge: Charge) -> bool:
    """Whether a charge is of a planned question with its cost, in whatever spelling of its formula."""
    charged = charge.question
    if question.identity == charged.identity:
        return True
    planned_model, charged_model = cost.facts.get("model"), charge.cost.facts.get("model")
    if not planned_model or not charged_model or _budget(question) != _budget(charged):
        return False
    if any(planned_model[key] != charged_model[key] for key in ("read", "signature")):
        return False
    signature = charged_model["signature"]
    model = model_of_question(question.parameters, signature)
    return model == model_of_question(charged.parameters, signature) != {}


def spelling_of_charge(question: Question, cost: PrivacyCost, charges: Sequence[Charge]) -> str:
    """Return how the formula of a charge for the same question is spelled; "" if it is as in the question."""
    same = [each for each in charges if is_charged(question, cost, each)]
    if not same or any(each.question.identity == question.identity for each in same):
        return ""
    return str(same[-1].cost.facts["model"]["formula"])


def refuse_unmatched(question: Question, charges: Sequence[Charge]) -> None:
    """Refuse to charge a charged model in another spelling, or what an earlier version may have charged."""
    known = {name: set(part) for name, part in question.parameters.items()}
    model = model_of_question(question.parameters)
    for charge in charges:
        charged = charge.question
        is_same_data = charged.exact == question.exact or charged.content == question.content
        if charge.state == RESERVED or _budget(charged) != _budget(question) or not is_same_data:
            continue
        if model and model == model_of_question(charged.parameters):
            terms = ", ".join(charged.parameters["rows"]["formula"]["terms"])
            raise SpecError(
                f"formula must be spelled as in the charge of {question.dataset!r} for the same model; for "
                f"its result, at no cost, write the terms {terms} in this order. To charge this, add --again"
            )
        version = charge.cost.facts.get("software", {}).get("dpcost", "1.1")
        is_other = {name: set(part) for name, part in charged.parameters.items() if name in known} != known
        if is_other and version != dpalgos.__version__:
            raise AnswerLost(
                f"nothing was charged: version {version} charged {question.dataset!r} for "
                f"{charged.estimator} at epsilon {charged.epsilon:g} and delta {charged.delta:g}, and its "
                "request cannot be compared with this one; dpcost ledger show --json prints its result. To "
                "charge this request, add --again"
            )


def _budget(question: Question) -> tuple[str, float, float]:
    """Return the estimator of a question and its budget."""
    return question.estimator, question.epsilon, question.delta
