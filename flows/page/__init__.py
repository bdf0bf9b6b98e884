"""A local page on which a statistician declares a table, foresees a release, and makes it.

The page writes the study file and the plan that the command line reads, and uses the same functions.
"""
