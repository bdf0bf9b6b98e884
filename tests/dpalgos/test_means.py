import numpy as np
import pytest

import dpalgos
from tests.dpalgos.silence import estimated, silent

BUDGET = {"epsilon": 0.5, "delta": 1e-5}
KNOWN = {"mean_bound": 10.0, "std_bounds": (1.0, 1.0)}


def printed_delta(n):
    return 10 / n**1.1


def gaussian_rows(n, d, rng, s=None):
    mean = rng.uniform(-10, 10, d)
    mean[s if s is not None else d :] = 0
    return rng.standard_normal((n, d)) + mean, mean


def errors(name, n, d, n_sets, s=None, delta=None, **keywords):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n_sets):
        X, mean = gaussian_rows(n, d, rng, s)
        budget = {"epsilon": 0.5, "delta": delta or printed_delta(n)} if name != "sample_mean" else {}
        answer = dpalgos.estimate(name, X, rng=rng, **budget, **keywords).estimate
        found.append(np.linalg.norm(answer - mean))
    return float(np.mean(found))


def certify(name, epsilon, delta, **keywords):
    X = np.random.default_rng(0).standard_normal((200, 30))
    return estimated(name, X, epsilon=epsilon, delta=delta, **keywords).certified_epsilon


# The sparse sample mean


# Algorithm 3.3


SPARSE_FORMS = {"tight": {}, "paper": {"calibration": "paper"}}


@pytest.mark.parametrize("form", SPARSE_FORMS)
def test_without_noise_the_sparse_mean_is_the_thresholded_truncated_mean(form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 40)) + np.r_[np.linspace(1, 3, 5), np.zeros(35)]
    keywords = {"value_bound": 2.5, "sparsity": 5, **SPARSE_FORMS[form]}
    truncated = np.clip(X, -2.5, 2.5).mean(axis=0)
    expected = np.where(np.arange(40) < 5, truncated, 0)
    np.testing.assert_allclose(silent("dp_sparse_mean", X, **BUDGET, **keywords), expected, atol=1e-12)


@pytest.mark.parametrize("form", SPARSE_FORMS)
def test_the_support_is_exactly_s_and_zeros_are_exact(form):
    X, _ = gaussian_rows(200, 300, np.random.default_rng(1), s=5)
    keywords = {"value_bound": 12.0, "sparsity": 7, **SPARSE_FORMS[form]}
    answer = estimated("dp_sparse_mean", X, replicates=4, **BUDGET, **keywords).estimate
    np.testing.assert_array_equal((answer != 0).sum(axis=0), 7)


# Algorithm 3.1


@pytest.mark.parametrize(("epsilon", "delta", "proved"), [(0.5, 1e-5, 0.5198), (1.0, 1e-5, 1.1099)])
def test_the_printed_private_mean_proves_more_than_asked(epsilon, delta, proved):
    certified = certify("dp_mean", epsilon, delta, value_bound=1.0, calibration="paper")
    assert certified == pytest.approx(proved, abs=2e-4)


@pytest.mark.parametrize(("n", "printed", "tight"), [(5_000, 0.464, 0.451), (20_000, 0.149, 0.142)])
def test_private_mean_reference_errors(n, printed, tight):
    bound = {"value_bound": 4 * np.sqrt(np.log(n))}
    assert errors("dp_mean", n, 20, 20, calibration="paper", **bound) == pytest.approx(printed, rel=0.15)
    assert errors("dp_mean", n, 20, 20, **bound) == pytest.approx(tight, rel=0.15)


# The clipped mean


@pytest.mark.parametrize(
    "keywords",
    [
        {"center": 1.0, "clip_norm": 20.0},
        {"center": [1.0, 0.0, -1.0, 2.0], "clip_norm": 20.0},
        {"mean_bound": 4.0, "std_bounds": (1.0, 1.0)},
        {"mean_bound": 4.0, "std_bounds": (0.5, 8.0)},
    ],
    ids=str,
)
def test_clipped_mean_is_exact_where_nothing_is_clipped(keywords):
    X = np.random.default_rng(0).uniform(0.2, 0.4, (300, 4)) + np.array([0.8, 0.0, -1.0, 1.5])
    np.testing.assert_allclose(silent("clipped_mean", X, **BUDGET, **keywords), X.mean(axis=0), atol=0.02)


# Karwa–Vadhan


KV_FORMS = {"known": (1.0, 1.0), "unknown": (0.5, 8.0)}


def test_karwa_vadhan_as_printed_is_pure():
    keywords = {**KNOWN, "calibration": "paper"}
    assert certify("karwa_vadhan_mean", 0.5, 1e-12, **keywords) <= 0.5 * (1 + 1e-9)
    assert certify("karwa_vadhan_mean", 0.5, 1e-5, **keywords) < 0.5


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("form", KV_FORMS)
def test_without_noise_karwa_vadhan_is_the_mean(form, calibration):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2001, 4)) + np.array([-8.0, 0.3, 2.0, 9.5])
    keywords = {"mean_bound": 10.0, "std_bounds": KV_FORMS[form], "calibration": calibration}
    np.testing.assert_allclose(
        silent("karwa_vadhan_mean", X, **BUDGET, **keywords), X.mean(axis=0), atol=1e-9
    )
