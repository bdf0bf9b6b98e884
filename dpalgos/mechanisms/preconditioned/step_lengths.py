"""How long the steps of a linear regression on white rows are, by what its released gradients tell.

Where rows are clipped, moments and gradients show less than all rows have, so that the curvature k of white
rows is not 1: along a move m the gradient falls by k‖m‖². Of that the noise in a move's own gradient, of
variance s² in d coordinates, makes a d s² where the move is a times the gradient; it is subtracted. The mean
k is 1 ± .7 before any move, and differs among directions by about itself: each move counts by its noise and
that (Kalman 1960). It is no less than the share of rows that are not clipped. A step is 1/k of the gradient,
longer than 1 only by the share of the gradient that noise does not explain, and no longer than 1/k along the
last move, as far as there is no doubt.
"""

import numpy as np

from dpalgos.typing import FloatArray

_DOUBT = 0.7  # standard deviation of k before any move
_LEAST, _MOST = 0.25, 8.0  # that k is taken to be
_LEAST_UNKNOWN = 0.5  # where nobody knows how many rows are clipped
_SURE = 2.0  # standard deviations
_TINY = np.finfo(float).tiny


class StepLengths:
    """The lengths of the next step, (R,), in gradients."""

    def __init__(self, n_replicates: int) -> None:
        self._curvature = np.ones(n_replicates)
        self._variance = np.full(n_replicates, _DOUBT**2)
        self._longest = np.full(n_replicates, np.inf)

    def moved(
        self,
        move: FloatArray,
        length: FloatArray,
        fall: FloatArray,
        stds: FloatArray,
        clipped_share: FloatArray,
    ) -> None:
        """Learn that the gradient fell by ``fall`` (d, R) along a move (d, R) of ``length`` (R,) gradients.

        ``stds`` (2, R) are those of the noise in the gradient before and after, ``clipped_share`` (R,) is
        about the share of rows that are clipped, 0 if nobody knows.
        """
        squares, noise = (move**2).sum(axis=0), (stds**2).sum(axis=0)
        along = (fall * move).sum(axis=0) - length * len(move) * stds[0] ** 2
        spread = (self._variance + self._curvature**2) * squares + noise
        gain = self._variance / np.maximum(spread, _TINY)
        learned = self._curvature + gain * (along - self._curvature * squares)
        least = np.where(clipped_share > 0, np.maximum(1 - clipped_share, _LEAST), _LEAST_UNKNOWN)
        self._curvature = np.clip(learned, least, _MOST)
        self._variance = self._variance * (1 - gain * squares)
        sure = along - _SURE * np.sqrt(noise * squares)
        self._longest = np.divide(squares, sure, out=np.full_like(squares, np.inf), where=sure > squares)

    def full(self, gradient: FloatArray, std: FloatArray) -> FloatArray:
        """Return the length of a full step by a gradient (d, R) with noise of ``std`` (R,)."""
        squares = (gradient**2).sum(axis=0)
        signal = np.maximum(squares - len(gradient) * std**2, 0) / np.maximum(squares, _TINY)
        newton = 1 / self._curvature
        return np.asarray(np.minimum(newton, 1) + np.maximum(newton - 1, 0) * signal)

    def safe(self, length: FloatArray) -> FloatArray:
        """Return a length, at most the one that the last move proves."""
        return np.asarray(np.minimum(length, self._longest))
