"""TukeyEM: a regression of great depth among regressions on parts of the rows (Amin et al. 2023).

    β_1 … β_m:  least squares on m disjoint parts of the rows (row i is in part i mod m)
    depth of y: the minimum, over coordinates j, of #{i: β_ij ≤ y_j} and #{i: β_ij ≥ y_j}
    Y_τ:        the points of depth at least τ, a box between order statistics;  V_τ its volume;  t = ⌊m/4⌋
    h:          the number of replaced models at which the check still holds (2. below)
    if h + Laplace(1/ε₁) > log(1/2δ)/ε₁:  β ~ density ∝ exp(ε₀ depth) on Y_t;  else β = 0

    release                 sensitivity    cost
    distance h              1              ε₁
    point of great depth    1              2ε₀ and δ

Guarantee: (ε₁ + 2ε₀, δ) under replacing one row (x, y). No bounds on rows, responses or coefficients are
needed. m = 1000 as in the paper, at most the number of rows.

Why it is private. A row is in one part, so it replaces one model and moves every depth by at most 1.
Therefore Y_(τ+1) ⊆ Y'_τ ⊆ Y_(τ−1) for neighbors. Let Z be the integral of exp(ε₀ depth) over Y_t.
 1. If both datasets have a density, their ratio is at most e^ε₀ Z'/Z. A point that is new in Y'_t had depth
    t − 1 and has depth t. Therefore Z' is at most e^ε₀ Z + e^(ε₀t) (V_(t−1) − V_t). A point of Y_t that is
    not in Y'_t has depth t; these have probability at most e^(ε₀t) (V_t − V_(t+1)) / Z. Together, P(S) ≤
    e^(2ε₀) P'(S) + G_0 for every set S, with G_0 = e^ε₀ e^(ε₀t) V_(t−1) / Z.
 2. Z = e^(ε₀t) V_t + Σ_(τ>t) (e^(ε₀τ) − e^(ε₀(τ−1))) V_τ. G_k has V_(t−1−k) and V_(τ+k) in place of V_(t−1)
    and V_τ (:func:`log_gaps`). It bounds the G_0 of every dataset in which at most k models differ, and grows
    with k. h counts the k = 0, 1, … with G_k ≤ δ. One replaced model moves it by at most 1
    (:func:`distance_sensitivity`), since G_k of a neighbor is at most G_(k+1).
 3. If G_0 > δ, h = 0 and the check passes with probability at most δ. If not, P(S) ≤ e^(2ε₀) P'(S) + δ
    for all that follows the check, whose result costs ε₁. Either way δ is spent once: the direction from a
    dataset to its neighbor needs only the G_0 of the former.

Calibrations
    ``tight``: ε₁ = ε/2, ε₀ = ε/4, h as above.
    ``paper``: ε₁ = ε₀ = ε/2, made for adding or removing a model. The authors' condition replaces G_k ≤ δ,
    which implies it: V_(t−1−k) ≤ δ/(8 e^(ε/2)) e^(gε/4) V_(t+k+1+g) for some g ≥ 1. Under replacing a row
    this proves 1.5 ε. (The authors' code draws the check's noise with scale ε/2 instead of 2/ε.)

Departures: rows go to parts in turn, not shuffled. Order statistics are moved apart by 10⁻¹⁰ per rank instead
of by random perturbations of that size. This keeps the order of neighbors' order statistics, which is all
that the proof uses.

Reference: Amin, Joseph, Ribero & Vassilvitskii (2023), Easy differentially private linear regression. Brown,
Gaboardi, Smith, Ullman & Zakynthinou (2021), Covariance-aware private mean estimation without private
covariance estimation: the check.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.accounting.other_events import Laplace, Proved
from dpalgos.catalog import Neighbors, register
from dpalgos.core.estimator import PrivateEstimator, Witnesses
from dpalgos.core.other_plans import part_of_epsilon
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, lemma
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray

DISTANCE, POINT = "distance", "point of great depth"
_APART = 1e-10  # by which order statistics are moved apart
_LARGEST = 1e100  # of a coefficient
_N_MODELS = 1000


@dataclass(frozen=True)
class Boxes:
    """Boxes (d, ⌈m/2⌉) of points of depth ≥ 1, 2, …, ⌈m/2⌉ among m models; results have depth ≥ t."""

    lower: FloatArray
    upper: FloatArray
    t: int

    @classmethod
    def of(cls, models: FloatArray) -> "Boxes":
        m, deepest = len(models), (len(models) + 1) // 2
        apart = _APART * (np.arange(m) - (m - 1) / 2)
        ranked = (np.sort(models, axis=0) + apart[:, None]).T
        return cls(ranked[:, :deepest], ranked[:, ::-1][:, :deepest], max(1, m // 4))

    @cached_property
    def log_volumes(self) -> FloatArray:
        """log V_1, log V_2, …"""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(self.upper - self.lower, 0)).sum(axis=0))

    def log_weights(self, epsilon: float) -> FloatArray:
        """Return the logarithms of the weights of Y_t, Y_(t+1), …, whose mixture has the density."""
        depth = np.arange(self.t, len(self.log_volumes) + 1)
        gain = epsilon * depth
        gain[1:] += np.log(-np.expm1(-epsilon))
        return np.asarray(gain + self.log_volumes[self.t - 1 :])


def log_gaps(boxes: Boxes, epsilon: float) -> FloatArray:
    """Return log G_0, log G_1, … for ε₀ = ``epsilon``, as far as boxes reach; infinite without volume."""
    log_volumes, t = boxes.log_volumes, boxes.t
    steps = epsilon * np.arange(len(log_volumes) - t + 1)
    steps[1:] += np.log(-np.expm1(-epsilon))
    gaps = []
    for k in range(min(t - 1, len(log_volumes) - t + 1)):
        inner = log_volumes[t - 1 + k :]
        reached = scipy.special.logsumexp(steps[: len(inner)] + inner)
        gaps.append(epsilon + log_volumes[t - 2 - k] - reached if reached > -np.inf else np.inf)
    return np.asarray(gaps)


def distance(boxes: Boxes, params: "TukeyEM") -> int:
    """Return h."""
    (_, epsilon), log_delta = params.epsilons, np.log(params.delta)
    if params.calibration == "tight":
        return _count_first(log_gaps(boxes, epsilon) <= log_delta)
    log_volumes, t = boxes.log_volumes, boxes.t
    safe = []
    for k in range(t - 1):
        inner = log_volumes[t + k + 1 :]
        g = np.arange(1, len(inner) + 1)
        shrunk = log_volumes[t - 2 - k] - inner - epsilon / 2 * g
        safe.append(bool((shrunk <= log_delta - np.log(8) - epsilon).any()))
    return _count_first(np.array(safe, dtype=bool))


@lemma("1")
def distance_sensitivity() -> FloatArray:
    """Return 1: replacing a row replaces one model, and G_k of a neighbor is at most G_(k+1)."""
    return np.asarray(1.0)


def _one_far_row_more(params: "TukeyEM", d: int) -> Neighbors:
    """Return a row for each model. With one more far row the distance is 0."""
    m = _N_MODELS
    n_far = m // 4 - 2
    X, y = np.ones((m, d)), np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    y[: 2 * n_far] *= 1e9
    other = y.copy()
    other[-1] *= 1e9
    return X, y, X, other


@lemma("1")
def depth_sensitivity() -> FloatArray:
    """Return 1: replacing a row replaces one model, which moves the depth of any point by at most 1."""
    return np.asarray(1.0)


@register(
    name="tukey_em",
    title="TukeyEM",
    order=46,
    task="linear_regression",
    reference="Amin et al. (2023)",
    summary="A point of great depth among regressions on parts of the rows; needs no bounds at all.",
    no_interval="the estimate is a random deep point; use preconditioned_regression",
    in_memory=True,
)
@dataclass(frozen=True, kw_only=True)
class TukeyEM(PrivateEstimator):
    """A point of great depth among regressions on parts of the rows; zero where the check does not pass."""

    batch = True
    lemmas: ClassVar[Lemmas] = {DISTANCE: distance_sensitivity, POINT: depth_sensitivity}
    witnesses: ClassVar[Witnesses] = {DISTANCE: _one_far_row_more}

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def epsilons(self) -> tuple[float, float]:
        """ε₁ and ε₀; the point costs two of its ε₀, of which the paper counts one."""
        releases = 2 if self.calibration == "tight" else 1
        return part_of_epsilon(self.epsilon, 0.5), part_of_epsilon(self.epsilon, 0.5, releases)

    def plan(self, n: float, d: int) -> Plan:
        epsilon, depth_epsilon = self.epsilons
        return {DISTANCE: Laplace(epsilon), POINT: Proved(2 * depth_epsilon, delta=self.delta)}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        (epsilon, depth_epsilon), boxes = self.epsilons, _boxes(rows.sample)
        apart = {id(each): distance(each, self) for each in {id(each): each for each in boxes}.values()}
        distances = np.array([[apart[id(each)] for each in boxes]], dtype=float)
        released = spend(DISTANCE, distance_sensitivity.of(rows.by_replicate(distances))).value
        passed = rows.by_column(released)[0] > -np.log(2 * self.delta) / epsilon
        middles = np.stack([(each.lower[:, -1] + each.upper[:, -1]) / 2 for each in boxes], axis=1)

        def draw() -> FloatArray:
            points = np.empty_like(middles)
            gumbel = spend.noise.gumbel(max(each.lower.shape[1] for each in boxes))
            places = scipy.special.ndtr(spend.noise.normal(rows.d))
            for r, each in enumerate(boxes):
                log_weights = each.log_weights(depth_epsilon)
                box = each.t - 1 + int(np.argmax(log_weights + gumbel[: len(log_weights), r]))
                lower, upper = each.lower[:, box], each.upper[:, box]
                points[:, r] = lower + places[:, r] * (upper - lower)
            return np.where(passed, points, 0.0)  # an unused point would disclose as much

        return rows.by_replicate(spend.release(POINT, middles, draw))


def _boxes(sample: Sample) -> list[Boxes]:
    """Return each replicate's boxes, one and the same object where replicates do not differ."""
    X, y = sample.X, sample.response()
    if sample.row_mask is None:
        return [Boxes.of(_part_models(X, y))] * sample.n_replicates
    return [Boxes.of(_part_models(X[rows], y[rows])) for rows in sample.row_mask.T]


def _part_models(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the shortest least-squares coefficients of every part, (m, d), whatever the numbers' size."""
    m, d = min(_N_MODELS, len(X)), X.shape[1]
    rows = np.zeros((-(-len(X) // m) * m, d + 1))
    rows[: len(X), :d], rows[: len(X), d] = X, y
    parts = rows.reshape(-1, m, d + 1).swapaxes(0, 1)
    sizes = [np.abs(part).max(axis=(1, 2), initial=1e-100) for part in (parts[..., :d], parts[..., d:])]
    design, response = parts[..., :d] / sizes[0][:, None, None], parts[..., d] / sizes[1][:, None]
    gram, cross = design.swapaxes(1, 2) @ design, design.swapaxes(1, 2) @ response[..., None]
    coef = (np.linalg.pinv(gram, hermitian=True) @ cross)[..., 0] * (sizes[1] / sizes[0])[:, None]
    return np.asarray(np.clip(coef, -_LARGEST, _LARGEST))


def _count_first(holds: BoolArray) -> int:
    return len(holds) if holds.all() else int(np.argmin(holds))
