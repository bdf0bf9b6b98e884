"""Plugins: modules that are found by lying in a folder. A broken one is left out and named."""

import importlib
import logging
import pkgutil
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """A plugin is wrong; the message lists all of its faults."""


@dataclass(frozen=True)
class Plugins:
    """The modules of a package that could be imported, by name; file and reason of each ``broken`` one."""

    modules: Mapping[str, ModuleType]
    broken: Mapping[str, str]


@cache
def load_plugins(package: str) -> Plugins:
    """Import the modules of a package; log a warning for each that cannot be imported, and go on."""
    modules, broken = {}, {}
    for name in sorted(
        module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ):
        try:
            modules[name] = importlib.import_module(f"{package}.{name}")
        except Exception as error:
            broken[name] = left_out(f"{package.replace('.', '/')}/{name}.py", error)
    return Plugins(modules, broken)


def left_out(file: str, error: Exception) -> str:
    """Log that a plugin is left out, and return its file and the reason."""
    if isinstance(error, PluginError):
        reason = str(error)
    elif isinstance(error, SyntaxError):
        reason = f"line {error.lineno}: {error.msg}"
    else:
        *_, last = traceback.extract_tb(error.__traceback__)
        reason = f"{type(error).__name__}: {error} (line {last.lineno} of {last.filename})"
    _log.warning("%s is left out: %s", file, reason)
    return f"{file}: {reason}"
