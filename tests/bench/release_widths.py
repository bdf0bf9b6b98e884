"""Answers by their half-width: what is spent against the fixed ε that would have been enough, and coverage.

Rows are drawn with replacement from a table, whose own answer is the truth. For each run a budget ε is drawn,
and the wish is the median half-width (of the widest coordinate) of releases at that fixed ε.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from statsmodels.datasets import fair

import dpalgos
from dpalgos import Sample
from dpalgos.hardened_release import draw_release, plan_release
from dpalgos.until import draw_until, narrow_enough, plan_until
from tests.bench.goals import Goal, Measurement, at_most
from tests.bench_peers.tables import BenchTable

DELTA, LEVEL, MOST = 1e-8, 0.95, 4.0
_HOUSING = BenchTable(title="", study="housing", row_bound=3.0, response_bound=2.0, tasks=())
_ROW_BOUNDS = {"covariate_bound": 5.0, "response_bound": 3.0}
_CODEBOOK = {"age": (17.5, 42), "yrs_married": (0.5, 23), "children": (0, 5.5), "educ": (9, 20)}
_VISITS = BenchTable(title="", study="rand_visits", row_bound=4.0, tasks=())


def bench_release_widths(small: bool = False) -> Measurement:
    """Measure on three tables, means and regressions."""
    runs, n = (2, 500) if small else (50, 20_000)
    found = [_measured(*case, runs=runs, n=n) for case in _cases(small)]
    return Measurement(
        figure="; ".join(
            f"{each['case']}: spent {each['ratio']:.2f} × the ε needed ({each['low']:.2f} … "
            f"{each['high']:.2f}), coverage {100 * each['coverage']:.1f} ± {100 * each['error']:.1f} %"
            for each in found
        ),
        goals=[
            at_most(2.0, "×", "budget spent over the fixed ε needed", *(each["ratio"] for each in found)),
            Goal(
                what="coverage of the final intervals",
                values=[100 * each["coverage"] for each in found],
                wanted=94,
                unit="%",
            ),
        ],
        data="marriages (real)" if small else "housing, rand_visits and marriages (real)",
        details={"cases": found},
    )


def _cases(small: bool) -> list[tuple[Any, ...]]:
    """Return names of case and estimator, rows, responses, settings, truth, coordinate that counts."""
    own = fair.load_pandas().data[list(_CODEBOOK)].to_numpy()
    bounds = dict(zip(("lower", "upper"), zip(*_CODEBOOK.values(), strict=True), strict=True))
    cases: list[tuple[Any, ...]] = [("marriages, box_mean", "box_mean", own, None, bounds, own.mean(axis=0))]
    if small:
        return cases
    regressions = (
        ("housing", _HOUSING.load(), "bootstrap_regression", "ols", _ROW_BOUNDS, None, MOST),
        ("rand_visits", _VISITS.load(), "preconditioned_glm", "glm", {"family": "poisson"}, 3, 20.0),
    )
    for name, table, estimator, plain, settings, coordinate, most in regressions:
        X, y, columns = table["X"], table["y"], table["X"][:, :-1]
        box = {"lower": tuple(table["lower"]), "upper": tuple(table["upper"])}
        cases.append((f"{name}, box_mean", "box_mean", columns, None, box, columns.mean(axis=0)))
        truth = dpalgos.estimate(
            plain, X, y, rng=np.random.default_rng(0), **(settings if plain == "glm" else {})
        ).estimate
        cases.append((f"{name}, {estimator}", estimator, X, y, settings, truth, coordinate, most))
    return cases


def _measured(
    case: str,
    name: str,
    X: np.ndarray,
    y: np.ndarray | None,
    settings: dict[str, Any],
    truth: np.ndarray,
    first: int | None = None,
    most: float = MOST,
    *,
    runs: int,
    n: int,
) -> dict[str, Any]:
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    keywords = {**settings, "delta": DELTA, "interval": LEVEL}

    def rows() -> Sample:
        drawn = rng.integers(0, len(X), n)
        return Sample(X[drawn], None if y is None else y[drawn])

    wanted = list(range(X.shape[1])) if first is None else [first]

    def widest(interval: np.ndarray | None) -> float:
        return (
            np.inf
            if interval is None
            else float(np.max(np.nan_to_num(np.ptp(interval[:, wanted], axis=0) / 2, nan=np.inf)))
        )

    held: list[np.ndarray] = []

    def covers(interval: np.ndarray | None) -> np.ndarray:
        assert interval is not None
        return ((interval[0] <= truth) & (truth <= interval[1]))[wanted]

    def fixed(epsilon: float) -> float:
        plan = plan_release(name, n, X.shape[1], {**keywords, "epsilon": epsilon})
        found = [draw_release(plan, rows()).interval for _ in range(min(5, runs))]
        held.extend(covers(each) for each in found if np.isfinite(widest(each)))
        return float(np.median([widest(each) for each in found]))

    budgets = np.geomspace(most / 24, most / 1.3, 10)
    widths = np.array([fixed(epsilon) for epsilon in budgets])
    needed = [(e, w) for e, w in zip(budgets, widths, strict=True) if np.isfinite(w)]
    plan = plan_until(name, n, X.shape[1], keywords, max_epsilon=most)
    ratios, covered, attempts, missed = [], [], [], 0
    for run in range(runs if needed else 0):
        epsilon, wish = needed[run % len(needed)]
        number, reached, release = draw_until(
            plan, rows(), enough=_rule(wish, wanted), begin=lambda number: None
        )
        missed += not reached
        attempts.append(number)
        if reached:
            ratios.append(release.epsilon / epsilon)
            covered.append(covers(release.interval))
    by_run = np.mean(covered, axis=1) if covered else np.full(2, np.nan)
    low, high = np.quantile(ratios, (0.1, 0.9)) if ratios else (np.nan, np.nan)
    return {
        "case": case,
        "ratio": float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan"),
        "low": float(low),
        "high": float(high),
        "coverage": float(by_run.mean()),
        "error": float(by_run.std(ddof=1) / np.sqrt(len(by_run))) if len(by_run) > 1 else float("nan"),
        "fixed_coverage": float(np.mean(held)) if held else float("nan"),
        "reached": len(ratios),
        "runs": runs if needed else 0,
        "missed": missed,
        "attempts": len(plan.attempts),
        "refined": len(plan.refined),
        "widths": widths.tolist(),
    }


def _rule(wish: float, wanted: list[int]) -> Callable[..., bool]:
    return lambda release: narrow_enough(
        release.estimate, release.interval, half_width=wish, coordinates=wanted
    )
