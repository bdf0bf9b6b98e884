"""Files of methods: what each needs, which families it fits, and how it is called.

A file states three names, the first two as literals. ``REQUIRES`` lists what pip installs into its
environment; if empty, this project's own is used. ``FAMILIES`` maps the name of a method to "linear",
"logistic", "counts" or "means". ``METHODS`` are functions of a table, ε, δ and a seed. They return
coefficients in the table's units, the intercept last.

``tasks/external/worker.py`` documents a table. It has rows and public bounds, ``products`` and ``solved`` for
libraries that sum, and ``regression`` for those that make synthetic rows. ``shows`` is for noise that can be
replayed.
"""
