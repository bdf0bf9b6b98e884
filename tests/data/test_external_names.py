"""Names of publishers (addresses, files, members, columns, labels, titles) are spelled as published."""

import tomllib
from pathlib import Path

import pytest

from data.collections import league, wang2018
from data.datasets import get_dataset, load_registry

NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").with_stem("external_names").read_text("utf-8"))


def external_names(dataset):
    files, labels = dataset.source.files, [label for group in dataset.groups for label in group.labels]
    if declared := league.declarations().get(dataset.name.removeprefix("league_"), {}).get("columns"):
        labels = [each for levels in declared.values() for each in levels if isinstance(each, str)]
    return {
        "citation": dataset.citation,
        "files": [each.file for each in files],
        "urls": [each.url for each in files if each.url],
        "members": [each.member for each in files if each.member],
        "columns": [name for each in files for name in each.columns]
        + ([] if dataset.name.startswith("wang2018_") else list(dataset.column_names)),
        "labels": labels + [dataset.label] * bool(dataset.label),
    }


def test_every_dataset_has_its_names_in_the_copy():
    known = {f"wang2018_{name}" for name in wang2018._KNOWN}
    ours = {name for name in load_registry() if not name.startswith("wang2018_") or name in known}
    assert ours == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_the_publisher(name):
    found = external_names(get_dataset(name))
    assert {key: value for key, value in found.items() if value} == NAMES[name]
