"""Other plans: of releases that are not all Gaussian, and plans that change during a run.

A plan with selections is first made by shares of the ρ of zero-concentrated DP. Then all its noise is scaled
by one factor, to the smallest that the accountant proves.
"""

from collections.abc import Mapping

import numpy as np

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise
from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.core.plans import Plan, Share, check_shares
from dpalgos.core.spend import Spend

_BELOW = 1 - 1e-12  # keeps the rounded sum of parts of ε below ε


def laplace_plan(epsilon: float, shares: Mapping[str, Share]) -> dict[str, Laplace]:
    """Return a plan of Laplace releases by their shares of ε, which sum to 1: their ε add up."""
    check_shares({label: one.share for label, one in shares.items()})
    return {
        label: Laplace(part_of_epsilon(epsilon, one.share, one.times), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def part_of_epsilon(epsilon: float, share: float, times: int = 1) -> float:
    """Return the ε of each of some releases with a share of ε, rounded down: their ε add up."""
    return _BELOW * epsilon * share / times


def concentrated_plan(
    epsilon: float, delta: float, shares: Mapping[str, tuple[float, Event]]
) -> dict[str, Event]:
    """Return a plan by shares of the ρ of zero-concentrated DP, which sum to 1.

    A share is of all releases of an event, and of all that each of them selects or charges. The noise that an
    event states is replaced.
    """
    check_shares({label: share for label, (share, _) in shares.items()})
    rho = concentrated_rho(epsilon, delta)
    return {label: event.with_rho(share * rho) for label, (share, event) in shares.items()}


def after_selections(
    epsilon: float, delta: float, label: str, selection: Selection, share: float, plan: Plan
) -> dict[str, Event]:
    """Return a plan of selections with a share of ρ, followed by a plan with the rest, by the least noise.

    The plan by itself is (ε, δ)-DP. The noise that the selection states is replaced.
    """
    first = concentrated_plan(epsilon, delta, {label: (share, selection), "rest": (1 - share, Gaussian(1.0))})
    rest = {name: event.scaled(1 / float(np.sqrt(1 - share))) for name, event in plan.items()}
    return least_noise_plan(epsilon, delta, {label: first[label], **rest}, holds=False)


def least_noise_plan(
    epsilon: float, delta: float, plan: Plan, *, holds: bool = True, many: bool = False
) -> dict[str, Event]:
    """Return a plan with all noise scaled by one factor, the smallest that proves (ε, δ) to 0.998 of ε.

    ``holds`` and ``many`` are those of :func:`dpalgos.accounting.calibration.least_noise`.
    """
    factor = least_noise(list(plan.values()), epsilon, delta, holds=holds, many=many)
    return {label: event.scaled(factor) for label, event in plan.items()}


def replan(spend: Spend, plan: Plan) -> None:
    """Spend another plan from now on, which may depend on what was released before.

    All noise is Gaussian in both plans. The new one has the releases made so far with the same noise, and
    costs no more μ², the sum of 1/z² over all releases of noise multipliers z. Therefore the whole run is
    as private as the first plan, whatever was released: fully adaptive composition needs no more.

    References: Feldman & Zrnic (2021), Individual privacy accounting via a Rényi filter. Smith & Thakurta
    (2022), Fully adaptive composition for Gaussian differential privacy.
    """
    cost, allowed = _squared_mu(plan), _squared_mu(spend.plan)
    if cost > allowed * (1 + 1e-9):
        raise RuntimeError(f"the new plan costs {cost:g} of μ², the first one {allowed:g}")
    for label, old in spend.plan.items():
        n_made, new = old.times - spend.times_left(label), plan.get(label)
        if n_made and (
            not isinstance(new, Gaussian)
            or new.times < n_made
            or not np.isclose(new.noise_multiplier, spend.multiplier(label), rtol=1e-9)
        ):
            raise RuntimeError(f"the release {label!r} was made as {old}, planned is {new}")
    spend.plan = plan


def _squared_mu(plan: Plan) -> float:
    """Return μ² of a plan of Gaussian releases; others are refused."""
    total = 0.0
    for label, slot in plan.items():
        if type(slot) is not Gaussian:
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, not as Gaussian")
        total += slot.times / slot.noise_multiplier**2
    return total
