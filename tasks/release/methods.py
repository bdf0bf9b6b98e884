"""The paragraph for the methods section of a paper, from the records of one or several releases."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpalgos import get_estimator
from dpalgos.accounting.events import Relation
from dpalgos.coefficients import HAZARD
from reports.writing import words

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
    levels = dict.fromkeys((each["level"], each["covers"]) for each in releases if each["level"])
    sentences = (
        *(f"We estimated {words(dict.fromkeys(estimates))} {how}." for how, estimates in groups.items()),
        prepared_text((rule, items) for model in models for rule, items in model["parts"]),
        f"Reference levels: {words(f'{name} against {level}' for name, level in references.items())}."
        if references
        else "",
        _fixed_when(releases),
        f"The estimates are differentially private for each {unit} at {epsilon}: "
        f"neighboring data are {REPLACED[relation]}.",
        "Noise was drawn with OpenDP's exact samplers and randomness of the operating system.",
        f"All releases from these data spend ε = {ledger['epsilon_spent']:.3g} of a total of "
        f"{ledger['epsilon_budget']:g} at δ = {ledger['delta_budget']:g}.",
        *(
            f"{100 * level:g}% intervals account for sampling error and privacy noise."
            for level in dict.fromkeys(level for level, _ in levels)
        ),
        *dict.fromkeys(covers for _, covers in levels if covers),
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
    return f"{estimator.title} ({'; '.join(filter(None, [f'dpcost {version}', paper]))})"


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
