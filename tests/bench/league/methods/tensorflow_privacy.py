# /// script
# dependencies = ["tensorflow-privacy==0.9.0", "tensorflow==2.15.1", "tensorflow-estimator==2.15.0"]
# ///
"""TensorFlow Privacy: DP-SGD of a dense layer in shuffled batches of a tenth of the rows, 5 epochs.

The noise multiplier is that of dp_accounting, as if batches were drawn by chance, which is what its own
statement assumes. Its guarantee counts adding or removing a row; the league replaces rows, for which it is
doubled.
"""

from functools import cache

import dp_accounting
import numpy as np
import tensorflow as tf
from tensorflow_privacy import VectorizedDPKerasSGDOptimizer

FAMILIES = {"TensorFlow Privacy DP-SGD": ["linear", "logistic", "counts"]}
_EPOCHS, _SHARE = 5, 0.1
_LOSSES = {
    "linear": tf.keras.losses.MeanSquaredError(reduction="none"),
    "logistic": tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction="none"),
    "counts": tf.keras.losses.Poisson(reduction="none"),
}


@cache
def noise_multiplier(epsilon, delta):
    def event(z):
        step = dp_accounting.PoissonSampledDpEvent(_SHARE, dp_accounting.GaussianDpEvent(z))
        return dp_accounting.SelfComposedDpEvent(step, round(_EPOCHS / _SHARE))

    return 2 * dp_accounting.calibrate_dp_mechanism(
        dp_accounting.rdp.RdpAccountant, event, epsilon, delta, dp_accounting.LowerEndpointAndGuess(0.5, 5)
    )


def dp_sgd(table, epsilon, delta, seed):
    tf.keras.utils.set_random_seed(seed)
    n, d = table.X.shape
    batch = max(1, int(n * _SHARE))
    link = "exponential" if table.family == "counts" else None
    layer = tf.keras.layers.Dense(1, input_shape=(d,), kernel_initializer="zeros", activation=link)
    model = tf.keras.Sequential([layer])
    optimizer = VectorizedDPKerasSGDOptimizer(
        l2_norm_clip=float(np.sqrt(d + 1)), noise_multiplier=noise_multiplier(epsilon, delta),
        num_microbatches=batch, learning_rate=2 / (d + 1),
    )  # fmt: skip
    model.compile(optimizer=optimizer, loss=_LOSSES[table.family])
    rows = tf.data.Dataset.from_tensor_slices(
        (table.X.astype("float32"), table.y.astype("float32")[:, None])
    ).shuffle(n, seed=seed)
    model.fit(rows.batch(batch, drop_remainder=True), epochs=_EPOCHS, verbose=0)
    weights, constant = layer.get_weights()
    return np.append(weights[:, 0], constant)


METHODS = dict(zip(FAMILIES, (dp_sgd,), strict=True))
