"""Nested models by formula."""

import re
from itertools import permutations

from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.names import find_name
from dpalgos.errors import InputError
from dpalgos.formula.allowed import Reading, read_formula


def submodel_by_formula(model: ReleasedModel, formula: str) -> ReleasedModel:
    """Return the model nested in a release that a formula states, such as ``"cost ~ age + C(region)"``.

    Its terms are looked up among those of the release, with the factors of a product in any order and names
    in any quotation. The offset stays that of the release, whether the formula states it or not.
    """
    reading = read_formula(formula, model.columns)
    shown = reading.names.shown
    for what, code, known in (
        ("response", reading.response, model.response),
        ("offset", reading.offset, model.offset),
    ):
        is_other = code and find_name(_exact(code, reading), [known], model.columns) is None
        if is_other and (known or what == "offset"):
            raise InputError(
                f"formula must have the {what} of the release, {known or 'none'}, got {shown(code)}; a "
                "nested model has fewer covariates, and nothing else"
            )
    groups, terms = list(model.groups), []
    for factors in filter(None, reading.terms):
        written = [_exact(":".join(order), reading) for order in permutations(factors)]
        found = (find_name(each, groups, model.columns) for each in written)
        terms.append(next(filter(None, found), shown(":".join(factors))))
    return model.submodel(terms, intercept=() in reading.terms)


def _exact(code: str, reading: Reading) -> str:
    """Return code as a formula writes it, with each column quoted."""
    names = reading.names
    return re.sub(
        names.pattern,
        lambda one: f"Q({names.columns[one[0]]!r})" if one[0] in names.columns else names.written[one[0]],
        code,
    )
