"""Nothing but the releases reaches the answer: the same history on quite other data gives the same answer."""

import numpy as np
import pytest

from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import BatchNoise, RecordingTranscript
from dpalgos.rows.sample import Sample
from tests.contract.forms import EVERY, FAMILIES, IDS, response, whose

PRIVATE = [(e, c) for e, c in EVERY + FAMILIES if e.relation in (Relation.CENTRAL, Relation.USER)]


def plain(events):
    return [{key: np.asarray(value).tolist() for key, value in vars(event).items()} for event in events]


@pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_answer_is_made_of_the_releases(estimator, calibration, scale):
    # The second scale is of tables large enough that boxes are halved and several axes are taken.
    epsilon, n = (2.0, 60) if scale == 1 else (20.0, 300)
    budget = {"epsilon": epsilon, "delta": 1e-4, "calibration": calibration}
    params = build_params(estimator, {**estimator.example, **budget})
    rng, d, n_replicates = np.random.default_rng(0), 3, 4
    X = np.clip(rng.uniform(-1, 1, (n, d)) + 0.8, -1, 1)  # means that stand out from the noise
    ids = whose(estimator, n)
    recorded = RecordingTranscript(BatchNoise(rng, n_replicates), estimator.relation)
    sample = Sample(X, response(estimator, X[:, 0]), n_replicates=n_replicates, user_ids=ids)
    answer = run_estimator(estimator, sample, params, recorded)

    rows, responses = scale * rng.standard_t(2, (n, d)), scale * rng.standard_t(2, n)
    other = Sample(rows, response(estimator, responses), n_replicates=n_replicates, user_ids=ids)
    replayed = RecordingTranscript(BatchNoise(rng, n_replicates), estimator.relation, recorded.published)
    np.testing.assert_array_equal(run_estimator(estimator, other, params, replayed), answer)
    assert len(replayed.releases) == len(recorded.releases)
    # Sensitivities, hence noise scales, and whatever the run reports follow from the history too.
    assert plain(replayed.events) == plain(recorded.events)
    assert replayed.diagnostics.keys() == recorded.diagnostics.keys()
    for name, value in recorded.diagnostics.items():
        np.testing.assert_equal(replayed.diagnostics[name], value, err_msg=name)
    if recorded.interval is not None:
        pairs = [(recorded.interval, replayed.interval)]
        if recorded.interval.released:
            pairs.append([each.released.along(np.ones((2, d))) for each in pairs[0]])
        for one, other in pairs:
            for part in ("half_width", "center", "without_noise", "reasons"):
                np.testing.assert_equal(getattr(other, part), getattr(one, part), err_msg=part)
