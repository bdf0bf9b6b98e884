"""Private regression by whitening and clipped Newton steps: the estimator, file by file.

Read ``estimator`` for the loop, ``releases`` for what is released, and ``queries`` for all that reads a row.
"""

from dpalgos.central.preconditioned.estimator import preconditioned_glm, preconditioned_regression

__all__ = ["preconditioned_glm", "preconditioned_regression"]
