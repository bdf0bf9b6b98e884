"""The record of a release: what was done, in a form that can be published.

The parts under ``deployment`` have the names and the meaning of the fields of the OpenDP Deployments Registry
(opendp/deployments-registry-data: ``schemas/deployments-schema.yaml`` and ``deployments/``, tier 3). Fields
that only the curator can fill in are left out. They answer what NIST SP 800-226 asks of a guarantee: unit and
neighboring relation, parameters, trust model, composition, what is outside of the guarantee. ``release`` adds
what the software knows.

No value of the data is in it and no path: only what was declared, what it cost, and the estimate. The number
of the charge follows from the rows by a secret key of the ledger. Someone who has that key, and all rows
except one, could test a guess of the last row against it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.columns import Column
from data.ledger import Charge
from data.ledger.charges import PENDING, RELEASED
from data.store.folders import atomic_write, read_small
from dpalgos import get_estimator
from dpalgos.accounting.events import Relation
from dpalgos.coefficients import HAZARD, covered
from dpalgos.formula.survival_time import BASELINE_TERMS, FIRST_EVENT
from reports.writing import words
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable, fitted_columns
from tasks.release.faults import is_bound
from tasks.release.release import StoredRelease, outside_claim
from tasks.release.request import ReleaseRequest
from tasks.release.spending import spent_of

if TYPE_CHECKING:
    from dpalgos.formula.group_table import GroupNumbers


NO_METHODS = "This record is of version 1.1 or earlier, and has no paragraph for a methods section."
_TABLES = {"survival": "survival curves by group", "table1": "the baseline table of groups"}
REPLACED = {
    Relation.CENTRAL: "datasets of the same number of rows that differ in one row, replaced by any other",
    Relation.USER: "datasets of the same users that differ in all rows of one user, replaced by any others",
}
_AVERAGED = (
    "If hazards are not proportional, a hazard ratio is an average over the follow-up, with weights that "
    "depend on when events and censoring happen."
)
VERSION = 1
FILES = ("release.json", "release.html")


def prepared_text(parts: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return sentences about the preparation of rows, each with its items; equal ones are merged."""
    items_by_rule: dict[str, dict[str, None]] = {}
    for rule, items in parts:
        items_by_rule.setdefault(rule, {}).update(dict.fromkeys(items))
    return " ".join(f"{rule}: {words(items)}." if items else rule for rule, items in items_by_rule.items())


def methods_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return one paragraph about all releases; records up to version 2.1 keep their own."""
    releases = [record["release"] for record in records]
    if not releases or any("parts" not in each.get("model", {}) for each in releases):
        return "\n\n".join(each.get("methods", NO_METHODS) for each in releases)
    models, is_one = [each["model"] for each in releases], len(releases) == 1
    losses = [record["deployment"]["privacy_loss"]["privacy_parameters"] for record in records]
    groups: dict[str, list[str]] = {}
    for release, loss in zip(releases, losses, strict=True):
        how = f"from {release['model']['n']:,} {release['model']['counted']} by {_estimator(release)}"
        budget = "" if is_one else f" (ε = {loss['epsilon']:.4g})"
        groups.setdefault(how, []).append(f"{_estimated(release)}{budget}")
    references = {name: level for model in models for name, level in model["references"].items()}
    ledger, unit = releases[-1]["ledger"], records[0]["deployment"]["privacy_loss"]["privacy_unit"].lower()
    relation = Relation.USER if unit == Relation.USER.unit_of_privacy else Relation.CENTRAL
    epsilon = f"ε = {losses[0]['epsilon']:g}, δ = {losses[0]['delta']:g}"
    if not is_one:
        epsilon = f"the ε in parentheses and δ = {losses[0]['delta']:g}"
    levels = dict.fromkeys(each["level"] for each in releases if each["level"])
    covered: dict[str, list[str]] = {}
    for release in releases:
        if release["level"] and release["covers"]:
            covered.setdefault(release["covers"], []).append(_estimated(release))
    sentences = (
        *(f"We estimated {words(dict.fromkeys(estimates))} {how}." for how, estimates in groups.items()),
        prepared_text((rule, items) for model in models for rule, items in model["parts"]),
        f"Reference levels: {words(f'{name} against {level}' for name, level in references.items())}."
        if references
        else "",
        _fixed_when(releases),
        f"The estimates are differentially private for each {unit} at {epsilon}: "
        f"neighboring data are {REPLACED[relation]}.",
        *dict.fromkeys(each.get("outside", "") for each in releases),
        "Noise was drawn with OpenDP's exact samplers and randomness of the operating system.",
        f"All releases from these data spend ε = {ledger['epsilon_spent']:.3g} of a total of "
        f"{ledger['epsilon_budget']:g} at δ = {ledger['delta_budget']:g}.",
        *(f"{100 * level:g}% intervals account for sampling error and privacy noise." for level in levels),
        *(
            covers if is_one else f"{words(dict.fromkeys(estimates))}: {covers}"
            for covers, estimates in covered.items()
        ),
        _AVERAGED if any(model.get("family") == HAZARD for model in models) else "",
    )
    return " ".join(filter(None, map(str.strip, sentences)))


def _fixed_when(releases: Sequence[Mapping[str, Any]]) -> str:
    """Say that settings were fixed beforehand, or which releases of these data came before."""
    earlier = {
        each["charge"]: each["charged"] for one in releases for each in one["ledger"].get("earlier", ())
    }
    if not earlier:
        return "Columns, bounds, levels and settings were fixed before the program read the data."
    count, last = len(earlier), max(earlier.values())[:10]
    others = "one other release was" if count == 1 else f"{count} other releases were"
    return (
        f"Before this release, {others} made from these data, the last on {last}. Columns, bounds, levels "
        "and settings may have been chosen with their results, which the total guarantee covers."
    )


def _estimator(release: Mapping[str, Any]) -> str:
    """Return the estimator with what to cite: a paper, or this program."""
    estimator, version = get_estimator(release["estimator"]), release["software"]["dpcost"]
    paper = estimator.reference.removeprefix("ours").removeprefix("; ")
    program = "" if release.get("outside") else f"dpcost {version}"
    return f"{estimator.title} ({'; '.join(filter(None, [program, paper]))})"


def _estimated(release: Mapping[str, Any]) -> str:
    """Return the model or the means that a release estimates."""
    model = release["model"]
    if by_group := release.get("by_group"):
        return f"{_TABLES[by_group['declaration']['kind']]} ({model['formula']})"
    if release.get("binned_fit"):
        return f"the calibration of {model['formula'] or model['response']}"
    if model.get("family") == HAZARD:
        return f"hazard ratios ({model['formula']})"
    columns = words(model["covariates"])
    if not model["response"]:
        return f"the {'means' if len(model['covariates']) > 1 else 'mean'} of {columns}"
    of = model["formula"] if model["by_formula"] else f"{model['response']} on {columns}"
    return f"{of}, with the offset {model['offset']}," if model["offset"] else of


def record_of(released: StoredRelease) -> dict[str, Any]:
    """Return what can be published of a release."""
    plan, charge, answer = released.plan, released.charge, released.answer
    request = plan.request
    facts, events = released.facts, answer["events"]
    estimator, model, spent = request.estimator, _model_part(released), spent_of(released.account)
    target = str(getattr(plan.params, "interval_target", ""))
    covers = covered(target, request.family) if request.level is not None and target else ""
    content = answer.get("released_model")
    if content and request.by_formula:  # which results of version 2.1 do not hold
        content = {**content, "declaration": request.by_formula.declaration}
    release = {
        "estimator": estimator.name,
        "reference": estimator.reference,
        "level": request.level,
        "model": model,
        "answer": [_coefficient(name, value, released) for name, value in released.estimate.items()],
        "by_group": {},
        "covers": covers,
        "interval_note": str(answer.get("interval_note", "")),
        "cautions": list(answer.get("cautions", [])),
        "fit": dict(answer.get("fit", {})),
        "fit_note": str(answer.get("fit_note", "")),
        "binned_fit": dict(answer.get("binned_fit", {})),
        "released_model": content,
        "events": events,
        "public": list(_public(released)),
        "parameters": dict(plan.question.parameters),
        "risk": facts["risk"],
        "ledger": {
            "charge": charge.id,
            "charged": charge.charged,
            "replayed": released.replayed,
            "epsilon_charged": charge.epsilon,
            "earlier": [{"charge": each.id, "charged": each.charged} for each in _earlier(released)],
            **spent,
            "head": released.account.head,
        },
        **({"outside": claim} if (claim := outside_claim(estimator)) else {}),
        "hardened_noise": "integer noise on a public grid from OpenDP's exact samplers, with randomness of "
        "the operating system; rounding is counted in the sensitivity",
        "software": facts["software"],
    }
    if numbers := request.by_group:
        release |= _by_group(released, numbers)
    mechanisms = "; ".join(dict.fromkeys(f"{each['mechanism']} ({each['label']})" for each in events))
    deployment = _deployment(released, model, spent, mechanisms)
    record = {"record_version": VERSION, "deployment": deployment, "release": release}
    return {**record, "release": {**release, "methods": methods_of([record])}}


def _earlier(released: StoredRelease) -> Iterator[Charge]:
    """Yield the charges of these data before this one, without those of its question and of its plan.

    If the plan or its study file changed after a release, that release may have led to the change.
    """
    own = released.charge
    plan = _plan_of(own)
    # By their order in the chain: the clock may have been set back.
    for each in takewhile(lambda each: each.id != own.id, released.account.charges):
        is_of_plan = bool(own.reserve) and _plan_of(each) == plan
        is_drawn = each.state in (PENDING, RELEASED) and each.question.identity != own.question.identity
        if is_drawn and not is_of_plan:
            yield each


def _plan_of(charge: Charge) -> tuple[str, str]:
    """Return the name of a charge's plan, and the digest of its files when the charge was reserved."""
    return charge.reserve.partition("/")[0], str(charge.cost.facts.get("file", {}).get("digest", ""))


def _by_group(released: StoredRelease, numbers: "GroupNumbers") -> dict[str, Any]:
    """Return the facts of a table by group, and its rows in the place of the numbers of each group."""
    (event,) = released.answer["events"]
    estimate = [released.answer["estimate"][name] for name in numbers.released_names]
    noise_std = event["noise_multiplier"] * event["sensitivity"]
    result = numbers.result(estimate, noise_std, released.plan.n_units, released.plan.request.level)
    content = {"declaration": numbers.declaration, "estimate": estimate, "noise_std": noise_std}
    answer = [{**row, "shrunk": row["estimate"]} for row in result.rows()]
    cautions = [*released.answer.get("cautions", []), *getattr(result, "cautions", [])]
    return {"by_group": content, "answer": answer, "level": result.level, "cautions": cautions}


def _coefficient(name: str, value: float, released: StoredRelease) -> dict[str, Any]:
    """Return a number of the release; with an interval its estimate is the center."""
    lower, upper = released.interval.get(name, (None, None))
    known = lower is not None and upper is not None
    estimate = (lower + upper) / 2 if known else value  # type: ignore[operator]
    return {"name": name, "estimate": estimate, "shrunk": value, "lower": lower, "upper": upper}


def _deployment(
    released: StoredRelease, model: Mapping[str, Any], spent: Mapping[str, Any], mechanisms: str
) -> dict[str, dict[str, Any]]:
    """Return the fields of the registry."""
    request, n_units, estimator = released.plan.request, model["n"], released.plan.request.estimator
    relation, user_id = request.relation, request.columns.user_id
    unit = relation.unit_of_privacy
    columns = ", ".join(request.named_columns)
    by = f"; users by the column {user_id}" if user_id else ""
    return {
        "product": {
            "name": request.dataset,
            "data_product_type": "Summary statistics" if estimator.task == "mean" else "Statistical model",
            "description": f"{estimator.title}: {estimator.summary}",
            "publication_date": released.charge.charged[:10],
        },
        "dp_flavor": {
            "name": "Approximate DP" if request.delta else "Pure DP",
            "input_metric": f"number of {unit}s that are replaced",
            "bound_on_input_distance": f"one {unit}",
            "output_measure": "hockey-stick divergence, (ε, δ)",
            "data_domain": f"tables of {n_units} {unit}s with columns {columns}",
            "unprotected_quantities": f"the number of {unit}s, {n_units}. {model['preparation']}",
        },
        "privacy_loss": {
            "privacy_unit": unit.capitalize(),
            "privacy_unit_description": f"{relation.neighboring_relation}: {REPLACED[relation]}{by}",
            "privacy_parameters": {
                "epsilon": request.epsilon,
                "delta": request.delta,
                "rho": released.facts["rho"],
            },
            "privacy_parameters_description": "a fixed guarantee, charged before anything was drawn",
        },
        "model": {
            "model_name": "Central",
            "model_name_description": "the curator who holds the rows and runs this program is trusted; "
            "readers of the release are not",
            "release_type": "One-shot",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "units of the file, public ranges, intervals from released numbers",
            "composition": "zero-concentrated privacy losses add up over all releases of "
            f"{request.dataset!r} (fully adaptive composition): {spent['epsilon_spent']:.4g} of ε = "
            f"{spent['epsilon_budget']:g} at δ = {spent['delta_budget']:g} is spent",
        },
        "implementation": {
            "pre_processing_eda_hyperparameter_tuning": "columns, bounds and settings were declared before "
            "the data were read by this program; what their owner knew of the data is not accounted",
            "mechanisms": mechanisms,
        },
    }


def is_recorded(record: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a folder holds this record; the field ``replayed`` may differ."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(read_small(folder / FILES[0]))
        known["release"]["ledger"]["replayed"] = record["release"]["ledger"]["replayed"]
        is_whole = all((folder / name).is_file() for name in FILES)
        return is_whole and bool(known == json.loads(json.dumps(record)))
    return False


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    """Write ``release.json`` and a page to print, ``release.html``, into a folder, which is created."""
    from reports.pages.release_page import render_release
    from tasks.report.coefficients import by_group_of

    page = render_release(record, by_group_of(record["release"]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        for name, each in zip(FILES, (content.encode(), page), strict=True):
            atomic_write(folder / name, each)
    except OSError as error:
        raise SpecError(
            f"the record cannot be written to {folder}: {error.strerror}; the estimate is stored, so name "
            "another folder with --record and ask again, at no cost"
        ) from None


def _public(released: StoredRelease) -> Iterator[dict[str, str]]:
    """Yield what was taken as public, and where it comes from."""
    request = released.plan.request
    unit, table = request.relation.unit_of_privacy, request.table

    def fact(what: str, value: object, source: str) -> dict[str, str]:
        return {"what": what, "value": str(value), "source": source}

    yield fact(f"number of {unit}s", released.plan.n_units, "shared by all neighboring data")
    for name, value in {**request.bounds, **request.params}.items():
        yield fact(name, value, "declared as a bound in the release file" if is_bound(name) else "a setting")
    if table and table.weights:
        yield fact(f"weights {table.weights}", f"0 to {table.max_weight:g}", "declared in the study file")
    for column in table.columns if table else ():
        if column.name in request.named_columns:
            is_counted = bool(request.by_group and column.name in request.by_group.counts_missing)
            yield fact(f"column {column.name}", _declared(column, is_counted), column.source)


def _declared(column: Column, is_counted: bool) -> str:
    """Say what is declared of a column: its categories or bounds, its unit, and what blank cells are."""
    known = ", ".join(column.categories)
    if not known:
        (number,) = fitted_columns(column)
        of = " of the logarithm" if column.transform else ""
        known = (
            f"{column.lower:g} to {column.upper:g}, center {number.center:g} and scale {number.scale:g}{of}"
        )
    if is_counted:
        return f"{known}; blank cells are counted"
    if column.impute is None:
        return known
    blank = column.impute if isinstance(column.impute, str) else f"{column.impute:g}"
    return f"{known}; blank cells are {blank}"


def _model_part(released: StoredRelease) -> dict[str, Any]:
    request = released.plan.request
    declared = request.table.columns if request.table else ()
    is_time = bool(request.by_formula and request.by_formula.survival)
    return {
        "n": released.plan.n_units,
        "counted": "rows in the file" if _drops_rows(request) else f"{request.relation.unit_of_privacy}s",
        "preparation": prepared_text(_preparation(request)),
        "parts": list(_preparation(request)),
        "response": request.response,
        "family": HAZARD if is_time else request.family,
        "formula": request.formula,
        "by_formula": request.by_formula is not None,
        "covariates": [*request.terms],
        "offset": "" if is_time else released.plan.offset,
        "references": dict(request.by_formula.references)
        if request.by_formula
        else {
            each.name: each.categories[0]
            for each in declared
            if each.categories and each.name in request.columns.x
        },
    }


def _preparation(request: ReleaseRequest) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what becomes of missing cells, of values beyond bounds and of levels, but not of how many."""
    table, columns = request.table, request.columns
    if table is None:
        yield "A file with a missing value is rejected. Columns are used without rescaling.", ()
        if columns.y and not request.keywords.get("intercept"):
            yield "The model has no intercept.", ()
    else:
        used = table.needed(each for each in table.columns if each.name in columns.xy)
        yield from _coded_response(request, used)
        counted = request.by_group.counts_missing if request.by_group else ()
        if counted:
            yield "Missing values are counted; other statistics are of persons with a value", counted
        if _drops_rows(request):
            which = "a missing group" if counted else "a missing value"
            yield (
                f"Rows with {which} are left out: they count in the number of rows and add zeros to sums.",
                (),
            )
        else:
            is_imputed = any(each.impute is not None and each.name not in counted for each in used)
            rest = " or ".join(["counted"] * bool(counted) + ["replaced"] * is_imputed)
            yield f"A file with a missing value is rejected{f', except where it is {rest}' * bool(rest)}.", ()
        yield from _cells(table, used, counted)
    if columns.weights:
        maximum = table.max_weight if table else request.bounds["max_weight"]
        yield f"Rows are weighted by column {columns.weights}, clipped to [0, {maximum:g}].", ()
    formula = request.by_formula
    if formula and formula.times:
        yield f"{BASELINE_TERMS}.", ()
    if columns.user_id and formula and formula.times:
        time = formula.survival
        which = "All events of a user count." if time and time.all_events else f"{FIRST_EVENT}."
        yield f"Each row of a user counts with its own covariates. {which}", ()
    elif columns.user_id:
        if (most := request.keywords.get("max_rows")) is None:
            yield "Each user counts once, whatever the number of their rows.", ()
            if table and (columns.y or request.by_group):
                yield "Users without rows add zeros to sums.", ()
        else:
            yield f"Each row counts once, up to {most} of a user; other rows are left out.", ()


def _coded_response(request: ReleaseRequest, used: Sequence[Column]) -> Iterator[tuple[str, Sequence[str]]]:
    """Say which number each category of the response is: of two, the second one is the event."""
    formula = request.by_formula or request.by_group
    time = formula.survival if formula else None
    names = [name for each in used if each.name == request.columns.y for name in each.uses]
    for each in used:
        if each.categories and each.name in ([time.event] if time else names):
            codes = [f"{code} is {text!r}" for code, text in enumerate(each.categories)]
            yield f"{'The event' if time else 'The response'} {each.name} is coded", codes


def _drops_rows(request: ReleaseRequest) -> bool:
    """Return whether rows with a missing value are left out: fewer rows are used than the file has."""
    return request.is_sum and request.table is not None and request.table.missing == "drop"


def _cells(
    table: AnalystTable, used: Sequence[Column], counted: Collection[str]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Say what becomes of single cells, and which rows belong together."""
    imputed = [each for each in used if each.impute is not None and each.name not in counted]
    if imputed:
        yield "Missing values are replaced", [f"{each.impute} in {each.name}" for each in imputed]
    if markers := [f"{words(list(map(repr, each.missing)))} in {each.name}" for each in used if each.missing]:
        yield "Codes for missing values", markers
    if numbers := [each for each in used if not each.categories and not each.derived]:
        rule = "Values outside the public bounds are clipped to the nearer bound"
        if table.outside != "clip":
            rule = "A file with a value outside the public bounds is rejected"
        yield rule, [f"{one.name} {one.lower:.10g} to {one.upper:.10g}{_units(one)}" for one in numbers]
    if logs := [each.name for each in used if each.transform]:
        yield "Logarithms are used", logs
    for each in used:
        merged = [
            f"{words(list(map(repr, texts)))} as {level!r}" for level, texts in each.levels.items() if texts
        ]
        if each.others:
            merged.append(f"every other text as {each.others!r}")
        if merged:
            yield f"In {each.name}, {words(merged)} counts.", ()
    privacy_unit = table.privacy_unit.rstrip(".").removeprefix("one row, ")  # which studies of 3.0 state
    yield f"Unit of privacy: one {'user' if table.user_id else 'row'} ({privacy_unit}).", ()
    if table.user_id:
        return
    if not table.clusters:
        yield "It was not declared whether rows depend on each other; they are treated as independent.", ()
    elif table.clusters == "none":
        yield "Rows are treated as independent.", ()
    else:
        yield f"Rows with the same {table.clusters} may depend on each other, so no interval is computed.", ()


def _units(column: Column) -> str:
    unit = {"center": column.center, "scale": column.scale}
    listed = words([f"{name} {value:.10g}" for name, value in unit.items() if value is not None])
    return f" ({listed})" if listed else ""
