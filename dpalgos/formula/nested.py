"""Nested models by formula."""

import re
from itertools import permutations

from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.names import find_name
from dpalgos.errors import InputError
from dpalgos.formula.allowed import Reading, read_formula


def submodel_by_formula(model: ReleasedModel, formula: str) -> ReleasedModel:
    """Return the model nested in a release that a formula states, such as ``"cost ~ age + C(region)"``.

    Its terms are looked up among those of the release. Factors of a product may be in any order, and names in
    any quotation. The offset is that of the release, even if the formula omits it.
    """
    reading = read_formula(formula, model.columns)
    spell = reading.names.spell
    for part, code, released in (
        ("response", reading.response, model.response),
        ("offset", reading.offset, model.offset),
    ):
        is_other = code and find_name(_exact(code, reading), [released], model.columns) is None
        if is_other and (released or part == "offset"):
            raise InputError(
                f"formula must have the {part} of the release, {released or 'none'}, got {spell(code)}; a "
                "nested model only leaves out covariates"
            )
    groups, terms = list(model.groups), []
    for factors in filter(None, reading.terms):
        orders = (_exact(":".join(order), reading) for order in permutations(factors))
        names = (find_name(each, groups, model.columns) for each in orders)
        terms.append(next(filter(None, names), spell(":".join(factors))))
    return model.submodel(terms, intercept=() in reading.terms)


def _exact(code: str, reading: Reading) -> str:
    """Return the code of a formula with each column quoted."""
    names = reading.names
    return re.sub(
        names.pattern,
        lambda one: f"Q({names.columns[one[0]]!r})" if one[0] in names.columns else names.spellings[one[0]],
        code,
    )
