"""The league: everybody's private regressions on public tables, each method in an environment of its own.

A method is a file in ``methods``, a table an entry of ``tables.toml``.
"""
