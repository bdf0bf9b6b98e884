"""What others reported about pipelines: caches, retries, killed runs, parameters, logs."""

import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from jsonschema import Draft202012Validator

from data.ledger import Ledger
from data.store import code_digest
from data.store.folders import atomic_file
from data.store.shared import copy_shared, write_shared
from flows.history import recent_runs
from flows.lock import exclusive_run
from flows.study import study
from tasks.cache import Again, Target, Written, digest


@contextmanager
def home(**variables):
    folder = Path(tempfile.mkdtemp())
    with patch.dict(os.environ, {"DPCOST_HOME": str(folder), **variables}):
        yield folder


def file_of(*inputs, kind="page", module="tasks.run.compute"):
    return Target(
        f"cache/{kind}-{digest([module], kind, *inputs)}.json", (module,), code_digest.code_digest([module])
    )


def found(*inputs, damage=lambda path: None):
    """Write a result for the input 1, damage its file, and look for that of some inputs."""
    with home():
        made = file_of(1).write(b"{}")
        damage(made.path)
        (name, content), *_ = made.files
        other = name.replace(Path(file_of(1).name).stem, Path(file_of(*inputs).name).stem)
        return Written(((other, content),)).is_whole()


def rewritten():
    with home():
        made = file_of(1).write(b"{}")
        made.path.write_bytes(b"{")
        assert not made.is_whole()
        return file_of(1).write(b"{}").is_whole()


def names_differ(*files):
    return len({file.name for file in files}) == len(files)


def follows_code(module):
    """Whether an edit of a module that a block's task calls names another file."""
    edited = code_digest.PROJECT_ROOT.joinpath(*module.split(".")).with_suffix(".py")
    known, names = code_digest._sha256, set()
    for read in (known, lambda path: "edited" if path == edited else known(path)):
        with patch.object(code_digest, "_sha256", read):
            code_digest._code_digest.cache_clear()
            names.add(file_of(1).name)
    code_digest._code_digest.cache_clear()
    return len(names) == 2


def seen_before_it_is_whole():
    with home() as folder, atomic_file(folder / "result") as file:
        file.write(b"half")
        file.flush()
        return (folder / "result").exists()


def brought_in_half():
    with home() as folder, home() as store, patch.dict(os.environ, {"DPCOST_STORE": f"file://{store}"}):
        write_shared("cache/pages/a.json", b"{")
        return copy_shared(folder / "cache" / "pages" / "a.json", "0" * 64)


def runs_after_a_kill():
    with home() as folder:
        child = os.fork()
        if child == 0:
            with exclusive_run(folder):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        return recent_runs(folder, folder / "out")


def asked_again():
    again = Again("run_block")
    return [again.asks("run_block"), again.asks("run_block"), again.asks("render")]


def takes(**parameters):
    form = Draft202012Validator(study.parameters.model_dump_for_openapi())
    return form.is_valid({"study": "housing", **parameters})


def place_of_a_ledger():
    with home() as folder:
        return Ledger(folder, "postgresql://me:secret@host:5433/books").location


P = "PrefectHQ/prefect#"
PIPELINES = [
    (f"{P}8892", "a stored result that was deleted fails the task", lambda: found(1, damage=Path.unlink), False),
    (f"{P}3567", "a stored result that does not read fails the task", rewritten, True),
    (f"{P}3476", "two tasks share one stored result", lambda: names_differ(file_of(1), file_of(1, kind="design")), True),
    (f"{P}12140", "a new key finds the result of the old one", lambda: found(2), False),
    (f"{P}10774", "the same key does not find its result", lambda: found(1), True),
    (f"{P}15861", "an input without a digest is left out of the key", lambda: file_of(object()), TypeError),
    (f"{P}5776", "the order of inputs changes the key", lambda: digest([], {"a": 1, "b": 2}) == digest([], {"b": 2, "a": 1}), True),
    (f"{P}16925", "code that a task calls is no part of its key", lambda: follows_code("dpalgos.rows.products"), True),
    (f"{P}23062", "tasks of the same text and other modules share results", lambda: names_differ(file_of(1), file_of(1, module="data.fetch.ingest")), True),
    (f"{P}11007", "what is to be computed again is found by a retry", asked_again, [True, True, False]),
    ("Netflix/metaflow#425", "a file is found before it is whole", seen_before_it_is_whole, False),
    ("fsspec/filesystem_spec#639", "half of a file of a shared store is taken for it", brought_in_half, False),
    (f"{P}16746", "a run whose process was killed is shown as running", runs_after_a_kill, []),
    (f"{P}11239", "a parameter that a flow lacks is taken", lambda: takes(options={"color": 1}), False),
    (f"{P}9776", "a value of a wrong type is taken", lambda: takes(options={"workers": "all"}), False),
    (f"{P}11098", "a password is shown in logs", place_of_a_ledger, "host:5433/books"),
]  # fmt: skip
