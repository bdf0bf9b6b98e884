"""Measure in which estimators an audit detects halved noise, for the guide; ten minutes on one core."""

from __future__ import annotations

import csv
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

TABLE = Path(__file__).parents[1] / "measured" / "audit_power.csv"
COLUMNS = ("form", "research noise", "floating-point-safe noise")
TRIALS = {False: (200, 20_000), True: (100, 2_000)}  # of hardened noise or not; more where few find nothing
# Noise in a cube is made of Laplace noise.
SAMPLERS = ("gaussian_sampler", "laplace_sampler", "top_k_sampler")
CLAIM = {"epsilon": 0.5, "delta": 1e-5}


class HalvedNoise(BatchNoise):
    """Half of the noise that the events declare."""

    def _fresh(self, kind: str, count: int) -> FloatArray:
        return super()._fresh(kind, count) / 2


def audit_with_half(form: Estimator, n_trials: int, *, hardened: bool) -> AuditResult:
    """Audit a form of an estimator, all of whose noise is halved while its events stay."""
    asked: dict[str, Any] = {"n_trials": n_trials, "rng": np.random.default_rng(0)}
    with patch.object(lower_bound, "pairs", lambda *given: pairs(*given)[:1]):  # all have the same noise
        if not hardened:
            params = build_params(form, {**form.example, **CLAIM, "calibration": "tight"})
            return audit(form, params, noise=HalvedNoise, **asked)
        halved = {name: partial(_halved, getattr(hardened_noise, name)) for name in SAMPLERS}
        with patch.multiple(hardened_noise, **halved):
            return audit_estimator(form.name, hardened=True, **asked, **{**form.example, **CLAIM})


def _halved(sampler: Callable[..., Any], scale: float, *size: int, **named: int) -> Any:
    return sampler(scale / 2, *size, **named)


def table_rows() -> Iterator[tuple[str, str, str]]:
    for form in (form for each in catalog() for form in each.variants):
        if form.private and form.protected and "tight" in form.calibrations:
            yield form.label, _cell(form, hardened=False), _cell(form, hardened=True)


def _cell(form: Estimator, *, hardened: bool) -> str:
    for n_trials in TRIALS[hardened]:
        try:
            found = audit_with_half(form, n_trials, hardened=hardened)
        except InputError as error:
            return f"({'none' if 'no hardened' in str(error) else 'refused'})"
        more = f", {n_trials:,} runs" if n_trials > TRIALS[hardened][0] else ""
        if any(ratio < 1 for ratio in found.noise_ratios.values()):
            return f"ε = {found.noise_epsilon:.2f}{more}"
        if found.violated:
            return f"ε ≥ {found.epsilon_lower_bound:.2f}{more}"
    return "not found"


def main() -> None:
    rows = [COLUMNS]
    for row in table_rows():
        print(" | ".join(row), flush=True)
        rows.append(row)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
