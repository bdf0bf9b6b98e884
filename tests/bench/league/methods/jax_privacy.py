# /// script
# dependencies = ["jax-privacy==2.0.0", "dp-accounting==0.6.0"]
# ///
"""jax-privacy: DP-SGD of clipped gradients on Poisson batches, 50 steps of a tenth of the rows.

Its clipping, sampling and noise; the noise multiplier is that of dp_accounting for its steps. Its guarantee
is for adding or removing a row. Half of the noise multiplier would suffice for that. The league replaces
rows, for which it is doubled.
"""

from functools import cache

import dp_accounting
import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
from jax_privacy.batch_selection import CyclicPoissonSampling, pad_to_multiple_of

FAMILIES = {"jax-privacy DP-SGD": ["linear", "logistic", "counts"]}
_STEPS, _SHARE = 50, 0.1
_ORDERS = (*range(2, 17), 20, 24, 32, 48, 64, 128, 256)
_LOSSES = {
    "linear": lambda u, y: (u - y) ** 2 / 2,
    "logistic": lambda u, y: jax.nn.softplus(u) - y * u,
    "counts": lambda u, y: jnp.exp(jnp.minimum(u, 20.0)) - y * u,
}


@cache
def noise_multiplier(epsilon, delta):
    def event(z):
        step = dp_accounting.PoissonSampledDpEvent(_SHARE, dp_accounting.GaussianDpEvent(z))
        return dp_accounting.SelfComposedDpEvent(step, _STEPS)

    return 2 * dp_accounting.calibrate_dp_mechanism(
        lambda: dp_accounting.rdp.RdpAccountant(_ORDERS), event, epsilon, delta
    )


@cache
def clipped_gradient(family, clip, batch):
    def total(coef, chosen):
        return jnp.sum(_LOSSES[family](chosen[0] @ coef, chosen[1]) * (chosen[0] != 0).any(axis=-1))

    return jax.jit(jax_privacy.clipped_grad(total, l2_clip_norm=clip, normalize_by=batch, batch_argnums=1))


def dp_sgd(table, epsilon, delta, seed):
    X = np.column_stack([table.X, np.ones(len(table.X))])
    # Rows of zeros, which have no gradient, fill a batch up to a size that is compiled once.
    rows, y = jnp.asarray(np.vstack([X, 0 * X[:1]])), jnp.asarray(np.append(table.y, 0.0))
    clip, batch = float(np.sqrt(X.shape[1])), max(1.0, len(X) * _SHARE)
    gradient = clipped_gradient(table.family, clip, batch)
    multiplier = noise_multiplier(epsilon, delta)
    table.shows(multiplier / 2, rate=_SHARE, times=_STEPS)  # replacing a row moves a sum by twice the clip
    stddev = multiplier * clip / batch
    privatizer = jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=seed)
    coef = jnp.zeros(X.shape[1])
    state = privatizer.init(coef)
    sampling = CyclicPoissonSampling(sampling_prob=_SHARE, iterations=_STEPS)
    for chosen in sampling.batch_iterator(len(X), rng=np.random.default_rng(seed)):
        padded = pad_to_multiple_of(np.append(chosen, -1), min(512, len(X)))
        noisy, state = privatizer.update(gradient(coef, (rows[padded], y[padded])), state)
        coef = coef - 2 / X.shape[1] * noisy
    return np.asarray(coef, dtype=float)


METHODS = {"jax-privacy DP-SGD": dp_sgd}
