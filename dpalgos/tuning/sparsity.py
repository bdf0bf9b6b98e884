"""The choice of the sparsity: keywords of sparse estimators.

- ``None``: ``sparsity`` as given.
- ``"noise_level"``: those of ``sparsity`` released values that noise does not explain, at no cost.
- ``"printed_cross_validation"``: not private (:mod:`dpalgos.central.printed_cross_validation`).
"""

from dataclasses import dataclass

from dpalgos.core.estimator import PrivateEstimator
from dpalgos.errors import InputError
from dpalgos.params import choice, count


@dataclass(frozen=True, kw_only=True)
class SparsityEstimator(PrivateEstimator):
    """Keywords of estimators whose sparsity can be chosen."""

    sparsity: int = count("s, number of non-zero coefficients; with a choice, the maximum")
    sparsity_choice: str | None = choice(
        "None: sparsity as given; 'noise_level': drop values that noise alone explains, at no cost; "
        "'printed_cross_validation': not private (calibration='paper' only)",
        (None, "noise_level", "printed_cross_validation"),
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_cross_validated and self.calibration != "paper":
            raise InputError(
                f"sparsity_choice must not be {self.sparsity_choice!r} for "
                f"calibration={self.calibration!r}; use calibration='paper'"
            )

    @property
    def is_cross_validated(self) -> bool:
        return self.sparsity_choice == "printed_cross_validation"
