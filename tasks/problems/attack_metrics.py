"""Names of the metrics of attacks: areas under ROC curves, and rates along them."""

AUC, POOLED_AUC, SUM_RATIO, OUTSIDER_MEAN = "auc", "pooled_auc", "attack_sum_ratio", "outsider_mean"
L2_ERROR = "l2_error"
# The digits after the point of each false positive rate of a ROC curve: tpr_at_fpr_01 is at .01.
RATES = ("001", "002", "005", "01", "02", "05", "1", "2", "5")

_PREFIX = "tpr_at_fpr_"


def rate_metric(digits: str) -> str:
    """Return the name of the true positive rate at the false positive rate of these decimals."""
    return _PREFIX + digits


def rate_of(metric: str) -> float | None:
    """Return the false positive rate in the name of a metric; None if it is another metric."""
    return float("0." + metric.removeprefix(_PREFIX)) if metric.startswith(_PREFIX) else None
