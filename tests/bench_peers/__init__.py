"""This project's estimators against other libraries as shipped. Run with ``make bench-peers``."""
