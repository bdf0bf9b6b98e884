"""The keywords that noisy gradient descent and noisy hard thresholding of linear models share."""

from dataclasses import dataclass

from dpalgos.params import PrivateParams, positive
from dpalgos.tuning.truncation import check_response_truncation, share, truncation_choice


@dataclass(frozen=True, kw_only=True)
class LinearRegressionParams(PrivateParams):
    """Bounds on responses, residuals and iterates."""

    response_bound: float = positive("R: responses are truncated to ±R")
    coef_bound: float = positive("C: iterates are projected onto the ℓ2 ball of this radius")
    truncation: str = truncation_choice()
    truncation_share: float = share("quantiles of the responses", default=0.05)
    residual_bound: float | None = positive(
        "clip residuals to ± this bound (residual-clipped form)", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_response_truncation(self.truncation, self.calibration, self.residual_bound)
