"""Keywords of preconditioned generalized linear models, and how these spend μ².

Shares, numbers of steps and the nμ below which the answer is a constant follow from public numbers alone.
:mod:`dpalgos.central.preconditioned_glm` has the table of all releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.errors import InputError
from dpalgos.intervals.offsets import OffsetParams
from dpalgos.intervals.preconditioned import PreconditionedParams
from dpalgos.mechanisms import public_coordinates as public
from dpalgos.mechanisms.private_constant import constant_shares, lone_constant_shares
from dpalgos.mechanisms.private_origin import column_shares
from dpalgos.models.families import Family, family_names, get_family
from dpalgos.params import choice, count
from dpalgos.typing import FloatArray

_ROW_SHARE, _START_SHARE = 0.015, 0.02
_MOMENT_SHARE, _BOUNDED_MOMENT_SHARE = 0.12, 0.1  # the second of responses with a bound
_LINEAR_SCORE_SHARE, _SCORE_SHARE = 0.1, 0.07
_LEVEL_SHARE = 0.4  # over d: nine counts whose noise is .3 of the scores that are to lie above the level
_N_EVEN = 5  # steps, the first, that have the same share
_N_STEPS, _OF_EVENTS, _OF_COUNTS, _LATE_STEPS, _GROWTH = 8, 10, 12, 4, 1.4
_MANY_ROWS = 1000.0  # times √d: the nμ from which models of events take a late step with each doubling
_ENOUGH_ROWS = 400.0  # times √d: the nμ from which the constant's part of a score is not clipped
_FEW_ROWS, _FEW_COUNTS = 15.0, 25.0  # times √d: the nμ below which the answer is the constant


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedGLMParams(PreconditionedParams, OffsetParams):
    """Keywords of :func:`preconditioned_glm`."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_offset(self.made())
        if self.offset_bounds is not None and self.public_X is not None:
            raise InputError(
                "offset_bounds must be None next to public_X, which has no offset; leave one out"
            )
        self.check_family(self.made())

    def made(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family(self.family, n_classes=self.n_classes)

    @property
    def needs_start(self) -> bool:
        """Whether the curvature is unbounded, so that steps from zero may overshoot."""
        return not np.isfinite(self.made().curvature_bound)

    @property
    def starts_at_mean(self) -> bool:
        """Whether steps start at the released mean response."""
        return self.intercept and self.needs_start

    def n_steps(self, size: float, n_features: int) -> int:
        """Return T, for ``size`` nμ: more where steps go a part of the way, and where noise is small.

        So do those of counts, whose curvature is largest at the start; and what is left to go is no longer
        hidden by noise.
        """
        if self.made().is_linear or self.needs_start:
            return _OF_COUNTS if self.needs_start and self.intercept else _N_STEPS
        doublings = int(np.log2(max(size / (_MANY_ROWS * np.sqrt(n_features)), 1.0)))
        late = min(doublings, _LATE_STEPS) if self.takes_full_steps else 0
        return _OF_EVENTS + late

    @property
    def takes_full_steps(self) -> bool:
        """Whether steps go to their end: those of events, whose curvature is bounded and corrected."""
        family = self.made()
        return not (self.needs_start or family.is_linear or family.classes)

    def is_constant(self, size: float, n_features: int) -> bool:
        """Return whether the answer is the constant alone where ``size`` is nμ."""
        few = (_FEW_COUNTS if self.needs_start else _FEW_ROWS) * np.sqrt(n_features)
        return bool(self.intercept and not self.made().is_linear and size < few)

    def keeps_constant(self, size: float, n_features: int) -> bool:
        """Return whether clipping leaves the part of scores along the constant, where ``size`` is nμ."""
        asks = self.intercept and self.takes_full_steps and self.interval is None
        return asks and size >= _ENOUGH_ROWS * np.sqrt(n_features)

    def column_shares(self, size: float, n_features: int) -> dict[str, float]:
        """Return the shares of μ² that centers of columns take where ``size`` is nμ."""
        return column_shares(size, n_features - 1) if self.intercept else {}

    @classmethod
    def takes_public_rows(cls, settings: Mapping[str, Any]) -> bool:
        """Return whether the family is the Gaussian one, or a ``public_share`` is named."""
        return settings.get("family", "gaussian") == "gaussian" or settings.get("public_share") is not None

    def budget(
        self, reserved: Mapping[str, float], shape: public.PublicShape | None, size: float, n_features: int
    ) -> SplitBudget:
        """Return how μ² is spent: reserved shares are of the whole, the others of what these leave.

        Of few rows the constant alone is released, from all of ε.
        """
        family, has_offset = self.made(), self.offset_bounds is not None
        if self.is_constant(size, n_features):
            parts = lone_constant_shares(of_counts=self.needs_start, has_offset=has_offset)
            return self.split_budget(parts, {})
        shares = constant_shares(size, has_offset=has_offset) if self.starts_at_mean else {}
        left = 1 - sum(shares.values())
        shares |= {} if self.starts_at_mean or not self.needs_start else {"start": _START_SHARE}
        columns = {} if shape is not None else self.column_shares(size, n_features)
        shares |= {part: left * share for part, share in columns.items()}
        left *= 1 - sum(columns.values())
        bounded = np.isfinite(family.residual_bound)
        shares["moments"] = left * (_BOUNDED_MOMENT_SHARE if bounded else _MOMENT_SHARE)
        score_share = _LINEAR_SCORE_SHARE if family.is_linear else _SCORE_SHARE
        score_share = score_share if bounded else max(score_share, _LEVEL_SHARE / n_features)
        shares |= {"rows": left * _ROW_SHARE, "scores": left * score_share}
        steps = (1 - sum(shares.values())) * step_weights(self.n_steps(size, n_features))
        shares |= {f"step {t}": float(share) for t, share in enumerate(steps)}
        return self.divided(shares, reserved, shape)


def step_weights(n_steps: int) -> FloatArray:
    """Return the last ``n_steps`` steps' shares of what they spend together."""
    weights = _GROWTH ** np.maximum(np.arange(n_steps) - _N_EVEN, 0)
    return np.asarray(weights / weights.sum())
