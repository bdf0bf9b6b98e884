"""Pages of the modules that a privacy reviewer or the author of a plugin reads, from their docstrings."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from generate.catalog_pages import heading

PACKAGES = {
    "accounting": "Accounting: from events to the certified ε",
    "release": "Releases: transcript and noise",
    "mechanisms": "Mechanisms: building blocks that release",
    "steps": "Steps: computations that release nothing",
    "rows": "Rows: samples, streams, users",
    "audit": "Audits: lower bounds on ε",
    "theory": "Rates of the theory",
}


def pages() -> dict[str, str]:
    """Return a page for each part of ``dpalgos`` that has no estimators."""
    return {f"api/modules/{package}.rst": _page(package, title) for package, title in PACKAGES.items()}


def _page(package: str, title: str) -> str:
    parts = [heading(title)]
    whole = import_module(f"dpalgos.{package}")
    within = [f".{each.name}" for each in iter_modules(getattr(whole, "__path__", ()))]
    for name in within or [""]:
        module = import_module(f"{whole.__name__}{name}")
        names = _public_names(module)
        parts += [
            heading(f"``{module.__name__}``", "-"),
            f".. automodule:: {module.__name__}",
            f"   :members: {', '.join(names)}" if names else "",
            "",
        ]
    return "\n".join(parts)


def _public_names(module: ModuleType) -> list[str]:
    """Return the documented functions and classes that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and value.__doc__
    ]
