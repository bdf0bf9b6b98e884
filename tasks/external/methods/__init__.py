"""Files of methods: what each needs, which families it fits, and how it is called.

A file states ``REQUIRES`` (what pip installs into its environment; nothing: this project's own) and
``FAMILIES`` (by name of a method, of "linear", "logistic", "counts" and "means"), as literals, and
``METHODS``: functions of a table, ε, δ and a seed that return coefficients in the table's units, the constant
last.

``tasks/external/worker.py`` says what a table has: rows and public bounds, ``products`` and ``solved`` for
libraries that sum, ``regression`` for those that make synthetic rows, and ``shows`` for noise that can be
replayed.
"""
