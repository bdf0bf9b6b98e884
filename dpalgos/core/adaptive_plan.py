"""Plans that change during a run, as a function of what was released before."""

import numpy as np

from dpalgos.accounting.events import Gaussian
from dpalgos.core.plans import Plan
from dpalgos.core.spend import Spend


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
