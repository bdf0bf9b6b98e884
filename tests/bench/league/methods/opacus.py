# /// script
# dependencies = ["opacus==1.6.0"]
# ///
"""Opacus: DP-SGD of a linear layer on Poisson batches of a tenth of the rows, 50 steps, clipped at √(d + 1).

The noise multiplier is that of its accountant for the steps. Its guarantee is for adding or removing a
row. Half of it would suffice for that. The league replaces rows, for which it is doubled.
"""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

FAMILIES = {"Opacus DP-SGD": ["linear", "logistic", "counts"]}
_STEPS, _SHARE = 50, 0.1
_LOSSES = {
    "linear": lambda u, y: ((u - y) ** 2 / 2).mean(),
    "logistic": functional.binary_cross_entropy_with_logits,
    "counts": lambda u, y: functional.poisson_nll_loss(u.clamp(max=20), y),
}


def dp_sgd(table, epsilon, delta, seed):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    n, d = table.X.shape
    rows = TensorDataset(*(torch.tensor(each, dtype=torch.float32) for each in (table.X, table.y)))
    model = torch.nn.Linear(d, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    multiplier = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=_SHARE, steps=_STEPS, accountant="rdp"
    )
    table.shows(multiplier, rate=_SHARE, times=_STEPS)
    model, optimizer, batches = PrivacyEngine(accountant="rdp").make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=2 / (d + 1)),
        data_loader=DataLoader(rows, batch_size=max(1, round(n * _SHARE))),
        noise_multiplier=2 * multiplier, max_grad_norm=float(np.sqrt(d + 1)),
    )  # fmt: skip
    steps = 0
    while steps < _STEPS:
        for X, y in batches:
            if steps == _STEPS:
                break
            optimizer.zero_grad()
            _LOSSES[table.family](model(X)[:, 0], y).backward()
            optimizer.step()
            steps += 1
    layer = model._module
    return np.append(layer.weight.detach().numpy()[0], layer.bias.detach().numpy())


METHODS = dict(zip(FAMILIES, (dp_sgd,), strict=True))
