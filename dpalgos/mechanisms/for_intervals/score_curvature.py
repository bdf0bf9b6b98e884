"""The released curvature of the mean of clipped scores, denoised by what whitening leads one to expect.

    mean of w z z' over rows, shortened to norm L,   z = [u, 1] for white rows u

w is ψ'' where the score is not clipped, else 0; for a row that is shortened it is ψ'' in any case.

Replacing a row moves it by at most √2 L/n in the Frobenius norm (:func:`curvature_sensitivity`); L is found
by a search of counts of ψ''‖z‖², of sensitivity 1 each.

Expected is p V diag(h) V', p the mean weight, V and h the whitening's directions and how well each is
resolved; of events p is that of normal rows, whose curvature is less along a steep slope. Of entry (i, j) of
the released difference, along V, a_ij = v_ij / (v_ij + s²) is kept, with the whitening's doubt v_ij about it
and the noise s of the entry; what is left unknown has variance a_ij s². An eigenvalue that noise may have
made is raised, and hidden.
"""

from typing import NamedTuple

import numpy as np
import scipy

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.mechanisms.preconditioned.whitening import Whitening
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.models.white_rows import WhiteRows
from dpalgos.release.transcript import Transcript
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import BoolArray, FloatArray

CURVATURE, COUNTS = "curvature", "curvatures above a level"
RESOLVED = 2.6  # standard deviations of noise that an eigenvalue stands out by
UNSEEN_NOISE = 0.3  # of the noise's standard deviation, along directions that look as expected

_N_LEVELS, _LARGEST_LEVEL = 16, 32.0  # the largest times d + 1 and the curvature at a typical predictor
_LONG = 0.004  # of the rows have curvatures above the level
_LARGEST_NOISE = 0.3  # of the curvature's entries
_FLATTEST = 0.1  # of the mean weight


class ScoreCurvature(NamedTuple):
    """Q, with what is known of it: values (R, d) along vectors (R, d, d), (R,) total and noise."""

    vectors: FloatArray
    values: FloatArray
    variances: FloatArray  # of entries between the vectors, (R, d, d); off the diagonal twice that
    hidden: BoolArray  # which values noise may have made, (R, d)
    ones: FloatArray  # the white coefficients of a column of ones, (d, R)
    total: FloatArray  # mean weight
    noise: FloatArray
    heavy: FloatArray | float = 1.0  # how heavy the tails of rows look, next to normal ones, at least 1

    @property
    def std(self) -> FloatArray:
        """The standard deviations of the values, (R, d)."""
        return np.asarray(np.sqrt(np.einsum("rjj->rj", self.variances)))

    def of_values(self, values: FloatArray) -> FloatArray:
        """Return the matrices (R, d, d) of some values (R, d) along the directions."""
        return np.asarray((self.vectors * values[:, None, :]) @ np.swapaxes(self.vectors, 1, 2))

    @property
    def matrix(self) -> FloatArray:
        """Q, (R, d, d)."""
        return self.of_values(self.values)

    def inverse(self) -> FloatArray:
        return self.of_values(1 / self.values)

    def blurred(self, vectors: FloatArray) -> FloatArray:
        """Return the covariance (R, d, d) of the noise of Q times vectors (d, R)."""
        own, variances = self.along(vectors), self.variances
        crossed = variances * own[:, :, None] * own[:, None, :] / 2
        of_rows = np.einsum("rjk,rk->rj", variances, own**2) / 2
        found = crossed + of_rows[:, :, None] * np.eye(own.shape[1])
        return np.asarray(self.vectors @ found @ np.swapaxes(self.vectors, 1, 2))

    def along(self, vectors: FloatArray) -> FloatArray:
        """Return the coordinates (R, d) of vectors (d, R) along the directions."""
        return np.asarray(np.einsum("rki,kr->ri", self.vectors, vectors))


def curvature_sensitivity(level: FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return √2 L/n, (R,): parts of norm L each, positive semidefinite, of rows whose z are orthogonal."""
    return np.asarray(np.sqrt(2) * level / n_rows)


def release_curvature(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhiteRows,
    white: Whitening,
    steps: ReleasedSteps,
    middle: FloatArray,
) -> ScoreCurvature:
    """Release the curvature at the last of the steps; ``middle`` (R,) is a typical predictor, released."""
    n_rows, d = scores.sample.n_rows, scores.sample.n_features
    parts = scores.curvature(steps.points[-1], steps.level)
    multiplier = budget.gaussian_multiplier(CURVATURE)
    count = budget.gaussian_multiplier(COUNTS, counts_needed(_N_LEVELS))
    unit = (d + 1) * np.maximum(scores.family.second_derivative(middle[None])[0], 1e-3)
    largest = np.clip(_LARGEST_NOISE * n_rows / (np.sqrt(2) * multiplier * (d + 1)), 2, _LARGEST_LEVEL)
    level = search_level(
        transcript,
        unit * largest ** np.linspace(0, 1, _N_LEVELS)[:, None],
        np.maximum(_LONG * n_rows, 1.2 * count),
        parts.norms(),
        noise_multiplier=count,
        label=COUNTS,
    )
    sensitivity, value = curvature_sensitivity(level, n_rows), svec(parts.clipped_mean(level))
    released = transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=CURVATURE
    )
    shape: FloatArray = np.tile(np.eye(d), (len(n_rows), 1, 1))
    if np.isfinite(scores.family.residual_bound):
        theta, center = steps.points[-1], white.mean_row
        shape = normal_curvature(scores.family, theta, center, middle - (center * steps.end).sum(axis=0))
        shape = shape * (d / np.einsum("rjj->r", shape))[:, None, None]
    noise = transcript.noise_std(sensitivity, multiplier, len(value))
    normal = float(scipy.special.chdtri(d, _LONG) + 1)
    heavy = np.maximum(level * (d + 1) / (unit * normal), 1.0)
    return _denoised(unsvec(released, d + 1), noise, white, unit, shape)._replace(heavy=heavy)


def _denoised(
    moments: FloatArray, noise: FloatArray, white: Whitening, unit: FloatArray, shape: FloatArray
) -> ScoreCurvature:
    """Return Q of released means of z z', (R, d + 1, d + 1), and the noise in their svec (R,).

    ``shape`` (R, d, d), of trace d, is that of normal rows.
    """
    d, axes = moments.shape[-1] - 1, white.directions
    back = np.swapaxes(axes, 1, 2)
    total = np.maximum(np.einsum("rjj->r", moments), 0.2 * unit) / (d + 1)
    part = (axes * np.sqrt(total[:, None] * white.curvature)[:, None, :]) @ back
    expected = part @ shape @ part
    doubt, own = (total**2)[:, None, None] * white.doubt, (noise**2)[:, None, None]
    weight = doubt / (doubt + own)
    found = expected + axes @ (weight * (back @ (moments[:, :d, :d] - expected) @ axes)) @ back
    values, vectors = np.linalg.eigh(found)
    turn = (back @ vectors) ** 2
    variances = np.swapaxes(turn, 1, 2) @ (weight * own) @ turn
    std = np.sqrt(np.einsum("rjj->rj", variances))
    least = np.maximum(RESOLVED * std, _FLATTEST * total[:, None])
    raised = np.maximum(values, least)
    ones = np.einsum("rjk,rk,rlk,rl->jr", vectors, 1 / raised, vectors, moments[:, :d, -1])
    return ScoreCurvature(vectors, raised, variances, values < least, ones, total, noise)


def unresolved_coordinates(eigenvalues: FloatArray, vectors: FloatArray, noise: FloatArray) -> BoolArray:
    """Return which coefficients, (d, R), take part in a direction whose eigenvalue noise may have made.

    ``vectors`` (R, d, d) are eigenvectors of released second moments, as columns; ``noise`` (R,) is that in
    svec.
    """
    floor = RESOLVED * np.sqrt(eigenvalues.shape[1]) * noise
    part = np.einsum("rjk,rk->jr", vectors**2, (eigenvalues < floor[:, None]).astype(float))
    return np.asarray(part > 0.01)
