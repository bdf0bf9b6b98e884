"""Private estimators of generalized linear models."""

from dataclasses import dataclass

from dpalgos.core.estimator import PrivateEstimator
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
