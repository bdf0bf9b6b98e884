"""Private histograms, over public bins or over the whole real line.

Replacing one row takes 1 from one bin and adds 1 to another: the counts move by 2 in ℓ1, √2 in ℓ2, attained
by any move between bins. With public bins every count gets noise. On the real line only occupied bins can,
and a bin that a neighbour empties must not show: its noisy count is kept above a threshold only.

The stability histogram. Bins k h … (k + 1) h; for occupied ones ĉ = c + Laplace(2/ε), kept if

    ĉ > t = 1 + (2/ε) log(1/(2δ)).

Why it is ε-DP with failure probability δ. Let neighbours move a row from bin a to bin b; the other bins have
the same law. Call a bin *private to one side* if it holds that row alone (count 1 there, 0 on the other
side): it is kept with probability P(Laplace(2/ε) > t − 1) = δ. Unless that happens it contributes nothing,
as on the other side, and

    a and b occupied on both sides   counts move by 2 in ℓ1            ε
    only one of them                 the other's count moves by 1      ε/2, after an event of probability δ
    neither                          nothing else moves                0, after an event of probability δ
                                                                      on either side

so each side has, with probability at least 1 − δ, a law within ε of the other's: δ-approximate ε-DP. The
threshold 1 + (2/ε) log(1/δ), as often printed, has a failure probability of δ/2 only.

References
----------
Bun, Nissim & Stemmer (2016), Simultaneous private learning of multiple concepts (stability-based histograms).
Lei (2011), Differentially private M-estimators.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from dpalgos.accounting.events import FailureEvent, PureEvent
from dpalgos.errors import InputError
from dpalgos.mechanisms.checks import check_positive, check_probability, check_rows
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray, IntArray

HISTOGRAM_L1_SENSITIVITY = 2.0
HISTOGRAM_L2_SENSITIVITY = float(np.sqrt(2.0))

_N_CELLS = 64
_LAST_BIN = 2.0**53


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseHistogram:
    """The released bins of a stability histogram.

    Attributes
    ----------
    centers : (B,) array
        Centres of the bins kept by any replicate, ascending; B may be 0.
    counts : (B, R) array
        Released counts; 0 where a replicate did not keep the bin.
    """

    centers: FloatArray
    counts: FloatArray

    @property
    def empty(self) -> BoolArray:
        """Which replicates kept no bin at all, (R,): a possible answer."""
        return np.asarray(~(self.counts > 0).any(axis=0))


def bin_counts(values: FloatArray, edges: FloatArray, weights: FloatArray) -> FloatArray:
    """Count rows in public bins, (K, R); values beyond the outermost edges count in the outermost bins."""
    return _sum_by(np.searchsorted(edges[1:-1], values, side="right"), len(edges) - 1, weights)


def laplace_histogram(
    transcript: Transcript,
    values: FloatArray,
    *,
    edges: FloatArray,
    epsilon: float,
    label: str,
    row_mask: BoolArray | None = None,
) -> FloatArray:
    """Release the counts of public bins with Laplace noise of scale 2/ε.

    Parameters
    ----------
    transcript : Transcript
        Where it is released and recorded.
    values : (n,) array
        Private values.
    edges : (K + 1,) array
        Public, ascending. Values beyond the outermost edges count in the outermost bins.
    epsilon : float
        ε of the whole histogram.
    label : str
        Names the histogram in the record.
    row_mask : (n, R) bool array, optional
        The rows that each replicate uses.

    Returns
    -------
    (K, R) array

    Raises
    ------
    InputError
        If an argument is out of range or a shape is wrong.
    """
    return transcript.laplace(
        _checked_counts(transcript, values, edges, row_mask),
        l1_sensitivity=HISTOGRAM_L1_SENSITIVITY,
        epsilon=check_positive("epsilon", epsilon),
        label=label,
    )


def gaussian_histogram(
    transcript: Transcript,
    values: FloatArray,
    *,
    edges: FloatArray,
    noise_multiplier: float,
    label: str,
    row_mask: BoolArray | None = None,
) -> FloatArray:
    """Release the counts of public bins with Gaussian noise; arguments as in :func:`laplace_histogram`.

    The standard deviation is √2 ``noise_multiplier`` per bin.
    """
    return transcript.gaussian(
        _checked_counts(transcript, values, edges, row_mask),
        l2_sensitivity=HISTOGRAM_L2_SENSITIVITY,
        noise_multiplier=check_positive("noise_multiplier", noise_multiplier),
        label=label,
    )


def stability_threshold(epsilon: float, delta: float) -> float:
    """Return 1 + (2/ε) log(1/(2δ)), which a count of 1 with Laplace(2/ε) noise exceeds with probability δ."""
    return 1 + (2 / epsilon) * max(0.0, float(np.log(1 / (2 * delta))))


def stability_histogram(
    transcript: Transcript,
    values: FloatArray,
    *,
    bin_width: float,
    epsilon: float,
    delta: float,
    label: str,
    row_mask: BoolArray | None = None,
) -> SparseHistogram:
    """Release the well-filled bins of the real line and their counts.

    Parameters
    ----------
    transcript : Transcript
        Where it is released and recorded.
    values : (n,) array
        Private values, unbounded.
    bin_width : float
        Public h; bins beyond 2^53 widths from 0 are merged into the outermost.
    epsilon, delta : float
        A pure event of ε and a failure of probability δ are charged.
    label : str
        Names the histogram in the record.
    row_mask : (n, R) bool array, optional
        The rows that each replicate uses.

    Returns
    -------
    SparseHistogram
        Possibly empty: see :attr:`SparseHistogram.empty`.

    Raises
    ------
    InputError
        If an argument is out of range or a shape is wrong.
    """
    n_replicates = transcript.n_replicates
    rows, weights = check_rows(values, row_mask, n_replicates, n_dimensions=(1,))
    bin_width = check_positive("bin_width", bin_width)
    epsilon, delta = check_positive("epsilon", epsilon), check_probability("delta", delta)
    with np.errstate(over="ignore"):
        bins, index = np.unique(
            np.clip(np.floor(rows / bin_width), -_LAST_BIN, _LAST_BIN), return_inverse=True
        )
    counts = np.broadcast_to(_sum_by(index, len(bins), weights), (len(bins), n_replicates))

    def draw() -> FloatArray:
        noisy = np.zeros(counts.shape)
        for r in range(n_replicates):
            # As many draws as this replicate has occupied bins: none of the other replicates' business.
            occupied = np.flatnonzero(counts[:, r])
            noise = transcript.noise.select(slice(r, r + 1)).laplace(len(occupied))[:, 0]
            noisy[occupied, r] = counts[occupied, r] + HISTOGRAM_L1_SENSITIVITY / epsilon * noise
        kept = noisy > stability_threshold(epsilon, delta)
        shown = kept.any(axis=1)
        released = np.where(kept, noisy, 0.0)[shown]
        return np.stack([np.broadcast_to(bins[shown, None], released.shape), released])

    # Bins folded into a fixed number of cells stand for the counts in the record: an ℓ1 contraction, and of
    # the same shape for neighbours, which may occupy different bins.
    folded = _sum_by((bins % _N_CELLS).astype(np.intp), _N_CELLS, counts)
    published = transcript.publish(
        folded,
        draw,
        PureEvent(label=label, epsilon=epsilon, sensitivity=HISTOGRAM_L1_SENSITIVITY),
        FailureEvent(label=label, delta=delta),
    )
    return SparseHistogram(centers=(published[0, :, 0] + 0.5) * bin_width, counts=published[1])


def _checked_counts(
    transcript: Transcript, values: FloatArray, edges: FloatArray, row_mask: BoolArray | None
) -> FloatArray:
    rows, weights = check_rows(values, row_mask, transcript.n_replicates, n_dimensions=(1,))
    ascending = np.asarray(edges, dtype=float)
    if ascending.ndim != 1 or len(ascending) < 2 or not (np.diff(ascending) > 0).all():
        raise InputError("edges must be an ascending list of at least two public numbers")
    counts = bin_counts(rows, ascending, weights)
    return np.broadcast_to(counts, (len(counts), transcript.n_replicates))


def _sum_by(index: IntArray, n_groups: int, weights: FloatArray) -> FloatArray:
    """Sum the rows of ``weights`` (n, R) by group, (n_groups, R)."""
    n = len(index)
    groups = csr_array((np.ones(n), (index, np.arange(n))), shape=(n_groups, n))
    return np.asarray(groups @ weights)
