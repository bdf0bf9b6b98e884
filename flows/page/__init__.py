"""A local page on which a statistician declares a table, forecasts intervals and releases.

The page writes the study file and the plan that the command line reads, and uses the same functions.
"""
