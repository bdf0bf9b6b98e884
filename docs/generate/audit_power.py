"""Write the guide's table of where audits find halved noise: ``python -m docs.generate.audit_power``."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dpalgos import InputError, catalog
from dpalgos.api import build_params
from dpalgos.audit import lower_bound
from dpalgos.audit.lower_bound import AuditResult, audit, audit_estimator
from dpalgos.audit.trials import BatchNoise, pairs
from dpalgos.catalog import Estimator
from dpalgos.release import hardened_noise
from dpalgos.typing import FloatArray

GUIDE = Path(__file__).parents[1] / "guide" / "audits.md"
START, END = "<!-- power: start -->\n", "<!-- power: end -->\n"
TRIALS, HARDENED_TRIALS = 1000, 100
SAMPLERS = ("gaussian_sampler", "laplace_sampler", "box_sampler", "top_k_sampler")
CLAIM = {"epsilon": 0.5, "delta": 1e-5}


class HalvedNoise(BatchNoise):
    """Half of the noise that the events declare."""

    def _fresh(self, kind: str, count: int) -> FloatArray:
        return super()._fresh(kind, count) / 2


def audit_with_half(form: Estimator, *, hardened: bool = False) -> AuditResult:
    """Audit a form of an estimator, all of whose noise is halved while its events stay."""
    rng = np.random.default_rng(0)
    if not hardened:
        keywords = {**form.example, **CLAIM, "calibration": "tight"}
        params = build_params(form, keywords)
        return audit(form, params, n_trials=TRIALS, rng=rng, noise=HalvedNoise)
    kept = {name: getattr(hardened_noise, name) for name in SAMPLERS}
    halved = {name: partial(_halved, sampler) for name, sampler in kept.items()}
    example = {**form.example, **CLAIM}
    first = patch.object(lower_bound, "pairs", lambda *given: pairs(*given)[:1])  # all have the same noise
    with first, patch.multiple(hardened_noise, **halved):
        return audit_estimator(form.name, rng=rng, n_trials=HARDENED_TRIALS, hardened=True, **example)


def _halved(sampler: Callable[..., Any], scale: float, *size: int, **named: int) -> Any:
    return sampler(scale / 2, *size, **named)


def rows() -> Iterator[str]:
    for form in (form for each in catalog() for form in each.variants):
        if not form.private or "tight" not in form.calibrations:
            continue
        cells = []
        for hardened in (False, True):
            try:
                found = audit_with_half(form, hardened=hardened)
                cells.append(_cell(found))
            except InputError:
                cells.append("has none")
        row = f"| {form.label} | {cells[0]} | {cells[1]} |"
        print(row, flush=True)
        yield row


def _cell(found: AuditResult) -> str:
    if any(ratio < 1 for ratio in found.noise_ratios.values()):
        return f"found: ε = {found.noise_epsilon:.2f}"
    return f"found: ε ≥ {found.epsilon_lower_bound:.2f}" if found.violated else "not found"


def main() -> None:
    text = GUIDE.read_text()
    head, rest = text.split(START)
    table = ["| form | research noise | hardened noise |", "|---|---|---|", *rows()]
    GUIDE.write_text(head + START + "\n".join(table) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
