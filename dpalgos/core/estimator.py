"""The class of private estimators: keywords, plan and fit, from which all else follows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpalgos.accounting.events import Event
from dpalgos.core.rows import Rows
from dpalgos.core.slots import Cube, Laplace, Plan, planned_events, quantity
from dpalgos.core.spend import Spend
from dpalgos.params import PrivateParams
from dpalgos.release.declared import Lemma, Witness
from dpalgos.typing import FloatArray

Lemmas = Mapping[str, Lemma[...] | tuple[Lemma[...], ...]]
Witnesses = Mapping[str, Witness]


@dataclass(frozen=True, kw_only=True)
class PrivateEstimator(PrivateParams, ABC):
    """A private estimator: a frozen dataclass whose fields are its keywords.

    A subclass declares its keywords with the helpers of :mod:`dpalgos.params`, and is registered with
    :func:`dpalgos.catalog.register`. Events, the certified ε and the cost of a release follow from its plan,
    before any row is read.

    Attributes
    ----------
    lemmas : mapping of str to Lemma or tuple of Lemma
        Label → the function that bounds how far one row moves the release, or several where settings decide:
        that of pure noise is the last one.
        :class:`dpalgos.core.spend.Spend` refuses a sensitivity of another function.
    witnesses : mapping of str to callable
        Label → ``(estimator, d) -> (X, y, X', y')``, neighbors that attain the sensitivity, if no pair of
        :func:`dpalgos.release.declared.shared_pairs` does.
    batch : bool
        Whether ``fit`` serves several replicates at once (:mod:`dpalgos.core.rows`): no released number
        decides a step. Otherwise replicates run one by one.
    batch_of_same_rows : bool
        Whether the replicates of a batch must have the same rows, as reports of people have. Replicates with
        different rows then run one by one.
    of_users : bool
        Whether ``n`` is the number of users, whose rows ``fit`` itself puts together.
    weighs_people : bool
        Whether the rows of a person with several rows have equal weights, which sum to 1, in all sums.
    """

    lemmas: ClassVar[Lemmas]
    witnesses: ClassVar[Witnesses] = {}
    batch: ClassVar[bool] = False
    batch_of_same_rows: ClassVar[bool] = False
    of_users: ClassVar[bool] = False
    weighs_people: ClassVar[bool] = False

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


def declared_lemmas(estimator: Any) -> dict[str, tuple[Lemma[...], ...]]:
    """Return the lemmas of each label of an estimator, or of its class."""
    return {
        label: lemma if isinstance(lemma, tuple) else (lemma,) for label, lemma in estimator.lemmas.items()
    }
