"""Pairs of neighboring datasets that an audit tries."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.api import run
from dpalgos.audit.replay import RecordingTranscript
from dpalgos.audit.trials import BatchNoise, Pair, trial_sample
from dpalgos.catalog import Estimator
from dpalgos.local.rounds import neighbors
from dpalgos.params import Params
from dpalgos.rows.blocks import LARGEST_VALUE
from dpalgos.typing import FloatArray

_FAR = 1e6
_PEOPLE = 6  # enough for the groups that local privacy asks one after the other


def pairs(estimator: Estimator, params: Params, n_features: int, rng: np.random.Generator) -> list[Pair]:
    """Return the neighbors that an audit tries."""
    found = _witness_pairs(estimator, params, n_features, rng)
    if estimator.relation is not Relation.USER:
        found += _far_pairs(n_features)
    if estimator.relation is Relation.LOCAL:
        found = [pair for pair in found if len(pair.X) == _PEOPLE] + _far_people(n_features)
    if estimator.task == "glm":
        found += _far_labels(n_features)
    if estimator.task == "mean":
        found = [dataclasses.replace(pair, y=None, other_y=None) for pair in found]
    by_content = {(_content(pair), _content(pair.swapped)): pair for pair in reversed(found)}
    return [pair for (one, other), pair in by_content.items() if one != other]


def _content(pair: Pair) -> tuple[bytes, bytes]:
    return pair.X.tobytes(), b"" if pair.y is None else pair.y.tobytes()


def _witness_pairs(
    estimator: Estimator, params: Params, n_features: int, rng: np.random.Generator
) -> list[Pair]:
    if estimator.witnesses is None:
        return []
    published = _publish_few_rows(estimator, params, n_features, rng)
    last = len(published)
    stages = {"last": published, "middle": published[: (last + 1) // 2], "first": published[:1]}
    found = []
    for stage, history in stages.items():
        try:
            witnesses = estimator.witnesses(params, n_features, history)
        except IndexError:  # needs a whole run's history
            continue
        found += [Pair(f"witness of {name!r} at the {stage} release", *w) for name, w in witnesses.items()]
    return found


def _publish_few_rows(
    estimator: Estimator, params: Params, n_features: int, rng: np.random.Generator
) -> Sequence[FloatArray]:
    recorded = RecordingTranscript(BatchNoise(rng, 1), estimator.relation or Relation.CENTRAL)
    n = _PEOPLE if estimator.relation is Relation.LOCAL else 1
    X = rng.uniform(-1, 1, (n, n_features))
    y = None if estimator.task == "mean" else (X[:, 0] > 0).astype(float)  # labels of every family
    run(estimator, trial_sample(estimator, X, y), params, recorded)
    return recorded.published


def _far_pairs(d: int) -> list[Pair]:
    """Return rows far outside of every bound."""
    row, far, axes = _FAR * np.eye(1, d), np.full(1, _FAR), _FAR * np.eye(d)
    responses, lost_axis, flipped = np.full(d, _FAR), axes.copy(), np.full(d, _FAR)
    lost_axis[-1], flipped[-1] = axes[0], -_FAR
    beyond = np.full((1, d), LARGEST_VALUE)
    return [
        Pair("far rows, opposite responses", row, far, row, -far),
        Pair("far rows, opposite rows", row, far, -row, far),
        Pair("far row against zeros", row, far, 0 * row, 0 * far),
        Pair("far rows, one axis lost", axes, responses, lost_axis, flipped),
        Pair("largest row against zeros", beyond, LARGEST_VALUE * np.ones(1), 0 * beyond, np.zeros(1)),
    ]


def _far_people(d: int) -> list[Pair]:
    """Return people alike but for one, far outside of every bound."""
    far, other, zero = np.full(d, _FAR), -np.full(d, _FAR), np.zeros(d)
    beyond = np.full(d, LARGEST_VALUE)
    return [
        Pair("far people, opposite responses", *neighbors(_PEOPLE, (far, _FAR), (far, -_FAR))),
        Pair("far people, opposite rows", *neighbors(_PEOPLE, (far, _FAR), (other, _FAR))),
        Pair("zeros against a far person", *neighbors(_PEOPLE, (zero, 0.0), (far, _FAR))),
        Pair("zeros against a far axis", *neighbors(_PEOPLE, (zero, 0.0), (_FAR * np.eye(d)[0], _FAR))),
        Pair("zeros against the largest row", *neighbors(_PEOPLE, (zero, 0.0), (beyond, LARGEST_VALUE))),
    ]


def _far_labels(d: int) -> list[Pair]:
    """Return far rows whose responses are labels of every family."""
    row, zero, one = _FAR * np.eye(1, d), np.zeros(1), np.ones(1)
    return [
        Pair("far rows, opposite labels", row, zero, row, one),
        Pair("far rows, opposite rows of a label", row, zero, -row, zero),
    ]
