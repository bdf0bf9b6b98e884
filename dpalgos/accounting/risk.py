"""ε as a risk: what the released events let an attacker learn of one row, one user or one report.

The attacker knows all data but one unit and every public setting, and wants to know whether that unit is what
he suspects. What he can do is bounded by the trade-off function of the events, of which accounting gives the
points (ε_i, δ_i), each a valid guarantee of the same events at its own δ:

    test         an alarm that is false at rate α is true at rate at most
                 min over i of min(e^(ε_i) α + δ_i,  1 − e^(−ε_i) (1 − δ_i − α));
                 where all releases are Gaussian, exactly Φ(Φ⁻¹(α) + μ).
    posterior    a prior π becomes at most π e^t / (1 − π + π e^t), but with probability δ at most, where
                 t = min over i with δ_i < δ of ε_i − log(1 − δ_i/δ).

Why the second holds. Let L be the log-likelihood ratio of the suspected against the other data of what was
seen, and P its law if the suspicion is true. δ_i ≥ E_P[(1 − e^(ε_i − L))₊] ≥ (1 − e^(ε_i − t)) P[L > t] for
t > ε_i, so that P[L > t] ≤ δ where 1 − e^(ε_i − t) = δ_i/δ. Bayes' rule turns odds of π/(1 − π) into e^L
times these. The naive reading, t = ε, holds for δ = 0 only. Both hold for every function of the releases.

References
----------
Kasiviswanathan & Smith (2014), On the semantics of differential privacy. Kairouz, Oh & Viswanath (2015).
Dong, Roth & Su (2022), Gaussian differential privacy. Nanayakkara et al. (2022), Visualizing privacy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log1p

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon, common_relation, exact_mu
from dpalgos.accounting.events import Event

PRIORS = (0.01, 0.1, 0.5)
FALSE_POSITIVE_RATES = (0.01, 0.001)
_BELOW = (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.95)  # δ_i over δ, for the posterior
_ABOVE = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # δ_i, for tests


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """What an attacker can learn of one unit: a row, a user or a report.

    ``log_odds`` is t, by how much the log-odds of a suspicion grow at most but with probability ``delta``;
    infinite where nothing is proved. ``true_positive_rate`` maps rates of false alarms to the largest of true
    ones.
    """

    unit: str
    delta: float
    log_odds: float
    true_positive_rate: dict[float, float]

    def posterior(self, prior: float) -> float:
        """Return the largest posterior of an attacker with a prior."""
        return 1.0 if self.log_odds == inf else float(prior / (prior + (1 - prior) * exp(-self.log_odds)))

    @property
    def posteriors(self) -> dict[float, float]:
        """Prior → largest posterior."""
        return {prior: self.posterior(prior) for prior in PRIORS}

    @property
    def sentence(self) -> str:
        """One sentence that names the unit."""
        if self.log_odds == inf:
            return f"nothing bounds what an attacker who knows all but one {self.unit} can learn of it"
        beliefs = ", ".join(f"{_percent(p)} to {_percent(q)}" for p, q in self.posteriors.items())
        tests = ", ".join(
            f"{_percent(true)} at {_percent(false)} of false alarms"
            for false, true in self.true_positive_rate.items()
        )
        except_for = f" (except with probability {self.delta:.2g})" if self.delta else ""
        return (
            f"for an attacker who knows all but one {self.unit}, a suspicion about it grows at most from "
            f"{beliefs}{except_for}, and a test of it detects at most {tests}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data, with text as keys."""
        return {
            "unit": self.unit,
            "delta": self.delta,
            "posterior": {f"{prior:g}": value for prior, value in self.posteriors.items()},
            "true_positive_rate": {f"{rate:g}": value for rate, value in self.true_positive_rate.items()},
            "sentence": self.sentence,
        }


def risk_of_events(events: Sequence[Event], delta: float) -> AttackRisk:
    """Return the risk of what one run released, ``delta`` being that of its guarantee."""
    relation = common_relation(events)
    unit = relation.unit_of_privacy if relation else "row"
    profile = partial(certified_epsilon, events)  # what the certificate follows from
    risk = risk_of_profile(profile, delta, unit)
    if (
        risk.log_odds == inf
    ):  # proved at δ itself alone, as of an event that is only known to be (ε, δ)-private
        risk = risk_of_profile(profile, 2 * delta, unit)
    mu = exact_mu(events)
    if mu is None:
        return risk
    exact = {rate: float(scipy.special.ndtr(scipy.special.ndtri(rate) + mu)) for rate in FALSE_POSITIVE_RATES}
    return replace(risk, true_positive_rate=exact)


def unbounded_risk() -> AttackRisk:
    """Return the risk of an answer that is not private."""
    return AttackRisk(
        unit="row", delta=0.0, log_odds=inf, true_positive_rate=dict.fromkeys(FALSE_POSITIVE_RATES, 1.0)
    )


def risk_of_budget(epsilon: float, delta: float, unit: str) -> AttackRisk:
    """Return the risk of what is only known to be (ε, δ)-private; posteriors hold but for a chance of 2δ."""
    return risk_of_profile(lambda at: epsilon if at >= delta * (1 - 1e-12) else inf, 2 * delta, unit)


def risk_of_profile(profile: Callable[[float], float], delta: float, unit: str) -> AttackRisk:
    """Return the risk of releases of which ``profile`` says the ε that is proved at each δ from 0 on."""
    points = [(profile(d), d) for d in sorted({0.0, *(delta * part for part in _BELOW), delta, *_ABOVE})]
    points = [(epsilon, d) for epsilon, d in points if epsilon < 700]  # beyond, e^ε is no number
    odds = [epsilon - log1p(-d / delta if d else 0.0) for epsilon, d in points if d == 0 or d < delta]
    rates = {
        alpha: min((min(exp(e) * alpha + d, 1 - exp(-e) * (1 - d - alpha)) for e, d in points), default=1.0)
        for alpha in FALSE_POSITIVE_RATES
    }
    return AttackRisk(unit=unit, delta=delta, log_odds=min(odds, default=inf), true_positive_rate=rates)


def _percent(share: float) -> str:
    """Write a share in percent; what is nearly all is never written as all of it."""
    if 0.9995 <= share < 1:
        return "more than 99.9 %"
    return f"{float(np.format_float_positional(100 * share, precision=2, fractional=False)):g} %"
