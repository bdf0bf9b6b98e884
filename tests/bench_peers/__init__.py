"""Ours beside the libraries a user would pick instead, as they are shipped. Run with ``make bench-peers``."""
