"""Names of publishers (addresses, files, members, columns, labels, titles) are spelled as published."""

import os
import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

from data.collections import league, wang2018
from data.datasets import get_dataset, load_registry
from data.fetch.raw import fetch

NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").with_stem("external_names").read_text("utf-8"))
SHARED = Path(os.environ["DPCOST_DATA_MIRROR"])
README = SHARED / "README.md"


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


def expanded(text):
    """Return a text with ``a{b,c}`` written out next to it: ``ab ac``."""
    written = []
    for word in re.findall(r"`([^`\n]*\{[^`\n]*)`", text):
        parts = [part.split(",") for part in re.split(r"[{}]", word)]
        fixed = [each if i % 2 else [",".join(each)] for i, each in enumerate(parts)]
        written += map("".join, product(*fixed))
    return "\n".join([text, *written])


@pytest.mark.skipif(not README.is_file(), reason="the folder of shared data is not at hand")
@pytest.mark.parametrize("name", ["housing", "swarm", "snp_hapmap3", "snp_penncath", "snp_gse106818"])
def test_the_copy_is_what_the_readme_of_the_data_says(name):
    readme, about = expanded(README.read_text("utf-8")), NAMES[name]
    folders = [url.rsplit("/", 2)[0] + "/" for url in about.get("urls", ())]
    for url, folder in zip(about.get("urls", ()), folders, strict=True):
        plain, split = url.split("://")[1], folder.split("://")[1]
        assert plain in readme or (split in readme and url.removeprefix(folder) in readme), url
    for file in about["files"]:
        assert file in readme or Path(file).name in readme, file
    for member in about.get("members", ()):
        assert member in readme, member
    for label in about.get("labels", ()):
        assert label in ("0", "1") or re.search(rf"\b{label}\b", readme, re.IGNORECASE), label
    if name == "swarm":
        assert ",".join(f"{column}m" for column in about["columns"]) in readme
    elif name == "housing":
        camel = re.search(r"no header: ([\w, ]+)\.", readme)[1].split(", ")
        assert [re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", each) for each in camel] == about["columns"]
    else:
        for column in set(about.get("columns", ())) - {"population"}:
            assert column in readme, column


def test_a_mirror_with_the_official_name_is_found(tmp_path):
    """The name is that of the address, which a user downloads by hand."""
    dataset = get_dataset("swarm")
    assert dataset.source.file.rsplit("/", 1)[1] == dataset.source.url.rsplit("/", 1)[1]
    (tmp_path / "mirror" / "swarm").mkdir(parents=True)
    (tmp_path / "mirror" / "swarm" / "swarm+behaviour.zip").write_bytes(b"a zip")
    raw = fetch(dataset, home=tmp_path / "home", mirror=tmp_path / "mirror", offline=True)
    assert (raw.origin, Path(raw.path).read_bytes()) == ("mirror", b"a zip")


def test_the_address_of_the_full_penncath_data_is_named_as_unverified():
    note = get_dataset("snp_penncath").source.note
    assert "https://d1ypx1ckp5bo16.cloudfront.net/penncath/penncath.tar.gz, which is not verified" in note
    assert "861,473 SNPs" in note
    assert "It is not this file" in note
