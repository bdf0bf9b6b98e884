"""Plugins in their folders and from outside: found, seen by keys, marked on pages, named with faults."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.builders import HASTY_MEAN, copied_project, run_there

BROKEN = tomllib.loads(Path(__file__).with_name("broken_plugins.toml").read_text())
SCRIPT = """
import sys
import dpalgos
from data.datasets import get_dataset, load_registry
from flows.cli.main import main
from flows.studies.find_study import find_study, readable_studies

print([entry.name for entry in dpalgos.catalog()], [study.name for study in readable_studies()])
assert find_study("housing").blocks("smoke", replicates=1, seed=0)
try:
    dpalgos.get_estimator("no_python")
except dpalgos.InputError as error:
    print(error)
assert "housing" in load_registry()
assert not {"half_a_table", "another"} & set(load_registry())
try:
    get_dataset("another")
except Exception as error:
    assert "another.py" in str(error)
sys.argv[1:] = ["studies"]
main()
"""


def test_broken_plugins_are_left_out_with_all_their_faults_and_all_else_works(tmp_path):
    copied_project(tmp_path)
    for path, about in BROKEN.items():
        assert not (tmp_path / path).exists(), path
        (tmp_path / path).write_text(about["content"])
    done = run_there(tmp_path, "-c", SCRIPT)
    lists, refused, *listed = done.stdout.splitlines()
    assert "'dp_mean'" in lists
    assert "'housing'" in lists
    assert "dpalgos/comparators/no_python.py" in refused
    assert any("housing" in line for line in listed)
    for path, about in BROKEN.items():
        assert [words for words in (path, *about["names"]) if words not in done.stderr] == []


DATASET = """
from data.dataset import Column, Dataset, Source
DATASET = Dataset(name={name!r}, title="t", description="d", privacy_unit="a row", n_rows=3, license="l",
    citation="c", source=Source("x.csv", "", "csv", note="none"),
    columns=(Column("x", "float64", "", 0.0, 1.0, "law", 0.0, 1.0),))
PARSERS = {{}}
"""
MARKED = """
import dpalgos, tasks.problems.kinds
from data.datasets import _names
from dpalgos.catalog import from_outside
from flows.studies.find_study import find_study, plugins_left_out
from dpalgos.plugins import origin_of

print([entry.name for entry in from_outside()])
print(origin_of(dpalgos.get_estimator("hasty_mean").module))
print("theirs" in _names())
print("hasty_mean (mean)" in plugins_left_out([find_study("housing")]))
print(plugins_left_out([find_study("housing"), find_study("mean_sparsity")]))
"""


LEAVING = ["import sys; sys.exit(0)", "raise GeneratorExit", "raise BaseException('no')"]
ESTIMATOR = HASTY_MEAN.read_text()
LAST_LINE = ESTIMATOR.count("\n") + 2


def test_plugins_of_files_are_found_take_no_name_that_is_there_and_are_named_with_their_faults(tmp_path):
    texts = {f"their_{name}": DATASET.format(name=name) for name in ("theirs", "housing")}
    texts |= {f"broken_{k}": f"{ESTIMATOR}\n{last}\n" for k, last in enumerate(LEAVING)}
    texts["key"] = f"{ESTIMATOR}\nraise KeyError('x')\n"
    files = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    environment = {**os.environ, "DPCOST_WITH": os.pathsep.join(map(str, [*files.values(), HASTY_MEAN]))}
    asked = {"capture_output": True, "text": True, "env": environment, "check": True}
    done = subprocess.run([sys.executable, "-c", MARKED], **asked)
    found, marked, added, left_out, in_one = done.stdout.splitlines()
    assert (found, added, left_out, in_one) == ("['hasty_mean']", "True", "True", "")
    assert "hasty_mean.py, sha256" in marked
    assert "'housing'" in done.stderr
    assert f"{files['key']} is skipped: KeyError" in done.stderr
    for k in range(len(LEAVING)):
        assert f"line {LAST_LINE} of {files[f'broken_{k}']}" in done.stderr


FAULTY = {
    "plan": ("plan", "return 1 / 0", "which is a plugin; correct that file"),
    "type": ("plan", "return None", "plan must return a slot by label, got None"),
    "empty": ("plan", "return {}", "plan must have a release for 60 rows, got none"),
    "fit": ("fit", "raise ValueError(rows)", "which is a plugin; correct that file"),
    "none": (
        "fit",
        "spend('mean', ball_mean.of(clipped_mean(rows, truncate, 1.0), 1.0, rows.n))",
        "stays spent",
    ),
}


def _release(folder: Path, plugin: Path, *others: str) -> "subprocess.CompletedProcess[str]":
    """Release a mean by a plugin from a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text("v\n" + "0.5\n" * 60)
    (folder / "release.toml").write_text('[dataset]\nname = "d"\n[columns]\nx = ["v"]\n')
    environment = {**os.environ, "DPCOST_WITH": str(plugin), "DPCOST_HOME": str(folder / "home")}
    opening = "ledger open d --epsilon 9 --delta 1e-3"
    asking = "release hasty_mean --data rows.csv --config release.toml --epsilon 1 --delta 1e-5"
    for command in (opening.split(), [*asking.split(), *others]):
        call = [sys.executable, "-c", "from flows.cli.start import main; main()", *command]
        done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done


def test_a_release_by_a_plugin_names_its_file_in_print_and_in_its_record(tmp_path):
    done = _release(tmp_path, HASTY_MEAN, "--record", "record", "--table", "table.md")
    claim = "Its guarantee is a claim of this file, which dpcost has not tested."
    for text in (done.stdout, *(file.read_text() for file in sorted((tmp_path / "record").iterdir()))):
        assert "hasty_mean.py, sha256 " in text
        assert claim in text
    release = json.loads((tmp_path / "record" / "release.json").read_text())["release"]
    assert claim in release["methods"]
    assert claim in (tmp_path / "table.md").read_text()


def test_a_faulty_plugin_is_named_by_the_command_that_uses_it(tmp_path):
    for name, (method, line, words) in FAULTY.items():
        head, begin, rest = ESTIMATOR.partition(f"    def {method}(")
        signature = rest.partition("\n")[0]
        (plugin := tmp_path / f"{name}.py").write_text(
            f"{head}{begin}{signature}\n        {line}\n\n"
            + ("" if method == "fit" else f"    def fit({rest.partition('    def fit(')[2]}")
        )
        done = _release(tmp_path / name, plugin)
        assert done.returncode in (1, 2)
        assert words in done.stderr, (name, done.stderr)
        assert "hasty_mean" in done.stderr or str(plugin) in done.stderr, name
