"""Sources of several files that belong together, files without an address, and without a checksum."""

import gzip
import hashlib
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from data.dataset import Source
from data.datasets import get_dataset
from data.errors import CorruptSource, Unreachable
from data.fetch.raw_files import EMBEDDED, fetch, fetch_or_stand_in

PAYLOADS = {"bed": b"calls", "bim": b"snps", "fam": b"people"}


def set_of(web=None, *, urls=True):
    """Return a dataset of three files, and serve them."""

    def source(part, companions=()):
        url = ""
        if urls:
            url = web.serve(f"/{part}", PAYLOADS[part]) if web else f"http://127.0.0.1:9/{part}"
        sha256 = hashlib.sha256(PAYLOADS[part]).hexdigest()
        return Source(f"snp/x.{part}", url, part, sha256, note="made up", companions=companions)

    first = source("bed", (source("bim"), source("fam")))
    return replace(get_dataset("snp_hapmap3"), sources=(first,))


def mirrored(folder, *parts, **changed):
    for part in parts:
        file = folder / "mirror" / "snp" / f"x.{part}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(changed.get(part, PAYLOADS[part]))
    return folder / "mirror"


def contents(raw):
    return {file.layout: Path(file.path).read_bytes() for file in (raw, *raw.companions)}


def test_a_set_comes_from_the_mirror_then_from_the_store(tmp_path):
    mirror = mirrored(tmp_path, *PAYLOADS)
    first = fetch(set_of(), home=tmp_path / "home", mirror=mirror, offline=True)
    assert first.origin == "mirror"
    assert contents(first) == PAYLOADS
    assert [file.sha256 for file in first.companions] == [
        hashlib.sha256(PAYLOADS[part]).hexdigest() for part in ("bim", "fam")
    ]
    again = fetch(set_of(), home=tmp_path / "home", mirror=None, offline=True)
    assert again.origin == "store"
    assert contents(again) == PAYLOADS


def test_the_official_address_is_asked_for_what_the_mirror_lacks(tmp_path, web):
    raw = fetch(set_of(web), home=tmp_path / "home", mirror=mirrored(tmp_path, "bed", "fam"), offline=False)
    assert raw.origin == "official"
    assert contents(raw) == PAYLOADS
    assert web.asked == ["/bim"]


def test_a_set_is_delivered_whole_or_not_at_all(tmp_path):
    mirror = mirrored(tmp_path, "bed", "bim")
    with pytest.raises(Unreachable, match=r"MIRROR/\S*x\.fam: no such file") as caught:
        fetch(set_of(urls=False), home=tmp_path / "home", mirror=mirror, offline=False)
    assert "put snp/x.bed, snp/x.bim, snp/x.fam into a folder" in str(caught.value)
    raw = fetch_or_stand_in(set_of(urls=False), home=tmp_path / "home", mirror=mirror, offline=False)
    assert (raw.origin, raw.companions) == ("stand-in", ())


def test_a_damaged_stored_companion_alone_is_fetched_again(tmp_path, web, caplog):
    dataset = set_of(web)
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    Path(raw.companions[1].path).write_bytes(b"junk")
    web.asked.clear()
    with caplog.at_level(logging.WARNING):
        again = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert contents(again) == PAYLOADS
    assert web.asked == ["/fam"]
    assert "thrown away and fetched again" in caplog.text


def test_fetching_again_asks_every_place_but_the_store_which_stays_if_nothing_comes(tmp_path):
    home, mirror = tmp_path / "home", mirrored(tmp_path, *PAYLOADS)
    fetch(set_of(), home=home, mirror=mirror, offline=True)
    raw = fetch(set_of(), home=home, mirror=mirror, offline=True, again=True)
    assert raw.origin == "mirror"
    assert contents(raw) == PAYLOADS
    assert all(Path(file.path).is_relative_to(home / "store" / "raw") for file in (raw, *raw.companions))
    with pytest.raises(Unreachable):
        fetch(set_of(), home=home, mirror=None, offline=True, again=True)
    assert contents(raw) == PAYLOADS
    assert [path.name for path in home.iterdir()] == ["store"]


def test_without_a_checksum_visible_faults_are_refused_all_the_same(tmp_path, web):
    source = Source("snp/y.gz", web.serve("/y", b"<html></html>"), "geo_series_matrix", note="none is known")
    dataset = replace(get_dataset("snp_gse106818"), sources=(source,))
    with pytest.raises(CorruptSource, match="an HTML page"):
        fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_another_compressed_text_is_not_called_a_damaged_archive(tmp_path):
    mirror = mirrored(tmp_path, *PAYLOADS, bim=gzip.compress(b"other"))
    with pytest.raises(CorruptSource, match=r"x\.bim holds another file: its sha256 begins"):
        fetch(set_of(), home=tmp_path / "home", mirror=mirror, offline=True)


@pytest.mark.parametrize("name", ["housing", "snp_hapmap3"])
def test_what_ships_with_the_package_is_taken_before_the_network_is_asked(name, tmp_path, web):
    dataset = get_dataset(name)
    source = dataset.sources[0]
    dataset = replace(dataset, sources=(replace(source, url=web.serve("/data", b"junk")),))
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert raw.origin == "embedded"
    assert [file.sha256 for file in (raw, *raw.companions)] == [file.sha256 for file in source.files]
    assert web.asked == []


def test_a_mirror_goes_before_what_ships_with_the_package(tmp_path, caplog):
    file = tmp_path / "mirror" / "housing" / "cal_housing.tgz"
    file.parent.mkdir(parents=True)
    shutil.copy(EMBEDDED / "housing" / file.name, file)
    dataset = get_dataset("housing")
    assert fetch(dataset, home=tmp_path / "a", mirror=tmp_path / "mirror", offline=True).origin == "mirror"
    file.write_bytes(b"other")
    with caplog.at_level(logging.WARNING):
        raw = fetch(dataset, home=tmp_path / "b", mirror=tmp_path / "mirror", offline=True)
    assert raw.origin == "embedded"
    assert "holds another file" in caplog.text
