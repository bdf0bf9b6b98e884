"""The neighboring relation and the unit of privacy, as types."""

from enum import Enum


class Relation(Enum):
    """A neighboring relation; guarantees under different ones do not compose.

    Attributes
    ----------
    CENTRAL
        Data sets of the same size that differ in one row, replaced.
    LOCAL
        A single person's report: any input against any other.
    USER
        Data sets with the same users that differ in all samples of one user, replaced.
    """

    CENTRAL = ("central", "row", "replace-one")
    LOCAL = ("local", "report", "replace-one")
    USER = ("user", "user", "replace-one")

    @property
    def model(self) -> str:
        """The privacy model, as results tables name it."""
        return self.value[0]

    @property
    def unit_of_privacy(self) -> str:
        """What a neighbor differs in."""
        return self.value[1]

    @property
    def neighboring_relation(self) -> str:
        """How neighboring datasets differ in it."""
        return self.value[2]
