"""Commands of the project in a fork, where the libraries of this process are loaded.

It is an IPython extension, too: tutorials run ``!dpcost`` in a fork of their kernel.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from IPython.core.interactiveshell import InteractiveShell

_COMMAND = re.compile(r"^(\w+ = )?!dpcost ")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Take lines ``!dpcost …`` and ``name = !dpcost …`` for magics of the same words."""
    shell.register_magic_function(lambda words: print(run(words)[0], end=""), magic_name="dpcost")
    shell.register_magic_function(lambda words: run(words)[0].splitlines(), magic_name="lines_of_dpcost")
    shell.input_transformers_cleanup.append(lambda lines: [_COMMAND.sub(_magic, line) for line in lines])


def _magic(found: re.Match[str]) -> str:
    return f"{found[1]}%lines_of_dpcost " if found[1] else "%dpcost "


def run(words: str) -> tuple[str, bool]:
    """Return what a command prints, standard error included, and whether it succeeded."""
    import scipy.optimize
    import scipy.special  # noqa: F401

    import tasks.release.record
    import tasks.release.release  # noqa: F401
    from flows.cli.start import main

    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as output:
            text = output.read()
        return text, os.waitpid(child, 0)[1] == 0
    for stream in (1, 2):
        os.dup2(writing, stream)
    sys.stdout, sys.stderr = (open(stream, "w", encoding="utf-8", buffering=1) for stream in (1, 2))  # noqa: SIM115
    sys.modules.pop("IPython", None)  # tqdm would look for a notebook's progress bars
    sys.argv = ["dpcost", *shlex.split(words)]
    failed = True
    try:
        main()
        failed = False
    except SystemExit as end:
        failed = bool(end.code)
    finally:
        sys.stdout.flush()
        os._exit(failed)
