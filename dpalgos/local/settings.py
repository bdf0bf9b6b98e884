"""Public bounds of the local estimators, and what follows from them: clips, noise levels, thresholds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.errors import InputError
from dpalgos.params import PrivateParams, checked, choice, positive
from dpalgos.release.checks import check_bound
from dpalgos.steps.clipping import clip_rows_l2, truncate
from dpalgos.typing import FloatArray

_HIGHEST_MOMENT = 100.0


def _eigenvalue_bounds(name: str, value: Any) -> tuple[float, float]:
    low, high = _two_bounds(name, value)
    if not low <= high:
        raise InputError(f"{name} must be (low, high) with low at most high, got {value!r}; swap them")
    return low, high


def _moment(name: str, value: Any) -> tuple[float, float]:
    order, bound = _two_bounds(name, value)
    if not 2 < order <= _HIGHEST_MOMENT:
        raise InputError(f"{name} must be (q, M) with 2 < q ≤ {_HIGHEST_MOMENT:g}, got {value!r}")
    return order, bound


def _two_bounds(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(f"{name} must be a pair of positive numbers, got {value!r}; pass e.g. (1.0, 2.0)")
    return check_bound(name, value[0]), check_bound(name, value[1])


@dataclass(frozen=True, kw_only=True)
class LocalParams(PrivateParams):
    """Keywords that all local estimators share."""

    covariate_bound: float = positive("τ₁: every entry of a row is truncated to ±τ₁")
    row_bound: float | None = positive("r: rows are clipped to this ℓ2 norm; None: √d τ₁", default=None)
    response_bound: float | None = positive(
        "τ₂: responses are truncated to ±τ₂; needed unless response_moment is given", default=None
    )
    response_moment: tuple[float, float] | None = checked(
        "(q, M): E|y|^q ≤ M, for responses with heavy tails; τ₂ follows from it and n",
        _moment,
        default=None,
        optional=True,
    )
    response_rule: str = choice(
        "how τ₂ follows from response_moment: 'balanced' against the noise, or as printed, 'paper'",
        ("balanced", "paper"),
        default="balanced",
    )
    covariance_eigenvalue_bounds: tuple[float, float] | None = checked(
        "(low, high): eigenvalues of the covariates' second moments; None: (τ₁², τ₁²)",
        _eigenvalue_bounds,
        default=None,
        optional=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.response_bound is None) == (self.response_moment is None):
            raise InputError(
                "response_bound or response_moment must be given, one of the two, got "
                + ("none" if self.response_bound is None else "both")
            )

    @property
    def eigenvalue_bounds(self) -> tuple[float, float]:
        """(low, high), with their default."""
        return self.covariance_eigenvalue_bounds or (self.covariate_bound**2, self.covariate_bound**2)

    def row_norm(self, n_features: int) -> float:
        """Return r, with its default."""
        return self.row_bound or float(np.sqrt(n_features)) * self.covariate_bound

    def response_level(self, n_features: int, n_people: int) -> float:
        """Return τ₂."""
        if self.response_bound is not None:
            return self.response_bound
        assert self.response_moment is not None
        moment, rule = self.response_moment, self.response_rule
        return heavy_tail_level(n_people, n_features, self.epsilon, self.delta, moment=moment, rule=rule)


def heavy_tail_level(
    n_people: int, n_features: int, epsilon: float, delta: float, *, moment: tuple[float, float], rule: str
) -> float:
    """Return τ₂ for responses with E|y|^(2p) ≤ M, ``moment`` = (2p, M), 2p > 2.

    ``rule="paper"``, Theorem 5 (there M = 1): (nε²/(log d log(1/δ)))^(1/(2p)), of rate (p − 1)/(2p) in nε².
    ``"balanced"``: M^(1/(2p)) (nε²/(d log(1/δ)))^(1/(4p)), at which the bias, of order τ₂^(1 − 2p), is of the
    size of the noise, τ₂ √d/(√n ε), for the rate (2p − 1)/(4p).
    """
    order, bound = moment
    signal = n_people * epsilon**2 / np.log(1 / delta)
    if rule == "paper":
        return float((signal / np.log(max(n_features, 2))) ** (1 / order))
    return float(bound ** (1 / order) * (signal / n_features) ** (1 / (2 * order)))


def box_and_ball(X: FloatArray, covariate_bound: float, row_bound: float) -> FloatArray:
    """Truncate every entry to ± ``covariate_bound``, then clip the rows to the ℓ2 norm ``row_bound``."""
    return clip_rows_l2(truncate(X, covariate_bound), row_bound)


def mechanism_choice(*more: str) -> Any:
    """Declare which randomizer protects a report: a pure one, or one of ``more``."""
    return choice(
        "what protects a report: 'l2' and 'privunit' are ε-DP (δ = 0), 'gaussian' is (ε, δ); 'auto': as "
        "printed for calibration='paper', else the better of the first two",
        ("auto", "l2", "privunit", *more),
        default="auto",
    )


def check_printed(params: PrivateParams, printed: str, **settings: object) -> None:
    """Refuse what ``calibration="paper"`` does not have: other mechanisms, settings of ``"tight"`` alone."""
    if params.calibration != "paper":
        return
    mechanism = getattr(params, "mechanism", "auto")
    if mechanism not in ("auto", printed):
        raise InputError(
            f"mechanism must be 'auto' or {printed!r} for calibration='paper', got {mechanism!r}; use "
            "calibration='tight'"
        )
    for name, value in settings.items():
        if value is not None:
            raise InputError(
                f"{name} must be left out for calibration='paper', got {value!r}; use calibration='tight'"
            )
