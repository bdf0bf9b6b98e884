"""Private regression by whitening and clipped Newton steps: the estimator, file by file.

Read ``estimator`` for the loop, ``plan`` for what is released, and ``queries`` for all that reads a row.
"""

from dpalgos.central.preconditioned.estimator import PreconditionedGLM, PreconditionedRegression

__all__ = ["PreconditionedGLM", "PreconditionedRegression"]
