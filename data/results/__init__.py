"""The results of a study: their table, its summary, the comparison of two runs, and what papers print."""
