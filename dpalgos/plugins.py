"""Plugins: modules that are found by being in a folder, or that come from outside.

External plugins are the files that ``DPCOST_WITH`` names, and modules of packages with an entry point in the
group ``dpcost.plugins``. A broken plugin is skipped and reported.
"""

import hashlib
import importlib
import importlib.util
import logging
import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path, PurePath
from types import ModuleType

FILES = "DPCOST_WITH"  # paths separated as in PATH
GROUP = "dpcost.plugins"

_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """A plugin is wrong; the message lists all of its faults."""


@dataclass(frozen=True)
class Plugins:
    """The imported modules of a package by name; file and reason of each ``broken`` module."""

    modules: Mapping[str, ModuleType]
    broken: Mapping[str, str]


@cache
def load_plugins(package: str) -> Plugins:
    """Import the modules of a package; log a warning for each that cannot be imported, and continue."""
    modules, broken = {}, {}
    for name in sorted(
        module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ):
        try:
            modules[name] = importlib.import_module(f"{package}.{name}")
        except BaseException as error:
            broken[name] = report_broken_plugin(f"{package.replace('.', '/')}/{name}.py", error)
    return Plugins(modules, broken)


def named_files() -> list[str]:
    """Return the paths of the files that ``DPCOST_WITH`` names."""
    return list(filter(None, os.environ.get(FILES, "").split(os.pathsep)))


@cache
def outside_plugins() -> Plugins:
    """Import external plugins; log a warning for each that cannot be imported, and continue."""
    modules, broken = {}, {}
    for path in named_files():
        try:
            module = _module_of(path)
            modules[module.__name__] = module
        except BaseException as error:
            broken[path] = report_broken_plugin(path, error)
    for point in entry_points(group=GROUP):
        try:
            modules[point.module] = importlib.import_module(point.module)
        except BaseException as error:
            broken[point.module] = report_broken_plugin(point.value, error)
    return Plugins(modules, broken)


def outside_files() -> dict[str, str]:
    """Return the file of each external plugin by the name of its module."""
    return {name: str(module.__file__) for name, module in outside_plugins().modules.items()}


def origin_of(module: str) -> str:
    """Say which file an external module is in; empty for a module of the project."""
    file = outside_files().get(module)
    if file is None:
        return ""
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return f"from outside dpcost: {PurePath(file).name}, sha256 {digest[:12]}"


def _module_of(path: str) -> ModuleType:
    """Import a file as a module with a unique name, which the digest of code uses."""
    name = f"with_{PurePath(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError("a plugin must be a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def report_broken_plugin(file: str, error: BaseException) -> str:
    """Log that a plugin is skipped, and return its file and the reason; Ctrl-C is not caught."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, PluginError):
        reason = str(error)
    elif isinstance(error, SyntaxError):
        reason = f"line {error.lineno}: {error.msg}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == file]
        last = (own or frames)[-1]
        reason = f"{type(error).__name__}: {error} (line {last.lineno} of {last.filename})"
        if PurePath(frames[-1].filename).name == "dataclasses.py":
            reason += "; an estimator must have @dataclass(frozen=True, kw_only=True)"
    _log.warning("%s is skipped: %s", file, reason)
    return f"{file}: {reason}"
