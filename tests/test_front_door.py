"""Other libraries are used through what they document: no private name is imported, read or assigned to."""

import ast
import sys

import pytest

from data.store.folders import PROJECT_ROOT

PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")

# Modules of other libraries that their documentation names. Look a new one up there before adding it.
_LIST = """
docx formulaic formulaic.errors formulaic.parser formulaic.transforms formulaic.transforms.contrasts
scipy.interpolate
bed_reader dask distributed dp_accounting dp_accounting.pld dp_accounting.pld.privacy_loss_distribution
fsspec fsspec.implementations.dirfs fsspec.implementations.local
httpx jinja2 markupsafe numpy numpy.typing opendp.domains opendp.measurements opendp.measures opendp.metrics
opendp.mod opendp.typing pandas patsy
platformdirs pooch prefect prefect.artifacts prefect.cache_policies
prefect.client.orchestration prefect.client.schemas.filters prefect.client.schemas.objects
prefect.client.schemas.sorting prefect.events.actions prefect.events.schemas.automations
prefect.events.schemas.events prefect.context prefect.events prefect.futures prefect.runner
prefect.schedules prefect.server.api.server
prefect.settings prefect.states prefect.task_runners prefect.types.entrypoint prefect.utilities.annotations
psutil psycopg pyarrow pyarrow.compute pyarrow.csv pyarrow.parquet pydantic pydantic.dataclasses
pydantic.errors pydantic_core requests sklearn statsmodels.api scipy scipy.linalg scipy.linalg.blas
scipy.optimize scipy.sparse scipy.special scipy.stats
sklearn.base sklearn.compose sklearn.exceptions sklearn.linear_model
sklearn.pipeline sklearn.preprocessing sklearn.utils
sklearn.utils.multiclass sklearn.utils.validation sqlalchemy sqlalchemy.engine sqlalchemy.exc
sqlalchemy.pool starlette.applications starlette.datastructures starlette.exceptions
starlette.middleware.trustedhost
starlette.requests starlette.responses starlette.routing starlette.staticfiles starlette.types
starlette.websockets
statsmodels.genmod statsmodels.genmod.generalized_linear_model statsmodels.regression.linear_model
statsmodels.stats.weightstats threadpoolctl tqdm typer urllib3.exceptions uvicorn vl_convert
"""
DOCUMENTED = set(_LIST.split())


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def faults(source: str) -> list[str]:
    """Return what a module's source does to other libraries that they do not document."""
    tree, found = ast.parse(source), []
    known: dict[str, str] = {}  # the name here of each thing of another library
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            continue
        for name, origin in modules.items():
            if origin.partition(".")[0] in {*PACKAGES, *sys.stdlib_module_names}:
                continue
            known[name] = origin
            module = node.module if isinstance(node, ast.ImportFrom) else origin
            if is_private(origin):
                found.append(f"imports {origin}")
            elif module not in DOCUMENTED:
                found.append(f"imports {module}, which is not in the list of documented modules")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root(node) in known:
            found.append(f"reads {ast.unparse(node)}")
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            found += [
                f"assigns to {ast.unparse(each)}"
                for each in targets
                if isinstance(each, ast.Attribute | ast.Subscript) and root(each) in known
            ]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("setattr", "delattr")
            and root(node.args[0]) in known
        ):
            found.append(f"assigns to {ast.unparse(node)}")
    return found


def root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_uses_what_other_libraries_document(package):
    own = [
        path
        for path in (PROJECT_ROOT / package).rglob("*.py")
        if path.parts[-3:-1] != ("external", "methods")
    ]
    found = {str(path): faults(path.read_text(encoding="utf-8")) for path in own}
    assert {path: each for path, each in found.items() if each} == {}
