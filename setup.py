"""What the wheel installs: the library ``dpalgos``, and the application's packages in a folder ``dpcost``."""

import sys

from setuptools import find_packages, setup

application = find_packages(include=["flows*", "tasks*", "data*", "reports*"], exclude=["reports.out*"])
library = find_packages(include=["dpalgos*", "dpcost"])
in_place = application if "editable_wheel" in sys.argv else []  # a checkout's modules keep their names

setup(
    packages=[*library, *(f"dpcost.{name}" for name in application), *in_place],
    package_dir={f"dpcost.{name}": name for name in ("flows", "tasks", "data", "reports")},
    package_data={
        "dpalgos": ["py.typed"],
        "dpcost.flows": ["cli/templates/*", "page/style.css"],
        "dpcost.flows.studies": ["*.toml"],
        "dpcost.tasks": ["claims.toml"],
        "dpcost.tasks.run": ["audits.json"],
        "dpcost.data.collections": ["*.toml"],
        "dpcost.data": ["embedded/*/*"],
        "dpcost.reports": ["templates/*", "templates/pages/*"],
    },
)
