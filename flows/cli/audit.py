"""``dpcost audit``: attacks on estimators of the catalog and on other mechanisms."""

import importlib
import inspect
import itertools
import os
import sys
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.options import AsJson, Epsilon, Plugins, argument, flag, option, show, use_plugins
from tasks import SpecError
from tasks.run_options import MAX_TRIALS

if TYPE_CHECKING:
    from dpalgos.audit.attack import AuditResult

_TRIALS, _FOREIGN_TRIALS = 100_000, 10_000  # the second run one after the other, on a dozen pairs of tables
_HARDENED_TRIALS = 2000  # one after the other, too
_TABLE: Any = {"n_rows": 10, "n_columns": 2, "bound": 1.0}  # of --callable
_MUS = 1e-6, 1e3


def audit(
    estimator: Annotated[
        str | None, argument("ESTIMATOR", "Private estimator; see dpcost estimators.")
    ] = None,
    trials: Annotated[
        int | None,
        option(
            "INTEGER",
            "Runs per dataset; default: 100,000, with --callable 10,000, with --hardened 2,000.",
            min=1000,
            max=MAX_TRIALS,
        ),
    ] = None,
    epsilon: Epsilon = 0.5,
    delta: Annotated[float, option("NUMBER", "δ, below 1; with --callable also 0, for pure ε.")] = 1e-5,
    seed: Annotated[int, option("INTEGER", "Random seed of the trials.", min=0)] = 0,
    param: Annotated[
        list[str] | None, option("NAME=VALUE", "Setting of the estimator, e.g. intercept=true. Repeatable.")
    ] = None,
    hardened: Annotated[
        bool, flag("--hardened", "Attack the floating-point-safe noise of releases.")
    ] = False,
    people: Annotated[bool, flag("--people", "Attack one person with all their rows.")] = False,
    foreign: Annotated[
        str | None, option("MODULE:FUNCTION", "Function of a table and a seed, to attack.", "--callable")
    ] = None,
    mu: Annotated[
        float | None, option("NUMBER", "Claimed μ of Gaussian DP, for --callable; replaces --epsilon.")
    ] = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Attack an estimator: print an empirical lower bound on ε next to the certified ε.

    With --callable, attack any other mechanism and compare with the ε and δ that it claims.
    """
    use_plugins(plugins or [])
    if (estimator is None) == (foreign is None):
        raise SpecError("audit needs either an estimator or --callable MODULE:FUNCTION")
    if estimator and mu is not None:
        raise SpecError("--mu does not apply to an audit of an estimator; leave it out")
    if foreign and (param or hardened or people):
        raise SpecError("--param, --hardened and --people are for estimators, got --callable; leave them out")
    budget = {"epsilon": epsilon, "delta": delta}
    if estimator:
        n_trials = trials or (_HARDENED_TRIALS if hardened else _TRIALS)
        options = {**budget, "n_trials": n_trials, "hardened": hardened, "people": people}
        results = _audit_estimator(estimator, _settings(param or []), seed, **options)
        plain: Any = [result.to_dict() for _, result in results]
        lines = [
            f"{estimator} {'hardened' if hardened else calibration}: audited ε ≥ "
            f"{result.epsilon_lower_bound:.4f}, certified ε ≤ {result.certified_epsilon:.4f} at "
            f"δ = {delta:g}, {n_trials:,} trials: {result.verdict}{result.remark}"
            for calibration, result in results
        ]
        is_violated = any(result.violated for _, result in results)
    else:
        claim = budget if mu is None else {"mu": mu, "epsilon": _epsilon_of(mu, delta), "delta": delta}
        verdict = _audit_foreign(str(foreign), seed=seed, n_trials=trials or _FOREIGN_TRIALS, **claim)
        plain, is_violated = verdict.to_dict(), verdict.violated
        of_mu = "" if mu is None else f"μ ≥ {verdict.mu_lower_bound:.4f}, claimed μ = {mu:g}, "
        lines = [
            f"{foreign}: audited ε ≥ {verdict.epsilon_lower_bound:.4f}, claimed ε = {verdict.epsilon:g} at "
            f"δ = {delta:g}, {of_mu}{verdict.n_trials:,} trials, by "
            f"{verdict.distinguisher} ({verdict.pair}): {verdict.verdict}"
        ]
    show(plain, lines, as_json)
    if is_violated:
        raise typer.Exit(1)


def _epsilon_of(mu: float, delta: float) -> float:
    """Return the ε at δ that μ-Gaussian DP implies."""
    from dpalgos.accounting.gaussian_dp import DELTAS, gaussian_epsilon

    is_valid = _MUS[0] <= mu <= _MUS[1] and DELTAS[0] <= delta <= DELTAS[1]
    if not is_valid or not (epsilon := gaussian_epsilon(delta, mu)):
        raise SpecError(
            f"--mu must lie between {_MUS[0]:g} and {_MUS[1]:g}, --delta between {DELTAS[0]:g} and "
            f"{DELTAS[1]:g}, got {mu:g} and {delta:g}; together they must prove an ε above 0"
        )
    return epsilon


def _settings(options: list[str]) -> dict[str, Any]:
    """Return settings NAME=VALUE with values as in a release file, or as text."""
    from dpalgos.audit.lower_bound import audit_estimator
    from dpalgos.params import check_settings

    settings: dict[str, Any] = {}
    for each in options:
        name, equals, value = each.partition("=")
        if not name.isidentifier() or not equals or name in settings:
            raise SpecError(
                f"--param must be NAME=VALUE, each name once, got {each!r}; pass e.g. intercept=true"
            )
        try:
            settings[name] = value if "\n" in value else tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name] = value
    check_settings("--param", settings, "use the options of this command")
    if others := settings.keys() & inspect.signature(audit_estimator).parameters:
        raise SpecError(f"--param must be a keyword of the estimator, got {min(others)!r}; leave it out")
    return settings


def _audit_estimator(
    name: str, settings: dict[str, Any], seed: int, **options: Any
) -> "list[tuple[str, AuditResult]]":
    """Audit each calibration of an estimator; only the tight one with settings or safe noise."""
    import numpy as np

    from dpalgos import get_estimator
    from dpalgos.audit.lower_bound import audit_estimator
    from flows.progress import counter

    chosen = get_estimator(name)
    is_tight = settings or options["hardened"] or not chosen.calibrations
    if "interval" in settings and "interval" in chosen.forms:
        settings = {**chosen.forms["interval"].keywords, **settings}
    results = []
    for calibration in ("tight",) if is_tight else chosen.calibrations:
        progress = counter(f"auditing {name} {calibration}", "runs")
        about: Any = {"calibration": calibration, "rng": np.random.default_rng(seed), "progress": progress}
        results.append((calibration, audit_estimator(name, **about, **settings, **options)))
    return results


def _audit_foreign(name: str, **options: Any) -> "AuditResult":
    from dpalgos.audit.foreign import audit_callable, table_pairs
    from flows.progress import counter

    mechanism, progress, runs = _imported(name), counter(f"auditing {name}", "runs"), itertools.count(1)

    def counted(rows: Any, seed: int) -> Any:
        progress(next(runs))
        return mechanism(rows, seed)

    return audit_callable(counted, pairs=table_pairs(**_TABLE), **options)


def _imported(name: str) -> Callable[..., Any]:
    """Import a function by MODULE:FUNCTION, from the current folder or an installed package."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise SpecError(f"--callable must be MODULE:FUNCTION, got {name!r}; pass e.g. my_file:mechanism")
    sys.path.insert(0, os.getcwd())
    try:
        mechanism = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever another's module raises
        raise SpecError(f"{name} cannot be imported: {type(error).__name__}: {error}; correct it") from None
    finally:
        sys.path.pop(0)
    if not callable(mechanism):
        raise SpecError(f"{name} must be a function of a table and a seed, got a {type(mechanism).__name__}")
    return mechanism  # type: ignore[no-any-return]
