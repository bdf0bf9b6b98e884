"""Tables that an analyst might bring, with studies completed as an owner would, run without a server."""

import contextlib
import io
import re
import tomllib
from pathlib import Path

import numpy as np

import dpalgos
import tasks.release.release
from data.errors import DataError
from flows.cli.init import init
from flows.studies.find_study import find_study
from tasks.advice.forecasts import advise
from tasks.errors import SpecError
from tasks.release.request import read_request
from tasks.report.manifest import build_manifest
from tasks.report.write import write_report
from tasks.run.compute import write_block, write_design
from tasks.run.datasets import analyst_parquet
from tests.builders import refused
from tests.tasks.blocks import made_results, result_at, run_of

TARGET = "least squares"  # of intervals, where their owner has to say


def release(ledger, estimator, data, config, *, epsilon, delta, interval=None, progress=None, **charging):
    request = read_request(config, estimator, epsilon=epsilon, delta=delta, interval=interval)
    given = {**charging, "progress": progress}
    return tasks.release.release.release(ledger, request, data, **given)


def drawn_from_a_seed(plan, sample):
    """Draw research noise instead of the operating system's, some of whose draws are far off."""
    return dpalgos.estimate(plan.estimator.name, sample, rng=np.random.default_rng(0), **vars(plan.params))


def numbers_of(record):
    return {each["name"]: each["shrunk"] for each in record["release"]["answer"]}


def init_study(name, data, *, folder, **options):
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as said:
        init(name, data, **options)
    return said.getvalue()


def completed(file, bounds, categories=None, target=TARGET):
    """Fill in a study file: ``bounds`` and ``categories`` by column, or one pair of bounds for all."""
    text = file.read_text().replace('privacy_unit = "?"', 'privacy_unit = "a person"')
    text = text.replace('clusters = "?"', 'clusters = "none"').replace('max_weight = "?"', "max_weight = 3.0")
    text = re.sub(r'^(mean\..*) = "\?"', r"\1 = 0.3", text, flags=re.MULTILINE)
    text = text.replace('interval_target = "robust"', f'interval_target = "{target}"')
    head, *blocks = text.split("[[data.columns]]\n")
    done = []
    for block in blocks:
        name = tomllib.loads(block.splitlines()[0])["name"]
        listed = (categories or {}).get(name, ["?"])
        low, high = bounds.get(name, (0, 1)) if isinstance(bounds, dict) else bounds
        block = re.sub(r'lower = "\?"', f"lower = {low}", block)
        block = re.sub(r'upper = "\?"', f"upper = {high}", block)
        block = block.replace('["?"]', str(listed)).replace('source = "?"', 'source = "a codebook"')
        done.append(block)
    file.write_text("[[data.columns]]\n".join([head, *done]))
    return file


def initialized(folder, table, *, bounds=(0, 1), categories=None, name="mine", target=TARGET, **options):
    """Write a table as a CSV file and a completed study of it; return the study's file."""
    path = folder / "table.csv"
    table.to_csv(path, index=False)
    init_study(name, path, folder=folder, **options)
    return completed(folder / f"{name}.toml", bounds, categories, target)


def study_of(make_table, **usual):
    def study(folder, table=None, **options):
        return initialized(folder, make_table() if table is None else table, **usual, **options)

    return study


def edited(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return str(file)


def advice_of(file, guesses=""):
    if guesses:
        own = re.sub(r"^(\[guesses\]|mean\..*)$", "", Path(file).read_text(), flags=re.MULTILINE)
        Path(file).write_text(own + guesses)
    return advise(find_study(str(file)))


def refusal(call, *arguments, **keywords):
    return refused(lambda: call(*arguments, **keywords), (SpecError, DataError))


def computed(file, folder, replicates=2):
    """Ingest and compute a study, smallest and largest size; return its spec, table and results."""
    spec = find_study(str(file))
    table = analyst_parquet(spec.name, spec.analyst_table)
    spec.check_sizes(table)
    parts, place = [], result_at(folder / "design.npz")
    design = write_design(place, spec.head_panel.problem, table)
    for block in spec.blocks("smoke", replicates=replicates, seed=1):
        parts.append(write_block(result_at(folder / f"{block.replicates.n}.parquet"), block, design))
    return spec, table, made_results(parts, folder / "out")


def manifest_of(spec, table, results):
    run = run_of("mine.toml", profile="smoke", reps=2)
    return build_manifest(spec, run, {table.name: table}, results)


def reported(file, folder):
    spec, table, results = computed(file, folder)
    write_report(spec, results.path, manifest_of(spec, table, results))
    return (folder / "out" / "report.md").read_text()
