"""Times to an event: persons by period (``periods``), and curves from what was released (``curves``).

The releases are ``cumulative_counts`` in :mod:`dpalgos.central`, and a Poisson regression of person-periods.
``Surv(time, event)`` in a formula is read in :mod:`dpalgos.formula`.
"""
