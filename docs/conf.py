"""The documentation site: ``make docs`` builds it without a network, and a warning is an error."""

import os
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Tutorials leave the project's home alone, and find the commands of this environment.
PROFILE = HERE / "_build" / "ipython" / "profile_default"  # kernels log errors, no warnings
PROFILE.mkdir(parents=True, exist_ok=True)
(PROFILE / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
os.environ["IPYTHONDIR"] = str(PROFILE.parent)
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # kernels warn of frozen modules at every start
os.environ["DPCOST_HOME"] = str(HERE / "_build" / "home")
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from docutils import nodes
from generate.docstrings import escaped, preformatted
from generate.measured import facts
from generate.write import digest_of_code, write_pages

import dpalgos

project = "dpcost"
author = "the authors of dpcost"
project_copyright = "2026, the authors of dpcost"
version = release = dpalgos.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.napoleon",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build", "changes"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # by the cells of a page, in a folder for the code as it is
EXECUTED = HERE / "_build" / "executed" / digest_of_code(HERE.parent)
nb_execution_cache_path = str(EXECUTED)
for other in set(EXECUTED.parent.glob("*")) - {EXECUTED}:
    shutil.rmtree(other)
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
napoleon_google_docstring = napoleon_use_param = napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
smartquotes = False  # commands have "--"

EXTRA = HERE / "_build" / "extra"
EXTRA.mkdir(parents=True, exist_ok=True)
html_extra_path = ["_build/extra"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = "dpcost"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "dpcost"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {name: [] for name in ("index", "getting_started", "operations", "scaling", "changelog")}


def _plain_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = preformatted(lines) if what == "module" else map(escaped, lines)
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")  # napoleon takes words before a colon in the first line for a type


FACTS = facts()


class Evidence(SphinxRole):
    """``{evidence}`NAME```: a measured text of docs/measured/*.json; an unknown name is an error."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        for path in (HERE / "measured").glob("*.json"):
            self.env.note_dependency(str(path))  # or a new measurement would leave the page as it was
        return [nodes.Text(FACTS[self.text])], []


def setup(app: Sphinx) -> None:
    app.add_role("evidence", Evidence())
    app.connect("builder-inited", lambda app: write_pages(HERE, EXTRA / "gallery"))
    app.connect("autodoc-process-docstring", _plain_text, priority=100)  # before napoleon's
