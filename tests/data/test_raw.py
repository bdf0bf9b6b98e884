"""Raw files come from the store, the mirror, the package or the network, and become tables in the store."""

import errno
import gzip
import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests

from data.dataset import Source
from data.datasets import get_dataset, housing
from data.errors import CorruptSource, StoreError, Unreachable
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch, fetch_or_stand_in
from data.store.references import Repair, read_table
from tests.data import test_swarm_frames as swarm
from tests.data.conftest import raw_of, small_housing, with_cell

HTML = b"\n<!DOCTYPE html><html><body>Not found, but politely</body></html>"


def mirrored(folder, payload):
    file = folder / "mirror" / "housing" / "cal_housing.tgz"
    file.parent.mkdir(parents=True)
    file.write_bytes(payload)
    return folder / "mirror"


def stored_files(home):
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())


def at(dataset, url):
    return replace(dataset, source=replace(dataset.source, url=url))


def test_order_is_store_then_mirror_then_official(tmp_path, web):
    dataset, payload = small_housing()
    dataset = at(dataset, web.serve("/data", payload))
    home, mirror = tmp_path / "home", mirrored(tmp_path, payload)

    first = fetch(dataset, home=home, mirror=mirror, offline=False)
    assert first.origin == "mirror"
    assert first.source_url == dataset.source.url
    assert Path(first.path).read_bytes() == payload
    assert fetch(dataset, home=home, mirror=mirror, offline=False) == replace(first, origin="store")
    assert web.asked == []

    other = fetch(dataset, home=tmp_path / "other", mirror=None, offline=False)
    assert (other.origin, other.sha256, other.layout) == ("official", first.sha256, "cal_housing_tgz")
    assert stored_files(tmp_path / "other") == ["store/raw/housing/cal_housing.tgz"]


@pytest.mark.parametrize("name", ["league_sick_days", "wang2018_wine"])
def test_a_table_that_no_source_has_is_refused_with_how_to_get_it(tmp_path, name):
    dataset = get_dataset(name)
    raw = fetch_or_stand_in(dataset, home=tmp_path, mirror=None, offline=True)
    with pytest.raises(Unreachable, match="DPCOST_DATA_MIRROR") as caught:
        to_parquet(dataset, raw, home=tmp_path)
    assert dataset.source.file in str(caught.value)


def test_offline_never_asks_the_network(tmp_path, web):
    dataset, payload = small_housing()
    dataset = at(dataset, web.serve("/data", payload))
    with pytest.raises(Unreachable, match="because of --offline") as caught:
        fetch(dataset, home=tmp_path, mirror=None, offline=True)
    assert web.asked == []
    assert not caught.value.transient
    not_asked = f"{web.address}/data: not tried, because of --offline"
    assert caught.value.reasons == ("DPCOST_DATA_MIRROR is not set", not_asked)


@pytest.mark.parametrize("damage", [lambda payload: payload[:-200], lambda _: b"", lambda _: HTML])
@pytest.mark.parametrize("place", ["mirror", "official"])
def test_wrong_bytes_are_named_and_never_stored(tmp_path, web, place, damage):
    dataset, payload = small_housing()
    home = tmp_path / "home"
    wrong = damage(payload)
    if place == "mirror":
        mirror = mirrored(tmp_path, wrong)
    else:
        mirror, dataset = None, at(dataset, web.serve("/data", wrong))
    with pytest.raises(CorruptSource, match="is not the published file") as caught:
        fetch(dataset, home=home, mirror=mirror, offline=place == "mirror")
    assert "\n" not in str(caught.value)
    assert not caught.value.transient
    assert stored_files(home) == []


NOBODY_THERE = "http://127.0.0.1:9/data"
ANSWERS = [("404", False), ("403", False), ("500", True), ("429", True)]
ANSWERS += [("ConnectionError", False), ("ReadTimeout", True), ("ChunkedEncodingError", True)]


@pytest.mark.parametrize(("answer", "transient"), ANSWERS)
def test_some_failures_may_pass_and_none_leaves_a_file(tmp_path, web, monkeypatch, answer, transient):
    dataset, payload = small_housing()
    url = NOBODY_THERE if answer == "ConnectionError" else web.serve("/data", payload[:100], cut_off=500)
    if answer.isdigit():
        web.serve("/data", int(answer))
    with monkeypatch.context() as patch:
        if answer == "ReadTimeout":
            patch.setattr(requests, "get", Mock(side_effect=requests.ReadTimeout))
        with pytest.raises(Unreachable, match=answer) as caught:
            fetch(at(dataset, url), home=tmp_path, mirror=None, offline=False)
    assert caught.value.transient is transient
    assert stored_files(tmp_path) == []
    later = at(dataset, web.serve("/data", payload))
    assert fetch(later, home=tmp_path, mirror=None, offline=False).origin == "official"


EARLY = [(OSError(errno.ENOSPC, "No space left"), StoreError), (KeyboardInterrupt(), KeyboardInterrupt)]


@pytest.mark.parametrize(("raised", "error"), EARLY)
def test_a_download_that_ends_early_leaves_nothing(tmp_path, monkeypatch, raised, error):
    def ends_early(self, url, output_file, pooch, check_only=False):
        output_file.write(b"part")
        raise raised

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", ends_early)
    with pytest.raises(error):
        fetch(small_housing()[0], home=tmp_path, mirror=None, offline=False)
    assert stored_files(tmp_path) == []


def test_stand_in_only_when_nothing_was_delivered_with_reasons_without_places(tmp_path):
    dataset, _ = small_housing()
    for mirror in (None, tmp_path / "none", tmp_path):
        raw = fetch_or_stand_in(dataset, home=tmp_path / "home", mirror=mirror, offline=True)
        assert (raw.origin, raw.path, raw.sha256, len(raw.reasons)) == ("stand-in", "", "", 2)
        assert not [reason for reason in raw.reasons if str(tmp_path) in reason]
    with pytest.raises(CorruptSource):
        fetch_or_stand_in(dataset, home=tmp_path, mirror=mirrored(tmp_path, b"junk"), offline=True)


PAYLOADS = {"bed": b"calls", "bim": b"snps", "fam": b"people"}


def set_of(web=None, *, urls=True):
    def source(part, companions=()):
        url = ""
        if urls:
            url = web.serve(f"/{part}", PAYLOADS[part]) if web else f"http://127.0.0.1:9/{part}"
        sha256 = hashlib.sha256(PAYLOADS[part]).hexdigest()
        return Source(f"snp/x.{part}", url, part, sha256, note="made up", companions=companions)

    first = source("bed", (source("bim"), source("fam")))
    return replace(get_dataset("snp_hapmap3"), source=first)


def contents(raw):
    return {file.layout: Path(file.path).read_bytes() for file in (raw, *raw.companions)}


def test_a_set_is_delivered_whole_or_not_at_all(tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "snp").mkdir(parents=True)
    for part in ("bed", "bim"):
        (mirror / "snp" / f"x.{part}").write_bytes(PAYLOADS[part])
    with pytest.raises(Unreachable, match=r"MIRROR/\S*x\.fam: no such file") as caught:
        fetch(set_of(urls=False), home=tmp_path / "home", mirror=mirror, offline=False)
    assert "snp/x.bed, snp/x.bim, snp/x.fam" in str(caught.value)
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
    assert "is fetched again" in caplog.text


@pytest.mark.parametrize("name", ["housing", "snp_hapmap3"])
def test_what_ships_with_the_package_is_taken_before_the_network_is_asked(name, tmp_path, web):
    dataset = at(get_dataset(name), web.serve("/data", b"junk"))
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert raw.origin == "embedded"
    assert [file.sha256 for file in (raw, *raw.companions)] == [file.sha256 for file in dataset.source.files]
    assert web.asked == []


@pytest.mark.parametrize("packed", [gzip.compress(b"published" * 100, mtime=0)[:-10], b"no gzip"])
def test_a_damaged_packed_file_is_refused_or_fetched(tmp_path, web, monkeypatch, caplog, packed):
    monkeypatch.setattr("data.fetch.raw.EMBEDDED", tmp_path)
    (tmp_path / "housing").mkdir()
    (tmp_path / "housing" / "cal_housing.tgz.gz").write_bytes(packed)
    dataset, payload = small_housing()
    dataset = at(dataset, web.serve("/data", payload))
    dataset = replace(dataset, source=replace(dataset.source, embedded=True))
    with pytest.raises(CorruptSource, match="truncated or damaged"):
        fetch(dataset, home=tmp_path / "home", mirror=None, offline=True)
    assert stored_files(tmp_path / "home") == []
    with caplog.at_level(logging.WARNING):
        raw = fetch(dataset, home=tmp_path / "home", mirror=None, offline=False)
    assert (raw.origin, Path(raw.path).read_bytes()) == ("official", payload)
    assert "truncated or damaged" in caplog.text


SENTINEL = "123456.789"


def test_a_whole_table_is_reused_and_a_damaged_one_rebuilt(tmp_path, monkeypatch, caplog):
    dataset, payload = small_housing()
    raw = raw_of(tmp_path, dataset, payload)
    first = to_parquet(dataset, raw, home=tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", None)
        again = to_parquet(dataset, replace(raw, origin="store"), home=tmp_path)
        assert again == replace(first, origin="store")
    parsed, parse = [], housing.PARSERS["cal_housing_tgz"]
    with monkeypatch.context() as patch:
        patch.setitem(housing.PARSERS, "cal_housing_tgz", lambda p: parsed.append(p) or parse(p))
        assert to_parquet(dataset, raw, home=tmp_path, again=True) == first
        assert parsed

    whole = Path(first.path).read_bytes()
    sidecar = Path(first.path).with_suffix(".json")
    cut = lambda: Path(first.path).write_bytes(whole[:-1])  # noqa: E731
    for damage in (cut, lambda: sidecar.write_text("{"), sidecar.unlink):
        damage()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert to_parquet(dataset, raw, home=tmp_path) == first
        assert "is damaged" in caplog.text
        assert Path(first.path).read_bytes() == whole


BAD = [(3, f"x{SENTINEL}", "text in number column total_rooms"), (0, "-inf", "infinity in column longitude")]
BAD += [(3, text, "blank or NaN in column total_rooms") for text in ("", "NaN")]
BAD += [(3, SENTINEL, "fraction in a whole-number column total_rooms")]


@pytest.mark.parametrize(("field", "text", "reason"), BAD)
def test_a_bad_row_is_dropped_and_counted(tmp_path, caplog, field, text, reason):
    dataset, payload = small_housing(with_cell(7, field, text))
    with caplog.at_level(logging.WARNING):
        ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    assert (ref.n_rows, ref.rows_read, ref.repairs) == (299, 300, (Repair(reason, 1),))
    assert f"1 rows dropped ({reason}: 1)" in caplog.text
    assert SENTINEL not in caplog.text
    assert len(read_table(ref)) == 299


def unchecked_swarm(web, payload):
    """The swarm dataset with 40 frames of 2 boids, whose official address serves ``payload``."""
    dataset = replace(get_dataset("swarm"), n_rows=40, n_boids=2)
    path = "/swarm+behaviour.zip"
    return path, replace(dataset, source=replace(dataset.source, url=web.serve(path, payload)))


def whole_zip(n_rows):
    dataset = replace(get_dataset("swarm"), n_boids=2)
    lines = swarm.lines_of(dataset, *swarm.made(n_rows, n_boids=2))[:-1]
    return swarm.zipped({"Flocking": "\n".join(lines)})


def ingested(dataset, home, again=False):
    raw = fetch(dataset, home=home, mirror=None, offline=False, again=again)
    return to_parquet(dataset, raw, home=home, again=again)


def test_a_download_that_cannot_be_used_is_not_downloaded_again(tmp_path, web):
    path, dataset = unchecked_swarm(web, whole_zip(40))  # without the last row: 39
    for _ in range(2):
        with pytest.raises(CorruptSource, match=r"39 rows.*`dpcost ingest swarm --again`"):
            ingested(dataset, tmp_path)
    assert web.asked == [path]
    web.serve(path, whole_zip(41))
    assert ingested(dataset, tmp_path, again=True).n_rows == 40


def test_a_damaged_download_is_fetched_again(tmp_path, web):
    path, dataset = unchecked_swarm(web, whole_zip(41)[:-30])
    with pytest.raises(CorruptSource, match="truncated or damaged"):
        ingested(dataset, tmp_path)
    web.serve(path, whole_zip(41))
    assert ingested(dataset, tmp_path).n_rows == 40


def test_a_wrong_file_in_the_mirror_can_be_replaced(tmp_path):
    dataset, good = small_housing()
    _, bad = small_housing(lambda lines: lines[:-1])
    dataset = replace(dataset, source=replace(dataset.source, sha256="", note="no checksum is known"))
    mirror, home = tmp_path / "mirror", tmp_path / "home"
    file = mirror / dataset.source.file
    file.parent.mkdir(parents=True)
    file.write_bytes(bad)
    places: dict[str, Any] = {"home": home, "mirror": mirror, "offline": True}
    with pytest.raises(CorruptSource, match="has 299 rows"):
        to_parquet(dataset, fetch(dataset, **places), home=home)
    file.write_bytes(good)
    assert to_parquet(dataset, fetch(dataset, **places), home=home).n_rows == 300
