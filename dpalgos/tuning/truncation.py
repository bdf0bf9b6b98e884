"""The truncation of values: at public bounds, between private quantiles, or none.

- ``"bound"`` (default): at the public bounds ± R, from whatever rule in n and d.
- ``"private_quantiles"``: between the 2.5% and 97.5% quantiles, released within the bounds and charged.
- ``"none"``: no truncation, with the noise for ± R; not private, for any R.

**Quantiles.** The exponential mechanism draws each quantile on a public range [l, u]: one event of bounded
range (:mod:`dpalgos.tuning.quantiles`). Truncation at released quantiles is post-processing. One share of ρ
covers all quantiles. Quantiles in reversed order are swapped. The interval is widened to a public minimum.

**None.** A single row can move the sum without limit, and no noise covers it. The run records an unprotected
event, which certifies ε = ∞. It exists for ``calibration="paper"`` only.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, section 5.1 (which takes the quantiles by Lei 2011, Algorithm 1', and
does not count them).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos.catalog import Release
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import count, unbounded_sensitivity
from dpalgos.params import choice
from dpalgos.rows.sample import Sample
from dpalgos.tuning.quantiles import exponential_quantiles
from dpalgos.typing import FloatArray, IntArray

LEVELS = (0.025, 0.975)
LABEL = "quantiles"
RESPONSE_SHARE, COLUMNS_SHARE = 0.05, 0.1  # of ρ, for the quantiles of a response, of all columns together

_CHOICES = ("bound", "private_quantiles", "none")
_NARROWEST = 1e-3  # of the public range


def truncation_choice() -> Any:
    return choice(
        "'bound': at the public bound; 'private_quantiles': between released 2.5% and 97.5% quantiles; "
        "'none': no truncation, which is not private (calibration='paper' only)",
        _CHOICES,
        default="bound",
    )


def check_truncation(truncation: str, calibration: str, *, prints_quantiles: bool = True) -> None:
    """Refuse to leave out truncation, except for an algorithm as printed, which may have no quantiles."""
    if not prints_quantiles and truncation == "private_quantiles" and calibration == "paper":
        raise InputError(
            "truncation must be 'bound' or 'none' for calibration='paper', got 'private_quantiles'; use "
            "calibration='tight'"
        )
    if truncation == "none" and calibration != "paper":
        raise InputError(
            "truncation must be 'bound' or 'private_quantiles' for calibration='tight', got 'none', which "
            "no noise covers; calibration='paper' runs it, and certifies nothing"
        )


def check_response_truncation(truncation: str, calibration: str, residual_bound: float | None) -> None:
    """Refuse as above; also clipped residuals in a printed algorithm, and both options together."""
    if residual_bound is not None and calibration == "paper":
        raise InputError(
            "residual_bound must be left out for calibration='paper', which clips no residuals, "
            f"got {shown(residual_bound)}; use calibration='tight'"
        )
    check_truncation(truncation, calibration)
    if truncation != "bound" and residual_bound is not None:
        raise InputError(
            f"truncation must be 'bound' where residuals are clipped, got {shown(truncation)}; leave out one "
            "of truncation and residual_bound"
        )


def private_interval(
    spend: Spend, sample: Sample, bound: float, *, columns: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Release the quantiles (m, R) between which columns are truncated, first truncated to ± ``bound``.

    ``columns`` (m, R) are released indices of the columns that each replicate needs, by default all.
    """
    return truncation_interval(_quantiles(spend, sample, sample.X, bound, columns), bound)


def _quantiles(
    spend: Spend,
    sample: Sample,
    values: FloatArray,
    bound: float,
    columns: IntArray | None = None,
) -> FloatArray:
    return exponential_quantiles(
        spend,
        LABEL,
        values,
        levels=LEVELS,
        lower=-bound,
        upper=bound,
        row_mask=sample.row_mask,
        columns=columns,
    )


def truncation_interval(released: FloatArray, bound: float) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper bounds (m, R) of an interval from released quantiles (m, 2, R).

    Reversed quantiles are swapped. The interval is widened about its midpoint to a public minimum.
    """
    first, second = released[:, 0], released[:, 1]
    middle, half = (first + second) / 2, np.maximum(np.abs(second - first), 2 * _NARROWEST * bound) / 2
    return np.maximum(middle - half, -bound), np.minimum(middle + half, bound)


def symmetric_bound(released: FloatArray, bound: float) -> FloatArray:
    """Return the symmetric truncation bound of a response, (R,), from released quantiles (1, 2, R)."""
    return np.asarray(np.abs(truncation_interval(released, bound)).max(axis=0)[0])


def released_levels(
    rows: Rows, spend: Spend, bound: float, truncation: str
) -> tuple[float | FloatArray, float | FloatArray]:
    """Return the truncation bound of responses, and the bound that the noise is for, both symmetric.

    ``bound`` is the public one. Both values are the same, () or (R,), except for ``"none"``: there the first
    one is infinite.
    """
    if truncation == "none":
        spend.charge(RESPONSE_RELEASES[1].label)
        return np.inf, bound
    if truncation == "bound":
        return bound, bound
    released = _quantiles(spend, rows.sample, rows.sample.response()[:, None], bound)
    level = rows.by_replicate(symmetric_bound(released, bound))
    return level, level


def truncated_means(
    rows: Rows, lower: FloatArray, upper: FloatArray, columns: IntArray | None = None
) -> FloatArray:
    """Return the means over each replicate's rows of columns truncated to intervals, (m, R).

    The intervals (m, R) are those of the columns (m, R) that each replicate needs, or of all columns.
    """

    def part(block: Block) -> FloatArray:
        totals = np.empty_like(lower)
        for r, own in enumerate(block.replicates(lower.shape[1])):
            values = own.X if columns is None else own.X[:, columns[:, r]]
            totals[:, r] = own.total(np.clip(values, lower[:, r], upper[:, r]))
        return totals

    return rows.mean(part)


_QUANTILES = Release(LABEL, count)
_NONE = Release("untruncated entries", unbounded_sensitivity)
COLUMN_RELEASES = _QUANTILES, _NONE
RESPONSE_RELEASES = _QUANTILES, replace(_NONE, label="untruncated responses")
