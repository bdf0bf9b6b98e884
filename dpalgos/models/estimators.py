"""Keywords that private estimators share: of generalized linear models, and the choice of the sparsity.

- ``None``: ``sparsity`` as given.
- ``"noise_level"``: those of ``sparsity`` released values that noise does not explain, at no cost.
- ``"printed_cross_validation"``: not private (:mod:`dpalgos.central.printed_cross_validation`).
"""

from dataclasses import dataclass

from dpalgos.core.estimator import PrivateEstimator
from dpalgos.errors import InputError
from dpalgos.models.families import Family, family_names, get_family
from dpalgos.params import choice, count, positive

SPARSE_FAMILIES = tuple(name for name in family_names() if name != "multinomial")


@dataclass(frozen=True, kw_only=True)
class FamilyEstimator(PrivateEstimator):
    """A private generalized linear model whose residuals are clipped."""

    family: str = choice("distribution of the responses given their mean", ("gaussian", "logistic"))
    response_bound: float | None = positive(
        "residuals are clipped to ± this bound; for families of unbounded residuals", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.family_object()

    def family_object(self) -> Family:
        return get_family(self.family, response_bound=self.response_bound, private=True)


@dataclass(frozen=True, kw_only=True)
class SparseFamilyEstimator(FamilyEstimator):
    """A private generalized linear model with few coefficients."""

    family: str = choice("distribution of the responses", SPARSE_FAMILIES)
    covariate_bound: float = positive("σ_x: entries of X are truncated to ± this bound")
    sparsity: int = count("s, number of coefficients that are selected")


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
