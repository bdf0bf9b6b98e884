"""Jinja's environments of the templates; compiled templates are kept in the user's cache folder."""

import hashlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from platformdirs import user_cache_path


class _CompiledTemplates(FileSystemBytecodeCache):
    """A folder of compiled templates; what cannot be read or written costs time, nothing else."""

    def load_bytecode(self, bucket: Any) -> None:
        with suppress(OSError, EOFError, UnpicklingError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Any) -> None:
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


def environment(**options: Any) -> Environment:
    """Return an environment with these options; code that other options or another Jinja made is not used."""
    made_by = repr([version("jinja2"), sorted(options.items())]).encode()
    folder, names = user_cache_path("dpcost") / "templates", f"{hashlib.sha256(made_by).hexdigest()[:8]}-%s"
    return Environment(
        loader=PackageLoader("reports", "templates"),
        undefined=StrictUndefined,
        bytecode_cache=_CompiledTemplates(str(folder), names),
        **options,
    )
