"""Regression in phases, each with users of its own and a stronger pull to the end of the previous phase.

    phase t: n_t users, λ_t = 4^t λ;   θ̂_t ≈ argmin of their mean loss + (λ_t/2)‖θ − θ̂_(t−1)‖², in a ball

The steps use winsorized means of users' gradients and have size 1/(H + λ_t), H = curvature · covariate²
bound. The pull is public and added after the release: λ = √(Gτ/n + dτ²/(nε)²) / radius. If
``samples_per_user`` is m, the first term is Gτ/(n√m), as printed.

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public. A user
is in one phase, whose releases are (ε, δ)-DP by themselves: the whole is no more. The users of a phase are
drawn in public.

    release of a phase       sensitivity    share of ρ
    range of the gradient    1 (a count)    0.1
    first gradient           2r/n_t         0.15
    gradient                 2r/n_t         0.75

``schedule="equal"``: n_t = n / T'. ``"halving"``, as printed: n_t = n / 2^t, T = ⌈log₂(G n ε / (τ√d))⌉
phases. It stops if n_t users cannot find a range any more, because printed phases end with less than one
user. Equal phases have the same rate from ⌈T/2⌉ on. Fewer are better in practice, and one if the loss is
strongly convex. Otherwise the pull makes each phase stable.

Reference: Levy et al., Learning with User-Level Privacy, Algorithm 4, Theorem 5; the equal schedule is ours.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Event, Relation
from dpalgos.catalog import register
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.params import choice, count, positive
from dpalgos.typing import FloatArray, IntArray
from dpalgos.user_level.aggregation import PUBLIC_SEED, UserAggregation
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective, descend
from dpalgos.user_level.user_level_regression import GradientStepsOverUsers


@register(
    name="user_level_phased_erm",
    title="Phased ERM over users",
    order=32,
    task="linear_regression",
    relation=Relation.USER,
    reference="Levy et al., Learning with User-Level Privacy, Algorithm 4",
    summary="Regularized fits on disjoint groups of users, each started where the last one ended.",
    no_interval="the distance of the last iterate from the minimum is not known",
    example={
        "loss": "squared",
        "gradient_bound": 20.0,
        "concentration_radius": 0.2,
        "radius": 20.0,
        "n_iterations": 2,
        "step_size": 3.0,
        "n_phases": 2,
        "range_failure": 1.0,
    },
)
@dataclass(frozen=True, kw_only=True)
class UserLevelPhasedERM(GradientStepsOverUsers):
    """The iterate at the end of the last phase."""

    n_iterations: int = count("gradient steps of a phase", default=6)
    step_size: float = positive("1/H, H the smoothness of the mean loss; phases shorten it by their pull")
    schedule: str = choice("'equal' phases, or 'halving' as printed", ("equal", "halving"), default="equal")
    n_phases: int | None = count("T'; None: 4, or as many as are printed", default=None)

    def plan(self, n: float, d: int) -> Plan:
        plan: dict[str, Event] = {}
        for t, size in enumerate(self.phase_sizes(int(n), d)):
            plan |= self.aggregation_of_gradients(d, t).plan(size)
        return plan

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        n_users, d, units = int(rows.n), rows.d, rows.sample.units
        assert units is not None
        assert units.codes is not None
        sizes = self.phase_sizes(n_users, d)
        ridge = printed_regularization(n_users, d, self)
        groups = _groups(n_users, sizes)[units.codes]
        coef = rows.by_column(rows.zeros(d))
        for t in range(len(sizes)):
            pull = 4.0 ** (t + 1) * ridge
            phase = Rows.of_sample(rows.sample.derived(rows=groups == t).in_units())
            objective = UserObjective(
                rows=phase, loss=LINEAR_LOSSES[self.loss], radius=self.radius, ridge=pull
            )
            aggregation, step = self.aggregation_of_gradients(d, t), 1 / (1 / self.step_size + pull)
            coef = descend(
                objective, aggregation, coef, spend, step_size=step, n_iterations=self.n_iterations
            )
        return rows.by_replicate(coef)

    def phase_sizes(self, n_users: int, d: int) -> list[int]:
        """Return the public numbers of users of the phases; too few users for the first are refused."""
        if self.schedule == "equal":
            n_phases = min(self.n_phases or 4, n_users)
            return [n_users // n_phases] * n_phases
        ratio = self.gradient_bound * n_users * self.epsilon / (self.concentration_radius * np.sqrt(d))
        n_phases = self.n_phases or max(1, int(np.ceil(np.log2(ratio))))
        sizes = [n_users >> t for t in range(1, n_phases + 1)]
        aggregation = self.aggregation_of_gradients(d)
        aggregation.plan(max(sizes[0], 1))
        return [size for size in sizes if size and _is_enough(aggregation, size)] or [n_users]


def _is_enough(aggregation: UserAggregation, n_users: int) -> bool:
    try:
        aggregation.plan(n_users)
    except InputError:
        return False
    return True


def printed_regularization(n_users: int, d: int, estimator: UserLevelPhasedERM) -> float:
    """Return λ = √(G̲ G/(nm) + G̃²d/(n²mε²)) / radius, where τ = G̃/√m = σ√(d/m) and G̲ = min(G, G̃)."""
    tau, m = estimator.concentration_radius, estimator.samples_per_user or 1
    least = min(estimator.gradient_bound, tau * np.sqrt(m))
    statistical = estimator.gradient_bound * least / (n_users * m)
    return float(np.sqrt(statistical + d * (tau / (n_users * estimator.epsilon)) ** 2) / estimator.radius)


def _groups(n_users: int, sizes: list[int]) -> IntArray:
    """Return the phase of every user, −1 for those of none, drawn in public."""
    groups = np.full(n_users, -1)
    order = np.random.default_rng(PUBLIC_SEED).permutation(n_users)
    for t, part in enumerate(np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])):
        groups[part] = t
    return groups
