import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import norm

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.composition import (
    budget_shares,
    certified_epsilon,
    sketch_renyi,
    total_mu,
)
from dpalgos.accounting.events import (
    BoundedRangeEvent,
    FailureEvent,
    GaussianEvent,
    GaussianSketchEvent,
    PureEvent,
)
from dpalgos.accounting.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu, noise_multiplier
from dpalgos.errors import InputError


@pytest.mark.parametrize(
    ("epsilon", "delta", "z"),
    [
        (0.5, 1e-5, 7.0318),
        (0.5, 1 / 80000, 6.9269),
        (0.2, 1 / 80000, 16.0285),
        (1.0, 1e-5, 3.7306),
        (0.5, 10 / 120**1.1, 2.0109),
    ],
)
def test_multiplier_reference_values(epsilon, delta, z):
    assert noise_multiplier(epsilon, delta) == pytest.approx(z, abs=2e-4)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-8, 1e-5, 1e-3, 0.1])
def test_calibration_inverts_the_certificate(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_epsilon(delta, mu) <= epsilon
    assert gaussian_epsilon(delta, mu) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta


def test_delta_against_the_definition():
    for epsilon, mu in ((0.5, 0.2), (1.0, 1.0), (3.0, 2.0)):
        plain = norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        assert gaussian_delta(epsilon, mu) == pytest.approx(plain, rel=1e-9)


def test_composition_is_exact_for_gaussians():
    steps = [GaussianEvent(label="step", noise_multiplier=20.0 + t, l2_sensitivity=1.0) for t in range(10)]
    certified = certified_epsilon(steps, 1e-6)
    composed = None
    for event in steps:
        # Replace-one sensitivity 1 is a shift by one standard unit: the add-or-remove mechanism of that z.
        one = privacy_loss_distribution.from_gaussian_mechanism(
            event.noise_multiplier, value_discretization_interval=1e-5
        )
        composed = one if composed is None else composed.compose(one)
    assert certified == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=2e-3)
    assert gaussian_delta(certified, total_mu(steps)) == pytest.approx(1e-6, rel=1e-6)


def test_fifty_steps_of_the_digest():
    z = np.sqrt(50) * noise_multiplier(0.5, 1 / 48032)
    assert z == pytest.approx(47.3, abs=0.1)
    events = [GaussianEvent(label="step", noise_multiplier=z, l2_sensitivity=1.0, count=50)]
    assert certified_epsilon(events, 1 / 48032) == pytest.approx(0.5, rel=1e-6)


def test_pure_events():
    events = [PureEvent(label="laplace", epsilon=0.5, sensitivity=1.0)]
    assert 0.499 < certified_epsilon(events, 1e-5) <= 0.5
    many = [PureEvent(label="laplace", epsilon=0.01, sensitivity=1.0, count=1000)]
    assert certified_epsilon(many, 1e-5) < 10 * 0.5


def test_bounded_range_is_cheaper_than_pure():
    step = {"label": "choice", "epsilon": 0.1, "sensitivity": 1.0, "count": 50}
    ranges, pures = [BoundedRangeEvent(**step)], [PureEvent(**step)]
    assert certified_epsilon(ranges, 1e-6) < 0.6 * certified_epsilon(pures, 1e-6)


def test_failures_spend_delta():
    gaussian = GaussianEvent(label="g", noise_multiplier=5.0, l2_sensitivity=1.0)
    failure = FailureEvent(label="f", delta=1e-6)
    assert certified_epsilon([gaussian, failure], 1e-5) == certified_epsilon([gaussian], 1e-5 - 1e-6)
    assert certified_epsilon([gaussian, failure], 1e-6) == np.inf


def test_no_noise_is_not_private():
    events = [GaussianEvent(label="g", noise_multiplier=0.0, l2_sensitivity=1.0)]
    assert certified_epsilon(events, 1e-5) == np.inf
    assert certified_epsilon([], 1e-5) == 0.0


@pytest.mark.parametrize(("n_rows", "ratio"), [(21, 42), (50, 59), (100, 81), (200, 112)])
def test_sketch_reference_values(n_rows, ratio):
    # Digest 6.2: sufficient w²/B² at (.5, 1e-5).
    event = GaussianSketchEvent(label="s", n_rows=n_rows, row_bound_squared=1.0, ridge=float(ratio))
    assert certified_epsilon([event], 1e-5) <= 0.502
    less = GaussianSketchEvent(label="s", n_rows=n_rows, row_bound_squared=1.0, ridge=0.95 * ratio)
    assert certified_epsilon([less], 1e-5) > 0.5


def test_sketch_renyi_against_integration():
    grid = np.linspace(-20, 20, 400_001)
    for kappa in (0.9, 1.1):
        order = 3.0
        log_density = order * norm.logpdf(grid, scale=np.sqrt(kappa)) + (1 - order) * norm.logpdf(grid)
        integral = np.log(np.exp(log_density).sum() * (grid[1] - grid[0])) / (order - 1)
        closed = -0.5 * np.log(kappa) - np.log(order + (1 - order) * kappa) / (2 * (order - 1))
        assert integral == pytest.approx(closed, rel=1e-5)
    one = sketch_renyi(1, 0.1, np.array([3.0]))[0]
    assert sketch_renyi(7, 0.1, np.array([3.0]))[0] == pytest.approx(7 * one)


def test_budget_shares():
    events = [
        GaussianEvent(label="a", noise_multiplier=10.0, l2_sensitivity=1.0, count=3),
        GaussianEvent(label="b", noise_multiplier=10.0, l2_sensitivity=1.0),
        FailureEvent(label="c", delta=1e-9),
    ]
    assert budget_shares(events, 1e-5) == pytest.approx({"a": 0.75, "b": 0.25})
    assert budget_shares([], 1e-5) == {}


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-5), (np.inf, 1e-5), (1.0, 0.0), (1.0, 1.0), ("1", 0.1)]
)
def test_impossible_budgets(epsilon, delta):
    with pytest.raises(InputError):
        gaussian_mu(epsilon, delta)


def test_a_delta_near_one_is_refused_and_any_below_is_accounted_for():
    """Beyond .9 the least ρ of a plan lay at an order that certificates do not look at."""
    for epsilon in (1e-5, 0.5, 50.0):
        rho = concentrated_rho(epsilon, 0.9)
        planned = PureEvent(label="", epsilon=(2 * rho) ** 0.5, sensitivity=1.0)
        assert certified_epsilon([planned], 0.9) <= epsilon
        with pytest.raises(InputError, match=r"delta must lie between 1e-100 and 0\.9, got 0\.95"):
            concentrated_rho(epsilon, 0.95)


def test_calibration_against_dp_accounting_on_a_grid():
    from dp_accounting.pld.accountant import get_smallest_gaussian_noise
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    for epsilon in np.geomspace(0.01, 10, 9):
        for delta in np.geomspace(1e-12, 0.1, 9):
            theirs = get_smallest_gaussian_noise(
                DifferentialPrivacyParameters(epsilon, delta), num_queries=1, sensitivity=1.0
            )
            ours = noise_multiplier(epsilon, delta)
            assert ours == pytest.approx(theirs, rel=1e-6)
            assert gaussian_delta(epsilon, 1 / ours) <= delta
