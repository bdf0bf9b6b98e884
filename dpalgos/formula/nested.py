"""Nested models by formula."""

from itertools import permutations

from dpalgos.answers.model import ReleasedModel
from dpalgos.errors import InputError
from dpalgos.formula.allowed import read_formula


def submodel_by_formula(model: ReleasedModel, formula: str) -> ReleasedModel:
    """Return the model nested in a release that a formula states, such as ``"cost ~ age + C(region)"``.

    Its terms are looked up among those of the release, with the factors of a product in any order.
    """
    reading = read_formula(formula, model.columns)
    shown = reading.names.shown
    if reading.response and model.response and shown(reading.response) != model.response:
        raise InputError(
            f"formula must have the response of the release, {model.response}, got "
            f"{shown(reading.response)}; a nested model has fewer covariates, and nothing else"
        )
    if reading.offset:
        raise InputError("formula must not state the offset, got one; it stays that of the release")
    terms = []
    for factors in filter(None, reading.terms):
        written = [shown(":".join(order)) for order in permutations(factors)]
        terms.append(next((name for name in written if name in model.groups), written[0]))
    return model.submodel(terms, intercept=() in reading.terms)
