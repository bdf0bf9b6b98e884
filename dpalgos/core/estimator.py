"""The class of estimators: keywords, plan and fit, from which all else follows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.accounting.other_events import Cube, Laplace
from dpalgos.core.plans import Plan, planned_events, quantity
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import BrokenEstimator, InputError, unknown_name
from dpalgos.mechanisms.sensitivity import Lemma, Lemmas, Release, Witness
from dpalgos.params import choice, interval_level
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

Witnesses = Mapping[str, Witness]


@dataclass(frozen=True, kw_only=True)
class AnyEstimator(ABC):
    """An estimator: a frozen dataclass whose fields are its keywords.

    A subclass declares its keywords with the helpers of :mod:`dpalgos.params`, and is registered with
    :func:`dpalgos.catalog.register`. Each keyword is checked once, on construction.

    Attributes
    ----------
    batch : bool
        Whether ``fit`` serves several replicates at once (:mod:`dpalgos.core.rows`): no released number
        decides a step. Otherwise replicates run one by one.
    batch_of_same_rows : bool
        Whether the replicates of a batch must have the same rows, as reports of people have. Replicates with
        different rows then run one by one.
    weighs_people : bool
        Whether the rows of a person with several rows have equal weights, which sum to 1, in all sums.
    by_forecast : tuple of str
        The keywords that a public rule can choose, in studies with "by forecast".
    """

    lemmas: ClassVar[Lemmas] = {}
    witnesses: ClassVar[Witnesses] = {}
    batch: ClassVar[bool] = False
    batch_of_same_rows: ClassVar[bool] = False
    weighs_people: ClassVar[bool] = False
    by_forecast: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            check = item.metadata.get("check")
            if check is not None:
                object.__setattr__(self, item.name, check(item.name, getattr(self, item.name)))

    @classmethod
    def build(cls, name: str, keywords: Mapping[str, Any]) -> Self:
        """Construct from keywords; unknown and missing ones are refused by name."""
        known = {item.name: item for item in fields(cls)}
        for keyword in keywords:
            if keyword not in known:
                raise InputError(f"{name}: {unknown_name('keyword', keyword, list(known) or ['(none)'])}")
        for keyword, item in known.items():
            if keyword not in keywords and item.default is MISSING:
                raise InputError(f"{name} needs the keyword {keyword} ({item.metadata['doc']}), got none")
        return cls(**keywords)

    @classmethod
    def releases(cls) -> tuple[Release, ...]:
        """Return each label with its lemma, once for each of several lemmas, and its witness."""
        return tuple(
            Release(label, lemma, cls.witnesses.get(label))
            for label, lemmas in declared_lemmas(cls).items()
            for lemma in lemmas
        )

    @property
    def in_memory(self) -> bool:
        """Whether ``fit`` needs all rows in memory, at these keywords."""
        return False

    @abstractmethod
    def plan(self, n: float, d: int) -> Plan:
        """Return the slot of each label, in the order of the releases.

        Parameters
        ----------
        n : float
            The public number of rows, or of people if they are protected.
        d : int
            The number of columns.

        Raises
        ------
        InputError
            If the keywords do not suit n and d. A refusal in ``fit`` would come after the charge.
        """

    @abstractmethod
    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        """Return the estimate (d,); each number that it takes from rows passes through ``spend``."""

    def with_units(self, sample: Sample) -> Sample:
        """Return a sample whose rows have the weights that protect people; replicates have the same rows."""
        return sample.in_units() if self.weighs_people else sample

    def is_batch(self, sample: Sample) -> bool:
        """Return whether the replicates of a sample run at once: their plans must be the same, too."""
        has_same_rows = sample.row_mask is None or not self.batch_of_same_rows
        return self.batch and sample.has_one_size and has_same_rows

    def run(self, sample: Sample, spend: Spend, *, of_means: bool = False) -> FloatArray:
        """Return the estimates (…, R) on the rows of a sample, or on the means of its users' rows.

        Replicates that do not run at once have their own rows and noise. Their releases and intervals are
        joined in the record.
        """
        n_replicates = sample.n_replicates
        if n_replicates > 1 and (of_means or not self.is_batch(sample)):
            parts = [spend.for_replicate(r) for r in range(n_replicates)]
            samples = map(sample.for_replicate, range(n_replicates))
            each = [self.run(own, part, of_means=of_means) for own, part in zip(samples, parts, strict=True)]
            spend.join(parts)
            return np.concatenate(each, axis=-1)
        is_batch = n_replicates > 1
        sample = sample if is_batch else sample.for_replicate(0)
        sample = sample.means_of_users() if of_means else self.with_units(sample)
        rows = Rows.of_sample(sample, is_batch=is_batch)
        spend.start(checked_plan(self.plan(rows.n, rows.d)), self.lemmas, is_batch=is_batch)
        estimate = self.fit(rows, spend)
        spend.check_complete()
        if not isinstance(estimate, np.ndarray | np.generic):
            raise BrokenEstimator(
                f"fit must return an array, got {type(estimate).__name__}; return e.g. spend(…).value"
            )
        if not is_batch:
            return np.asarray(estimate[..., None])
        return np.moveaxis(np.broadcast_to(estimate, (n_replicates, *estimate.shape[1:])), 0, -1)

    def largest_release(self, d: int) -> int:
        """Return an upper bound on the entries of a release: those of the second moments of d + 1 columns."""
        return (d + 1) * (d + 2) // 2

    def events(self, n: float, d: int) -> list[Event]:
        """Return the events of a run, one for each release, at a sensitivity of 1."""
        return planned_events(self.plan(n, d))

    def formulas(self, n: float, d: int) -> dict[str, str]:
        """Return the formula of the sensitivity of each label, for the noise of its slot."""
        slots = {quantity(label): slot for label, slot in self.plan(n, d).items()}
        pure = {label for label, slot in slots.items() if isinstance(slot, Laplace | Cube)}
        return {
            label: lemmas[-1 if label in pure else 0].formula
            for label, lemmas in declared_lemmas(self).items()
        }


def checked_plan(plan: object) -> Plan:
    """Return a plan; refuse what is none."""
    if not isinstance(plan, Mapping) or not all(isinstance(each, Event) for each in plan.values()):
        content = (
            {name: type(each).__name__ for name, each in plan.items()} if isinstance(plan, Mapping) else plan
        )
        raise BrokenEstimator(
            f"plan must return a slot by label, got {content}; return e.g. gaussian_plan(self.epsilon, "
            "self.delta, {label: Share(1.0)})"
        )
    return plan


@dataclass(frozen=True, kw_only=True)
class PublicEstimator(AnyEstimator):
    """An estimator that is not private: it plans no release, so it can make none."""

    def plan(self, n: float, d: int) -> Plan:
        return {}


@dataclass(frozen=True, kw_only=True)
class PrivateEstimator(AnyEstimator):
    """A private estimator, whose events, certified ε and cost follow from its plan, before any row is read.

    Attributes
    ----------
    lemmas : mapping of str to Lemma or tuple of Lemma
        Label → the function that bounds how far one row moves the release, or several where settings decide:
        that of pure noise is the last one.
        :class:`dpalgos.core.spend.Spend` refuses a sensitivity of another function.
    witnesses : mapping of str to callable
        Label → ``(estimator, d) -> (X, y, X', y')``, neighbors that attain the sensitivity, if no pair of
        :func:`dpalgos.mechanisms.witnesses.shared_pairs` does.
    """

    epsilon: float = field(metadata={"doc": "requested ε, positive and finite"})
    delta: float = field(metadata={"doc": "requested δ, in (0, 1)"})
    calibration: str = choice(
        "'tight': the smallest noise for which the accountant certifies ε; 'paper': as in the paper",
        ("tight", "paper"),
        default="tight",
    )

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class IntervalEstimator(PrivateEstimator):
    """A private estimator that has intervals."""

    interval: float | None = interval_level()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval is not None and self.calibration == "paper":
            raise InputError(
                "interval must be left out for calibration='paper', which prints none, got "
                f"{self.interval!r}; use calibration='tight'"
            )
        if self.interval is not None and getattr(self, "shrinkage", None) is not None:
            raise InputError(
                f"interval must be left out for a shrunk answer, whose bias is not known, got "
                f"{self.interval!r}; leave out one of interval and shrinkage"
            )


def declared_lemmas(estimator: Any) -> dict[str, tuple[Lemma[...], ...]]:
    """Return the lemmas of each label of an estimator, or of its class."""
    return {
        label: lemma if isinstance(lemma, tuple) else (lemma,) for label, lemma in estimator.lemmas.items()
    }
