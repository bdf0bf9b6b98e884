"""Events: frozen records of what a private run has released.

Every event names its neighboring relation; only events under the same one compose. An event's
privacy cost depends on the ratio of noise to sensitivity only; the sensitivity itself is kept for
the record (per replicate where replicates differ in their number of rows or in their iterates).
"""

from dataclasses import dataclass
from enum import Enum

from dpalgos.typing import FloatArray


class Relation(Enum):
    """A neighboring relation; guarantees under different ones do not compose.

    Attributes
    ----------
    CENTRAL
        Data sets of the same size that differ in one row, replaced.
    LOCAL
        A single person's report: any input against any other.
    USER
        Data sets with the same users that differ in all samples of one user, replaced.
    """

    CENTRAL = ("central", "row", "replace-one")
    LOCAL = ("local", "report", "replace-one")
    USER = ("user", "user", "replace-one")

    def __init__(self, model: str, unit_of_privacy: str, neighboring_relation: str) -> None:
        self.model, self.unit_of_privacy = model, unit_of_privacy
        self.neighboring_relation = neighboring_relation


@dataclass(frozen=True, eq=False, kw_only=True)
class Event:
    """Something was released, or may have failed.

    Attributes
    ----------
    label : str
        Which quantity.
    relation : Relation
        What the neighbors, to which sensitivity and cost refer, differ in.
    group : int or None
        Which of several disjoint groups of people it is about; None: about all. One person is in one group,
        so that events of different groups do not add up.
    """

    label: str
    relation: Relation = Relation.CENTRAL
    group: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianEvent(Event):
    """A vector was released with isotropic Gaussian noise, ``count`` times, adaptively.

    ``noise_multiplier`` is the standard deviation over ``l2_sensitivity`` (the least over all replicates).
    """

    noise_multiplier: float
    l2_sensitivity: float | FloatArray
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscreteGaussianEvent(Event):
    """A vector was released on a grid with discrete Gaussian noise; accounted as zero-concentrated DP."""

    noise_multiplier: float
    l2_sensitivity: float | FloatArray
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledGaussianEvent(Event):
    """A sum over rows, each drawn with probability ``sampling_rate``, was released with Gaussian noise.

    Who was drawn stays secret, and a row adds a vector of at most half of ``l2_sensitivity``, by which
    replacing a row that was drawn moves the sum; ``noise_multiplier`` is noise standard deviation over that.
    """

    noise_multiplier: float
    l2_sensitivity: float | FloatArray
    sampling_rate: float
    count: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class PureEvent(Event):
    """A release that is ``epsilon``-differentially private (δ = 0), e.g. Laplace noise.

    ``sensitivity`` is measured in the ℓ_``norm``: 1 for a vector with Laplace noise, ∞ for a selection
    by scores or for ``count`` coordinates that are charged one by one.
    """

    epsilon: float
    sensitivity: float | FloatArray
    count: int = 1
    norm: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxNoiseEvent(PureEvent):
    """A vector was released with noise z of density ∝ e^(−ε ‖z‖∞ / sensitivity)."""

    norm: float = float("inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomizerEvent(PureEvent):
    """Each person of a group sent one random vector of ``size`` entries instead of a private one.

    The private vectors' ℓ2 norm is at most ``radius``. A report is e^ε times as likely where its component
    along the private vector's direction exceeds ``threshold`` as where it does not.
    """

    radius: float
    size: int
    threshold: float


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedRangeEvent(Event):
    """A selection whose log-probability ratios span at most ``epsilon`` (exponential mechanism).

    ``sensitivity`` is how far a neighbor moves any one score; ``count`` candidates are selected one after
    another, the largest scores first, or the largest ``by_magnitude``. ``support`` holds the public ends of
    the range where candidates are numbers.
    """

    epsilon: float
    sensitivity: float | FloatArray
    count: int = 1
    by_magnitude: bool = False
    support: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianSketchEvent(Event):
    """``n_rows`` draws of N(0, G) were released, G = A'A + ridge, where G ⪰ ``ridge`` · I.

    ``row_bound_squared`` bounds the squared ℓ2 norm of a row of A.
    """

    n_rows: int
    row_bound_squared: float
    ridge: float


@dataclass(frozen=True, eq=False, kw_only=True)
class UnprotectedEvent(Event):
    """Something was learned from private data and no noise covers it: the run proves nothing, ε = ∞.

    What other events of the run state of their sensitivities need not hold.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class ApproximateEvent(Event):
    """A mechanism known only as (``epsilon``, ``delta``)-DP: its ε and δ add to those of the others."""

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FailureEvent(Event):
    """With probability at most ``delta`` the other events of this run do not hold."""

    delta: float
