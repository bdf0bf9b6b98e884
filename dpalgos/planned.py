"""The releases that an estimator makes for public numbers: n, d, ε, δ and its keywords."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Event
from dpalgos.api import build_params
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.errors import InputError
from dpalgos.models.families import family_class

EXAMPLE_SIZES, EXAMPLE_BUDGET = {"n": 10_000, "d": 3}, {"epsilon": 1.0, "delta": 1e-8}
EXAMPLE_NUMBERS = "n = 10,000, d = 3, ε = 1, δ = 1e-8"
FAMILIES = ("gaussian", "logistic", "poisson")
_EXAMPLE_CONSTANT = 3  # of a family, where an estimator's example has another family


class PlanLine(NamedTuple):
    """A release of a plan.

    ``share`` is its part of the cost in ρ of zero-concentrated privacy, for all its ``times`` together. Where
    all noise is Gaussian, this is its part of μ². It is NaN for releases without ρ. ``noise`` is the standard
    deviation over the sensitivity of Gaussian noise, or the ε of other noise. Where it differs between the
    releases, it is the smallest and the largest.
    """

    label: str
    times: int
    share: float
    sensitivity: str
    noise: str


def planned_releases(
    name: str, n: int, d: int, keywords: Mapping[str, Any], *, people: bool = False
) -> tuple[list[PlanLine], float]:
    """Return the releases of an estimator in order, and the ε that they prove.

    They are those of its plan. With weights, or a maximum of rows per person, the total weight is released
    first. The other releases are then planned with it. The plan shown is that of weights at their maximum,
    and the total cost is the same for any total.

    Parameters
    ----------
    name : str
    n, d : int
        The number of rows, or of people, and of columns.
    keywords : mapping
        ``epsilon``, ``delta`` and public keywords, which replace those of the estimator's example.
    people : bool
        Whether people are protected with all their rows.
    """
    estimator = get_estimator(name).for_unit(people=people)
    if not estimator.private:
        raise InputError(f"estimator must be a private one, got {name!r}, which makes no releases")
    example = example_of(estimator, str(keywords.get("family", "")))
    return _planned(estimator, n, d, {**example, **keywords})


def example_of(estimator: Estimator, family: str = "") -> dict[str, Any]:
    """Return the keywords of an estimator's example, for another family with the constants that it needs."""
    example = dict(estimator.example)
    if family and estimator.takes("family"):
        example["family"], known = family, family_class(family)
        constants = dict.fromkeys(("response_bound", "residual_bound"), known.needs_response_bound)
        constants["n_classes"] = known.needs_classes
        for name, is_needed in constants.items():
            if not is_needed:
                example.pop(name, None)
            elif estimator.takes(name):
                example.setdefault(name, _EXAMPLE_CONSTANT)
    return example


def worked_examples(estimator: Estimator) -> Iterator[tuple[str, list[PlanLine]]]:
    """Yield different plans of a private estimator's forms and families, each after its settings in words.

    They are for n = 10,000, d = 3, ε = 1 and δ = 10⁻⁸, and the keywords of the estimator's example.
    """
    seen: list[list[PlanLine]] = []
    for variant, calibration, family in product(estimator.variants, ("tight", "paper"), FAMILIES):
        known = "family" in variant.example and "intercept" in variant.example
        if calibration not in variant.calibrations or (family != FAMILIES[0] and not known):
            continue
        settings = {**EXAMPLE_BUDGET, "calibration": calibration, **variant.example}
        settings |= {"family": family} if known else {}
        plan, _ = _planned(variant, **EXAMPLE_SIZES, keywords=settings)
        if plan not in seen:
            seen.append(plan)
            yield ", ".join(filter(None, [variant.form, calibration, family if known else ""])), plan


def _planned(
    estimator: Estimator, n: int, d: int, keywords: Mapping[str, Any]
) -> tuple[list[PlanLine], float]:
    params = build_params(estimator, dict(keywords))
    every, formulas = params.events(n, d), params.formulas(n, d)
    by_label: dict[str, list[Event]] = {}
    for event in every:
        by_label.setdefault(event.label, []).append(event)
    costs = {label: sum(map(_cost_of, events)) for label, events in by_label.items()}
    total = sum(costs.values())
    rows = [
        PlanLine(label, len(events), costs[label] / total, formulas.get(label, ""), _noise_of(events))
        for label, events in by_label.items()
    ]
    return rows, certified_epsilon(every, getattr(params, "delta", 0.0))


def _cost_of(event: Event) -> float:
    try:
        return float(event.rho)
    except InputError:  # a release whose cost does not add up with others
        return float("nan")


def _noise_of(events: Sequence[Event]) -> str:
    """Return the noise of the releases with one label: a number, or the smallest and the largest."""
    for name, prefix in (("noise_multiplier", ""), ("epsilon", "ε = ")):
        known = [value for event in events if (value := getattr(event, name, None)) is not None]
        if known:
            ends = dict.fromkeys(f"{end(map(np.max, known)):.3g}" for end in (min, max))
            return prefix + " to ".join(ends)
    return ""
