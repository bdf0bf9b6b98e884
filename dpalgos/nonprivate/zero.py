"""The vector of zeros, which reads no data: the floor that a useful estimate must beat."""

from dataclasses import dataclass

from dpalgos.catalog import register
from dpalgos.core.estimator import PublicEstimator
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.typing import FloatArray


@register(
    name="zero",
    title="Zero vector",
    order=0,
    task="any",
    relation=None,
    reference="the trivial estimate",
    summary="The vector of zeros: the floor that a useful estimate must beat.",
)
@dataclass(frozen=True, kw_only=True)
class Zero(PublicEstimator):
    """The vector of zeros."""

    batch = True

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        return rows.zeros(rows.d)
