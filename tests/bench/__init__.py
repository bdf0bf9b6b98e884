"""Benchmarks: ratios within one run, since machines are noisy. Run with ``make bench``."""
