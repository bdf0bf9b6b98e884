"""Families of generalized linear models, found by name: adding one is adding one file.

A module ``dpalgos/models/families/NAME.py`` defines the family of that name as its ``FAMILY``.

>>> from dpalgos.models.families import get_family
>>> get_family("logistic").mean(np.zeros((1, 1)))
array([[0.5]])
"""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from dpalgos.errors import InputError, unknown_name
from dpalgos.models.families.base import Family
from dpalgos.params import PrivateParams, choice, count, positive
from dpalgos.rows.sample import Sample

__all__ = ["Family", "check_labels", "family_class", "family_names", "get_family"]


class HasFamily(Protocol):
    """Parameters of an estimator that name a family."""

    def made(self) -> Family: ...


def check_labels(sample: Sample, params: HasFamily) -> None:
    family = params.made()

    def check(part: Sample) -> None:
        for y in part.responses():
            family.encode(y)

    for _ in sample.partials(check):
        pass


@cache
def family_names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base"))


def family_class(name: object) -> type[Family]:
    if not isinstance(name, str) or name not in family_names():
        raise unknown_name("family", name, family_names())
    family: type[Family] = importlib.import_module(f"{__name__}.{name}").FAMILY
    return family


def get_family(
    name: str,
    *,
    response_bound: float | None = None,
    n_classes: int | None = None,
    private: bool = False,
) -> Family:
    """Return a family with its public constants, or refuse one that is missing or has no meaning for it.

    ``response_bound`` bounds the residual, for families that need it; None: not clipped, which a ``private``
    estimator cannot do. ``n_classes`` is public, never read from the labels.
    """
    family = family_class(name)
    constants = {
        "response_bound": (response_bound, family.needs_response_bound, private),
        "n_classes": (n_classes, family.needs_classes, True),
    }
    used = {}
    for keyword, (value, meant, required) in constants.items():
        if value is not None and not meant:
            raise InputError(
                f"{keyword} must be None for family={name!r}, which has none, got {value!r}; leave it out"
            )
        if value is None and meant and required:
            raise InputError(f"{keyword} is needed by family={name!r}, got None; pass e.g. {keyword}=3")
        if meant:
            used[keyword] = value
    return family(**used)


SPARSE_FAMILIES = tuple(name for name in family_names() if name != "multinomial")


@dataclass(frozen=True, kw_only=True)
class PrivateFamilyParams(PrivateParams):
    """Keywords of private generalized linear models whose residuals are clipped."""

    family: str = choice("distribution of the responses given their mean", ("gaussian", "logistic"))
    response_bound: float | None = positive(
        "residuals are clipped to ± this bound; for families of unbounded residuals", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made()

    def made(self) -> Family:
        return get_family(self.family, response_bound=self.response_bound, private=True)


@dataclass(frozen=True, kw_only=True)
class SparseFamilyParams(PrivateFamilyParams):
    """Keywords of private generalized linear models with few coefficients."""

    family: str = choice("distribution of the responses", SPARSE_FAMILIES)
    covariate_bound: float = positive("σ_x: entries of X are truncated to ± this bound")
    sparsity: int = count("s, number of coefficients that are selected")
