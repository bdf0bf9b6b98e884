"""The application's packages under one name that no other package has: ``dpcost.data`` is ``data``.

The packages import each other by their names in a checkout: ``data``, ``flows``, ``reports`` and ``tasks``. A
wheel installs them in this folder, which goes first on the path: others may have packages of these names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

PACKAGES = ("data", "flows", "reports", "tasks")

if (Path(__file__).parent / "data").exists():
    sys.path.insert(0, str(Path(__file__).parent))


class _OneModule(MetaPathFinder, InspectLoader):
    """Finds ``dpcost.data`` and all below it as ``data``: a module has two names, and no class two copies."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        start, _, own = name.partition(".")
        if start != "dpcost" or own.partition(".")[0] not in PACKAGES or (spec := find_spec(own)) is None:
            return None
        is_package = spec.submodule_search_locations is not None
        return ModuleSpec(name, self, origin=spec.origin, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_own(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # the module is what it was

    def get_code(self, name: str) -> CodeType | None:
        """Return the code that ``python -m`` runs."""
        spec = find_spec(_own(name))
        assert spec is not None
        assert isinstance(spec.loader, InspectLoader)
        return spec.loader.get_code(spec.name)

    def get_source(self, name: str) -> str | None:
        return None


def _own(name: str) -> str:
    return name.removeprefix("dpcost.")


sys.meta_path.insert(0, _OneModule())
