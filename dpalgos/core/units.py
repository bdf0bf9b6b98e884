"""Estimators that protect people with all their rows, and take weights (:mod:`dpalgos.rows.units`)."""

from dataclasses import dataclass

from dpalgos.core.estimator import AnyEstimator
from dpalgos.errors import InputError, shown
from dpalgos.params import choice, count, positive
from dpalgos.rows.sample import Sample

EQUAL, BY_ROWS = "equal", "rows"


@dataclass(frozen=True, kw_only=True)
class UnitEstimator(AnyEstimator):
    """An estimator that protects people and takes weights."""

    person_weight: str = choice(
        "with user_ids: 'equal', each person counts once; 'rows', each row counts once, up to max_rows",
        (EQUAL, BY_ROWS),
        default=EQUAL,
    )
    max_rows: int | None = count(
        "with person_weight='rows': the public number of rows a person that count", default=None
    )
    max_weight: float | None = positive(
        "with weights: their public maximum, to which larger ones are clipped", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.person_weight == BY_ROWS) != (self.max_rows is not None):
            raise InputError(
                f"max_rows must be a number exactly if person_weight='rows', got {shown(self.max_rows)} with "
                f"person_weight={self.person_weight!r}; set both or none"
            )

    @property
    def has_private_total(self) -> bool:
        """Whether the sum of all weights is private."""
        return self.largest_change > 0

    @property
    def largest_change(self) -> float:
        """The maximum difference of two units' weights: at least one row of a person counts."""
        return 1.0 if self.max_weight is not None else 1 - 1 / (self.max_rows or 1)

    def check_units(self, sample: Sample) -> None:
        """Refuse a sample without the weights or user ids that the keywords need."""
        weights_given = sample.row_weights is not None
        if (self.max_weight is not None) != weights_given:
            raise InputError(
                "weights and max_weight, the public maximum of weights, must be given together; "
                f"got max_weight={self.max_weight!r} and {'' if weights_given else 'no '}weights"
            )
        if sample.user_codes is None and self.max_rows is not None:
            raise InputError("person_weight='rows' needs user_ids, got none; pass the person of every row")

    def with_units(self, sample: Sample) -> Sample:
        """Return a sample of one replicate whose rows know their unit and their weight, if there are any."""
        self.check_units(sample)
        return sample.in_units(self.max_rows, self.max_weight)
