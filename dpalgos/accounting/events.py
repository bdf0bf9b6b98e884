"""What a private run releases, said exactly; frozen facts without behaviour.

All events share one neighbouring relation, named by the estimator that appends them. An event's
privacy cost depends on the ratio of noise to sensitivity only; the sensitivity itself is kept for
the record (per replicate where replicates differ in their number of rows or in their iterates).
"""

from dataclasses import dataclass

from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianEvent:
    """A vector was released with isotropic Gaussian noise.

    Attributes
    ----------
    label : str
        Which quantity.
    noise_multiplier : float
        Noise standard deviation over ℓ2 sensitivity (the least over all replicates).
    l2_sensitivity : float or (R,) array
        The sensitivity that the multiplier refers to.
    count : int
        How many such releases, adaptively composed.
    """

    label: str
    noise_multiplier: float
    l2_sensitivity: float | FloatArray
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class PureEvent:
    """A release that is ``epsilon``-differentially private (δ = 0), e.g. Laplace noise."""

    label: str
    epsilon: float
    sensitivity: float | FloatArray
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedRangeEvent:
    """A selection whose log-probability ratios span at most ``epsilon`` (exponential mechanism)."""

    label: str
    epsilon: float
    sensitivity: float | FloatArray
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianSketchEvent:
    """``n_rows`` draws of N(0, G) were released, G = A'A + ridge, where G ⪰ ``ridge`` · I.

    ``row_bound_squared`` bounds the squared ℓ2 norm of a row of A.
    """

    label: str
    n_rows: int
    row_bound_squared: float
    ridge: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FailureEvent:
    """With probability at most ``delta`` the other events of this run do not hold."""

    label: str
    delta: float


Event = GaussianEvent | PureEvent | BoundedRangeEvent | GaussianSketchEvent | FailureEvent
