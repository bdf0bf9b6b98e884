"""`estimate`: the function that runs every estimator."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Relation
from dpalgos.accounting.shared_budget import Budget
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.cautions import cautions
from dpalgos.coefficients import SEEDED
from dpalgos.core.record import Record
from dpalgos.core.spend import Spend
from dpalgos.errors import (
    AccuracyWarning,
    BrokenEstimator,
    InputError,
    PrivacyWarning,
    SeededNoiseWarning,
    warn,
)
from dpalgos.params import check_how_many
from dpalgos.release.noise_source import Noise, is_seeded
from dpalgos.result import AnswerFacts, Result
from dpalgos.rows.sample import Sample
from dpalgos.spelling import check_labels, check_same_order
from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dpalgos.core.estimator import AnyEstimator

_LARGEST_EPSILON = 20.0


def estimate(
    name: str,
    X: object,
    y: object = None,
    *,
    rng: np.random.Generator | None = None,
    replicates: int = 1,
    row_mask: object = None,
    user_ids: object = None,
    weights: object = None,
    budget: Budget | None = None,
    **keywords: Any,
) -> Result:
    """Run an estimator of the catalog.

    Parameters
    ----------
    name : str
        An estimator's name; see :func:`dpalgos.catalog`.
    X : (n, d) array_like, callable or Sample
        Rows of data, or a callable that returns an iterable of their blocks (with responses: of pairs). A
        :class:`Sample` (with its own y, mask and replicates) is not validated again.
    y : (n,) array_like, optional
        Responses; None for means.
    rng : numpy.random.Generator
        Required; there is no global random state. If it was made from a known seed, the result is not
        private, since its noise can be drawn again. ``np.random.default_rng()`` is private. With
        ``replicates=R > 1``, replicate r draws from ``rng.spawn(R)[r]``. A batch equals a loop over those
        generators.
    replicates : int
        R, the number of independent repetitions.
    row_mask : (n, R) bool array, optional
        The rows that each replicate uses; sensitivities use their number.
    user_ids : (n,) array_like, optional
        The user of every row, for estimators that protect users with all their rows: whole numbers, or text.
        Text ids that differ are two users, except Unicode forms of one text, such as the two µ.
    weights : (n,) array_like, optional
        The weight of every row, for estimators that take ``max_weight``. Weights are private.
    budget : Budget, optional
        Counts this estimate with others, and withholds an estimate that would exceed it. Estimates of one
        budget never share noise.
    **keywords
        ``epsilon``, ``delta`` and ``calibration`` (``"tight"`` or ``"paper"``) of private estimators, and
        ``interval`` (e.g. 0.95) if the estimator has intervals. Further keywords are public bounds and
        settings, as in the estimator's catalog entry. They are never read from X or y.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If an argument is wrong, or the budget would be exceeded; no value of the data is ever printed.

    Warns
    -----
    SeededNoiseWarning
        If the noise comes from a known seed.
    PrivacyWarning
        If ε is above 20, or δ is at least one over the number of rows (users): these guarantees protect
        nobody.
    AccuracyWarning
        If released numbers show that the estimate may be far off.
    """
    params = build_params(estimator := get_estimator(name), keywords)
    generators = replicate_generators(rng, replicates)
    others = {"row_mask": row_mask, "user_ids": user_ids, "weights": weights}
    if not isinstance(X, Sample):
        check_same_order(X=X, y=y, **others)
        check_labels(keywords, getattr(X, "columns", ()), "the columns of X")
    sample = _sample(X, y, replicates, **others)
    estimator = estimator.for_unit(people=sample.user_codes is not None)
    _check_sample(estimator, params, sample, has_ids=user_ids is not None)
    seeded = estimator.relation is not None and any(map(is_seeded, generators))
    counted = None if budget is None else _counted_in(budget, estimator, generators)
    spend = Spend(Noise(generators), sample.relation or estimator.relation or Relation.CENTRAL)
    counting = nullcontext() if counted is None else counted.counting(spend.record.events)
    with counting, np.errstate(all="ignore"):  # a warning of overflow would tell of a row
        released = run_estimator(estimator, sample, params, spend)
    proved = math.nan
    if estimator.relation is not None:
        proved = certified_epsilon(spend.record.events, getattr(params, "delta", math.nan))
    result = result_of(
        released, spend.record, estimator, params, sample, certified_epsilon=proved, seeded=seeded
    )
    _warn(estimator, sample, result)
    return result


def _sample(X: Any, y: Any, replicates: int, *, weights: Any, **others: Any) -> Sample:
    if not isinstance(X, Sample):
        return Sample(X, y, n_replicates=replicates, row_weights=weights, **others)
    if X.n_replicates != replicates or any(part is not None for part in (y, weights, *others.values())):
        raise InputError(
            "a Sample brings its own y, row_mask, user_ids, weights and replicates; "
            "pass the same replicates, no others"
        )
    return X


def _check_sample(estimator: Estimator, params: "AnyEstimator", sample: Sample, *, has_ids: bool) -> None:
    """Refuse parts of the data that an estimator does not take, and data of a single user."""
    name, relation = estimator.name, estimator.relation
    if has_ids and relation not in (None, Relation.USER):
        raise InputError(
            f"user_ids must be left out for {name}, whose unit of privacy is a "
            f"{estimator.unit_of_privacy}; choose a user-level estimator to protect whole users"
        )
    if sample.row_weights is not None and not hasattr(params, "max_weight"):
        raise InputError(f"weights must be left out for {name}, which does not take them")
    if estimator.task == "mean" and sample.responds:
        raise InputError(f"y must be None for {name}, which estimates a mean, got an array; leave it out")
    if relation is Relation.USER:
        check_number_of_users(estimator, int(sample.n_users.min()))


def _counted_in(budget: object, estimator: Estimator, generators: list[np.random.Generator]) -> Budget | None:
    """Return the budget that counts an estimate, and replace the generator by one of that estimate alone.

    An estimator that is not private costs nothing.
    """
    if not isinstance(budget, Budget):
        raise InputError(
            f"budget must be a dpalgos.Budget, got {type(budget).__name__}; leave it out or make one"
        )
    if estimator.relation is None:
        return None
    if len(generators) != 1:
        raise InputError(
            f"replicates must be 1 with a budget, got {len(generators)}: each would be another release"
        )
    generators[:] = [budget.own_generator(generators[0])]
    return budget


def result_of(
    released: FloatArray,
    record: Record,
    estimator: Estimator,
    params: "AnyEstimator",
    sample: Sample,
    *,
    certified_epsilon: float,
    seeded: bool = False,
) -> Result:
    """Return the result of a run; for one replicate, without the axis of replicates."""
    is_single, path, of_users = released.shape[-1] == 1, record.path, estimator.relation is Relation.USER
    relation = sample.relation or estimator.relation
    return Result(
        estimate=released[..., 0] if is_single else released,
        intervals=record.interval,
        path=path[..., 0] if path is not None and is_single else path,
        certified_epsilon=certified_epsilon,
        delta=getattr(params, "delta", math.nan),
        events=tuple(record.events),
        diagnostics=record.diagnostics,
        about=AnswerFacts(
            estimator=estimator.name,
            n=int((sample.n_users if of_users else sample.n_rows).min()),  # the minimum over replicates
            epsilon=getattr(params, "epsilon", math.nan),
            unit=relation.unit_of_privacy if relation else "",
            level=getattr(params, "interval", None),
            family=str(getattr(params, "family", "")),
            target=str(getattr(params, "interval_target", "")),
            has_intercept=bool(getattr(params, "intercept", False)),
            seeded=seeded,
            has_offset=getattr(params, "offset_bounds", None) is not None,
        ),
    )


def build_params(estimator: Estimator, keywords: dict[str, Any]) -> "AnyEstimator":
    """Check an estimator's keywords and return them as its parameter object."""
    if "interval" in keywords and not estimator.takes("interval"):
        raise InputError(
            f"interval must be left out for {estimator.name}, got {keywords['interval']!r}: "
            f"{estimator.no_interval or 'no interval is known for it'}"
        )
    params = estimator.parameters.build(estimator.name, keywords)
    calibration = getattr(params, "calibration", "")
    if estimator.relation is not None and calibration not in estimator.calibrations:
        allowed = " or ".join(repr(item) for item in estimator.calibrations)
        raise InputError(f"calibration of {estimator.name} must be {allowed}, got {calibration!r}")
    return params


def run_estimator(estimator: Estimator, sample: Sample, params: "AnyEstimator", spend: Spend) -> FloatArray:
    """Run an estimator and return its estimates (…, R); the rest is in the record of ``spend``."""
    if estimator.relation is None and sample.row_mask is None:  # all replicates are equal
        one = params.run(sample.derived(n_replicates=1), spend)
        return np.repeat(one, sample.n_replicates, axis=-1)
    of_means = estimator.relation is Relation.USER and estimator.averages_people
    with naming(estimator):
        return params.run(sample, spend, of_means=of_means)


@contextmanager
def naming(estimator: Estimator) -> Iterator[None]:
    """Add the estimator's name to the message of a rule that its code breaks."""
    try:
        yield
    except BrokenEstimator as error:
        raise BrokenEstimator(f"{estimator.name}: {error}") from None


def check_number_of_users(estimator: Estimator, n_users: int) -> None:
    """Refuse a single user."""
    if n_users < 2:
        raise InputError(
            f"user_ids must name at least two users for {estimator.name}, got one: its estimate is noise"
        )


def _warn(estimator: Estimator, sample: Sample, result: Result) -> None:
    """Warn of seeded noise, an ε or δ that protects nobody, few rows, and what released numbers show."""
    about, delta, d = result.about, result.delta, sample.n_features
    if about.seeded:
        warn(
            f"{SEEDED}. Anybody who knows the seed can subtract the noise; use seeds in studies and tests "
            "only. For a private result, leave random_state out, or pass rng=np.random.default_rng()",
            SeededNoiseWarning,
        )
    is_of_people = sample.user_codes is not None  # how many rows they have is private
    n = int((sample.n_users if is_of_people else sample.n_rows).min())
    if estimator.relation is not None:
        epsilon, people, unit = about.epsilon, about.n, about.unit
        if epsilon > _LARGEST_EPSILON:
            warn(
                f"epsilon = {epsilon:g} is above {_LARGEST_EPSILON:g}: an attacker may distinguish two "
                f"neighboring datasets with odds of e^{epsilon:g} to 1",
                PrivacyWarning,
            )
        if delta * people >= 1:
            warn(
                f"delta = {delta:g} is at least 1/{people}, one over the number of {unit}s: publishing one "
                f"{unit} drawn at random would satisfy it; choose e.g. delta = 1/{people}**2",
                PrivacyWarning,
            )
    dense = not {"sparsity", "l1_penalty"} & set(estimator.parameters.__dataclass_fields__)
    if estimator.task in ("linear_regression", "glm") and dense and n < d:
        warn(
            f"X has fewer {'users' if is_of_people else 'rows'} ({n}) than columns ({d}), and many "
            "coefficients fit equally well; use more rows, fewer columns or an estimator with sparsity",
            UserWarning,
        )
    hidden = None if result.hidden is None else ()  # with intervals, those who know the names warn
    for caution in cautions(result.diagnostics, hidden):
        warn(caution, AccuracyWarning)


def replicate_generators(rng: object, replicates: object) -> list[np.random.Generator]:
    """Return a generator for each replicate; refuse an invalid generator or number."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(
            f"rng must be a numpy.random.Generator, got {type(rng).__name__}; "
            "pass e.g. rng=np.random.default_rng()"
        )
    n_replicates = check_how_many("replicates", replicates)
    return [rng] if n_replicates == 1 else rng.spawn(n_replicates)
