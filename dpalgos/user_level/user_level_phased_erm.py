"""Regression in phases, each with users of its own and a stronger pull to the end of the previous phase.

    phase t: n_t users, λ_t = 4^t λ;   θ̂_t ≈ argmin of their mean loss + (λ_t/2)‖θ − θ̂_(t−1)‖², in a ball

The steps use winsorized means of users' gradients and have size 1/(H + λ_t), H = curvature · covariate²
bound. The pull is public and added after the release: λ = √(Gτ/n + dτ²/(nε)²) / radius. If
``samples_per_user`` is m, the first term is Gτ/(n√m), as printed.

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public. A user
is in one phase, whose releases are (ε, δ)-DP by themselves: the whole is no more. The users of a phase are
drawn in public.

``schedule="equal"``: n_t = n / T'. ``"halving"``, as printed: n_t = n / 2^t, T = ⌈log₂(G n ε / (τ√d))⌉
phases. It stops if n_t users cannot find a range any more, because printed phases end with less than one
user. Equal phases have the same rate from ⌈T/2⌉ on. Fewer are better in practice, and one if the loss is
strongly convex. Otherwise the pull makes each phase stable.

Reference: Levy et al., Learning with User-Level Privacy, Algorithm 4, Theorem 5; the equal schedule is ours.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import register
from dpalgos.errors import InputError
from dpalgos.params import choice, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray
from dpalgos.user_level.aggregation import PUBLIC_SEED, UserAggregation
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective, descend
from dpalgos.user_level.user_level_regression import GRADIENT_RELEASES, GradientStepParams


@dataclass(frozen=True, kw_only=True)
class UserLevelPhasedERMParams(GradientStepParams):
    """Keywords of :func:`user_level_phased_erm`."""

    n_iterations: int = count("gradient steps of a phase", default=6)
    step_size: float = positive("1/H, H the smoothness of the mean loss; phases shorten it by their pull")
    schedule: str = choice("'equal' phases, or 'halving' as printed", ("equal", "halving"), default="equal")
    n_phases: int | None = count("T'; None: 4, or as many as are printed", default=None)


@register(
    title="Phased ERM over users",
    order=32,
    task="linear_regression",
    relation=Relation.USER,
    one_replicate=True,
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
    releases=GRADIENT_RELEASES,
)
def user_level_phased_erm(
    sample: Sample, params: UserLevelPhasedERMParams, transcript: Transcript
) -> FloatArray:
    """Return the iterate at the end of the last phase, (d, 1)."""
    users, d = params.users(sample), sample.n_features
    sizes = phase_sizes(users.n_users, d, params)
    ridge = printed_regularization(users.n_users, d, params)
    groups = _groups(users.n_users, sizes)
    coef: FloatArray = np.zeros((d, 1))
    for t in range(len(sizes)):
        pull = 4.0 ** (t + 1) * ridge
        objective = UserObjective(
            users=users.taken(groups == t), loss=LINEAR_LOSSES[params.loss], radius=params.radius, ridge=pull
        )
        aggregation = params.aggregation_of_gradients(d)
        step, n_steps = 1 / (1 / params.step_size + pull), params.n_iterations
        with transcript.among(t):
            coef = descend(objective, aggregation, coef, transcript, step_size=step, n_iterations=n_steps)
    return coef


def phase_sizes(n_users: int, d: int, params: UserLevelPhasedERMParams) -> list[int]:
    """Return the public numbers of users of the phases; too few users for the first are refused."""
    if params.schedule == "equal":
        n_phases = min(params.n_phases or 4, n_users)
        return [n_users // n_phases] * n_phases
    ratio = params.gradient_bound * n_users * params.epsilon / (params.concentration_radius * np.sqrt(d))
    n_phases = params.n_phases or max(1, int(np.ceil(np.log2(ratio))))
    sizes = [n_users >> t for t in range(1, n_phases + 1)]
    aggregation = params.aggregation_of_gradients(d)
    aggregation.check(max(sizes[0], 1))
    return [size for size in sizes if size and _is_enough(aggregation, size)] or [n_users]


def _is_enough(aggregation: UserAggregation, n_users: int) -> bool:
    try:
        aggregation.check(n_users)
    except InputError:
        return False
    return True


def printed_regularization(n_users: int, d: int, params: UserLevelPhasedERMParams) -> float:
    """Return λ = √(G̲ G/(nm) + G̃²d/(n²mε²)) / radius, where τ = G̃/√m = σ√(d/m) and G̲ = min(G, G̃)."""
    tau, m = params.concentration_radius, params.samples_per_user or 1
    least = min(params.gradient_bound, tau * np.sqrt(m))
    statistical = params.gradient_bound * least / (n_users * m)
    return float(np.sqrt(statistical + d * (tau / (n_users * params.epsilon)) ** 2) / params.radius)


def _groups(n_users: int, sizes: list[int]) -> IntArray:
    """Return the phase of every user, −1 for those of none, drawn in public."""
    groups = np.full(n_users, -1)
    order = np.random.default_rng(PUBLIC_SEED).permutation(n_users)
    for t, part in enumerate(np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])):
        groups[part] = t
    return groups
