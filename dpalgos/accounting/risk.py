"""ε as a risk: what an attacker can learn about one row, user or report from the released events.

The attacker knows all data except one unit, and every public setting, and has a hypothesis about that unit.
The trade-off function of the events bounds any test of it. Accounting gives points (ε_i, δ_i) of this
function; each is a valid guarantee of the same events at its own δ.

- A test has a false positive rate α. Its power is at most the minimum over i of
  min(e^(ε_i) α + δ_i,  1 − e^(−ε_i) (1 − δ_i − α)).
  If all releases are Gaussian, the maximum is exactly Φ(Φ⁻¹(α) + μ).
- Except with probability δ, a prior π becomes a posterior of at most π e^t / (1 − π + π e^t). Here t is the
  minimum over i with δ_i < δ of ε_i − log(1 − δ_i/δ).

*Proof of the second.* Let L be the log-likelihood ratio of the hypothesis against the alternative, and P the
distribution of the releases under the hypothesis. For t > ε_i,

    δ_i ≥ E_P[(1 − e^(ε_i − L))₊] ≥ (1 − e^(ε_i − t)) P[L > t].

Therefore P[L > t] ≤ δ if 1 − e^(ε_i − t) = δ_i/δ. By Bayes' rule, the posterior odds are e^L π/(1 − π). The
naive choice t = ε is valid for δ = 0 only. Both bounds hold for every function of the releases. ∎

References
----------
Kasiviswanathan & Smith (2014), On the semantics of differential privacy. Kairouz, Oh & Viswanath (2015).
Dong, Roth & Su (2022), Gaussian differential privacy. Nanayakkara et al. (2022), Visualizing privacy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log1p

import numpy as np
import scipy

from dpalgos.accounting.composition import common_relation, exact_mu, privacy_profile
from dpalgos.accounting.events import Event

PRIORS = (0.01, 0.1, 0.5)
FALSE_POSITIVE_RATES = (0.01, 0.001)
_BELOW = (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.95)  # δ_i over δ, for the posterior
_ABOVE = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # δ_i, for tests


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """Bounds on what an attacker can learn about one unit: a row, a user or a report.

    Attributes
    ----------
    log_odds : float
        t, the maximum growth of the log-odds of a hypothesis, except with probability ``delta``. It is
        infinite if nothing is proved.
    true_positive_rate : dict
        False positive rate → maximum true positive rate.
    """

    unit: str
    delta: float
    log_odds: float
    true_positive_rate: dict[float, float]

    def posterior(self, prior: float) -> float:
        """Return the maximum posterior probability for a prior probability."""
        return 1.0 if self.log_odds == inf else float(prior / (prior + (1 - prior) * exp(-self.log_odds)))

    @property
    def posteriors(self) -> dict[float, float]:
        """Prior → maximum posterior."""
        return {prior: self.posterior(prior) for prior in PRIORS}

    @property
    def attacker(self) -> str:
        """Who learns what, up to the bounds: the beginning of :attr:`sentence`."""
        return (
            f"an attacker who knows all other {self.unit}s can raise the probability of a hypothesis about "
            f"one {self.unit} at most"
        )

    @property
    def bounds(self) -> str:
        """The bounds in words: the end of :attr:`sentence`."""
        beliefs = ", ".join(f"{_percent(p)} to {_percent(q)}" for p, q in self.posteriors.items())
        tests = ", ".join(
            f"{_percent(true)} at a false positive rate of {_percent(false)}"
            for false, true in self.true_positive_rate.items()
        )
        except_for = f" (except with probability {self.delta:.2g})" if self.delta else ""
        return f"from {beliefs}{except_for}; a test of it has a power of at most {tests}"

    @property
    def sentence(self) -> str:
        """One sentence that names the unit."""
        if self.log_odds == inf:
            return f"nothing limits what an attacker who knows all other {self.unit}s can learn about one"
        return f"{self.attacker} {self.bounds}"

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data, with text as keys."""
        return {
            "unit": self.unit,
            "delta": self.delta,
            "posterior": {f"{prior:g}": value for prior, value in self.posteriors.items()},
            "true_positive_rate": {f"{rate:g}": value for rate, value in self.true_positive_rate.items()},
            "sentence": self.sentence,
        }


def risk_of_events(events: Sequence[Event], delta: float, unit: str = "") -> AttackRisk:
    """Return the risk of one run's releases; ``delta`` is that of its guarantee.

    ``unit`` is the word for what is protected, by default that of the events' relation.
    """
    relation = common_relation(events)
    unit = unit or (relation.unit_of_privacy if relation else "row")
    profile = privacy_profile(events)
    risk = risk_of_profile(profile, delta, unit)
    if risk.log_odds == inf:  # the guarantee holds at δ only, as for an event known to be (ε, δ)-private
        risk = risk_of_profile(profile, 2 * delta, unit)
    mu = exact_mu(events)
    if mu is None:
        return risk
    exact = {rate: float(scipy.special.ndtr(scipy.special.ndtri(rate) + mu)) for rate in FALSE_POSITIVE_RATES}
    return replace(risk, true_positive_rate=exact)


def unbounded_risk() -> AttackRisk:
    """Return the risk of a non-private estimate."""
    return AttackRisk(
        unit="row", delta=0.0, log_odds=inf, true_positive_rate=dict.fromkeys(FALSE_POSITIVE_RATES, 1.0)
    )


def risk_of_budget(epsilon: float, delta: float, unit: str) -> AttackRisk:
    """Return the risk of releases known to be (ε, δ)-private; posteriors hold except with probability 2δ."""
    return risk_of_profile(lambda at: epsilon if at >= delta * (1 - 1e-12) else inf, 2 * delta, unit)


def risk_of_profile(profile: Callable[[float], float], delta: float, unit: str) -> AttackRisk:
    """Return the risk of releases, given ``profile``: δ ≥ 0 → the ε that is proved."""
    points = [(profile(d), d) for d in sorted({0.0, *(delta * part for part in _BELOW), delta, *_ABOVE})]
    points = [(epsilon, d) for epsilon, d in points if epsilon < 700]  # e^ε overflows above it
    odds = [epsilon - log1p(-d / delta if d else 0.0) for epsilon, d in points if d == 0 or d < delta]
    rates = {
        alpha: min((min(exp(e) * alpha + d, 1 - exp(-e) * (1 - d - alpha)) for e, d in points), default=1.0)
        for alpha in FALSE_POSITIVE_RATES
    }
    return AttackRisk(unit=unit, delta=delta, log_odds=min(odds, default=inf), true_positive_rate=rates)


def _percent(share: float) -> str:
    """Write a share in percent; a share below 1 is never written as 100%."""
    if 0.9995 <= share < 1:
        return "more than 99.9%"
    digits = 2 if share < 0.99 else 3
    return f"{float(np.format_float_positional(100 * share, precision=digits, fractional=False)):g}%"
