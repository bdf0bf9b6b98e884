"""Raw files, alone and in sets, come from the store, the mirror, the package or the network."""

import errno
import gzip
import hashlib
import logging
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from data.dataset import Dataset, Source
from data.datasets import get_dataset
from data.errors import CorruptSource, DataError, StoreError, Unreachable
from data.fetch.raw_files import EMBEDDED, fetch, fetch_or_stand_in
from data.store.folders import mirror_from_environment

HTML = b"\n<!DOCTYPE html><html><body>Not found, but politely</body></html>"

Small = Callable[..., tuple[Dataset, bytes]]


def mirrored(folder, payload):
    file = folder / "mirror" / "housing" / "cal_housing.tgz"
    file.parent.mkdir(parents=True)
    file.write_bytes(payload)
    return folder / "mirror"


def stored_files(home):
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())


def at(dataset, url):
    return replace(dataset, sources=(replace(dataset.sources[0], url=url),))


def test_order_is_store_then_mirror_then_official(tmp_path, small, web):
    dataset, payload = small()
    dataset = at(dataset, web.serve("/data", payload))
    home, mirror = tmp_path / "home", mirrored(tmp_path, payload)

    first = fetch(dataset, home=home, mirror=mirror, offline=False)
    assert first.origin == "mirror"
    assert first.source_url == dataset.sources[0].url
    assert Path(first.path).read_bytes() == payload
    assert fetch(dataset, home=home, mirror=mirror, offline=False) == replace(first, origin="store")
    assert web.asked == []

    other = fetch(dataset, home=tmp_path / "other", mirror=None, offline=False)
    assert (other.origin, other.sha256, other.layout) == ("official", first.sha256, "cal_housing_tgz")
    assert stored_files(tmp_path / "other") == ["store/raw/housing/cal_housing.tgz"]


def test_a_second_source_serves_when_the_first_does_not(tmp_path, small, web):
    dataset, payload = small()
    source = dataset.sources[0]
    gone = replace(source, file="housing/gone.tgz", url=web.address + "/gone", sha256="0" * 64)
    dataset = replace(dataset, sources=(gone, replace(source, url=web.serve("/data", payload))))
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert raw.source_url.endswith("/data")


def test_offline_never_asks_the_network(tmp_path, small, web):
    dataset, payload = small()
    dataset = at(dataset, web.serve("/data", payload))
    with pytest.raises(Unreachable, match="because of --offline") as caught:
        fetch(dataset, home=tmp_path, mirror=None, offline=True)
    assert web.asked == []
    assert not caught.value.transient
    assert caught.value.reasons == (
        "DPCOST_DATA_MIRROR is not set",
        f"{web.address}/data: not asked, because of --offline",
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda payload: payload[:-200], "a truncated or damaged archive"),
        (lambda payload: b"", "an empty file"),
        (lambda payload: HTML, "an HTML page"),
        (lambda payload: b"something else", "another file: its sha256 begins"),
    ],
)
@pytest.mark.parametrize("place", ["mirror", "official"])
def test_wrong_bytes_are_named_and_never_stored(tmp_path, small, web, place, damage, message):
    dataset, payload = small()
    home = tmp_path / "home"
    wrong = damage(payload)
    if place == "mirror":
        mirror = mirrored(tmp_path, wrong)
    else:
        mirror, dataset = None, at(dataset, web.serve("/data", wrong))
        if not wrong:
            message = "answered with an empty file"
    error = Unreachable if place == "official" and not wrong else CorruptSource
    with pytest.raises(error, match=message) as caught:
        fetch(dataset, home=home, mirror=mirror, offline=place == "mirror")
    assert "\n" not in str(caught.value)
    assert not caught.value.transient
    assert stored_files(home) == []
    if place == "official":
        assert web.asked == ["/data"]


def test_what_never_ends_is_not_copied(tmp_path, small, web, monkeypatch):
    dataset, payload = small()
    mirror = mirrored(tmp_path, b"")
    (mirror / "housing" / "cal_housing.tgz").unlink()
    (mirror / "housing" / "cal_housing.tgz").symlink_to("/dev/zero")
    with pytest.raises(Unreachable, match="not a regular file"):
        fetch(dataset, home=tmp_path / "home", mirror=mirror, offline=True)
    monkeypatch.setattr("data.fetch.arrivals.MAX_BYTES", len(payload) - 1)
    dataset = at(dataset, web.serve("/data", payload))
    with pytest.raises(CorruptSource, match="/data holds more than"):
        fetch(dataset, home=tmp_path / "home", mirror=None, offline=False)
    assert stored_files(tmp_path / "home") == []


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, small, build, monkeypatch):
    monkeypatch.setattr("data.formats.archives.STREAM_BYTES", 2**20)
    dataset, _ = small()
    source = replace(dataset.sources[0], sha256="", note="no checksum is known")
    dataset = replace(dataset, sources=(source,))
    for number, bomb in enumerate((build.zip("0" * 2**21), gzip.compress(bytes(2**21)))):
        with pytest.raises(CorruptSource, match="more than 1 MiB"):
            fetch(dataset, home=tmp_path, mirror=mirrored(tmp_path / str(number), bomb), offline=True)


@pytest.mark.parametrize(
    ("status", "transient", "asked"), [(404, False, 1), (403, False, 1), (500, True, 3), (429, True, 3)]
)
def test_only_transient_refusals_are_asked_again(tmp_path, small, web, status, transient, asked):
    dataset, payload = small()
    with pytest.raises(Unreachable, match=f"/data: answered {status}") as caught:
        fetch(at(dataset, web.serve("/data", status)), home=tmp_path, mirror=None, offline=False)
    assert caught.value.transient is transient
    assert len(web.asked) == asked
    assert stored_files(tmp_path) == []
    if transient:
        later = at(dataset, web.serve("/data", status, payload))
        assert fetch(later, home=tmp_path, mirror=None, offline=False).origin == "official"


def test_a_silent_server_is_transient_and_no_server_is_not(tmp_path, small, web, monkeypatch):
    import requests

    def too_slow(*args, **kwargs):
        raise requests.ReadTimeout

    dataset, _ = small()  # at port 9 of loopback, where nobody listens
    for message, transient in (("no connection", False), ("timed out", True)):
        with pytest.raises(Unreachable, match=message) as caught:
            fetch(dataset, home=tmp_path, mirror=None, offline=False)
        assert caught.value.transient is transient
        monkeypatch.setattr(requests, "get", too_slow)


def test_a_connection_that_breaks_off_is_transient(tmp_path, small, web):
    dataset, payload = small()
    dataset = at(dataset, web.serve("/data", payload[:100], cut_off=500))
    with pytest.raises(Unreachable, match="the connection broke off") as caught:
        fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert caught.value.transient
    assert stored_files(tmp_path) == []


def test_a_stalled_download_timed_out_and_is_transient(tmp_path, small, web, monkeypatch):
    monkeypatch.setattr("data.fetch.raw_files.TIMEOUT_SECONDS", (5.0, 0.1))
    dataset, payload = small()
    dataset = at(dataset, web.serve("/data", payload[:100], cut_off=500))
    web.stalling.add("/data")
    with pytest.raises(Unreachable, match="timed out") as caught:
        fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert caught.value.transient
    assert len(web.asked) == 3
    assert stored_files(tmp_path) == []


def test_a_disk_that_fills_up_while_downloading(tmp_path, small, web, monkeypatch):
    import pooch

    class Filling(pooch.HTTPDownloader):
        def __call__(self, url, output_file, pooch, check_only=False):
            output_file.write(b"part")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pooch, "HTTPDownloader", Filling)
    with pytest.raises(StoreError, match="the disk is full"):
        fetch(small()[0], home=tmp_path, mirror=None, offline=False)
    assert stored_files(tmp_path) == []


def test_unusable_mirrors_are_reasons(tmp_path, small):
    dataset, _ = small()
    with pytest.raises(Unreachable, match="DPCOST_DATA_MIRROR"):
        fetch(dataset, home=tmp_path, mirror=tmp_path / "none", offline=True)
    with pytest.raises(Unreachable, match=r"MIRROR/housing/cal_housing\.tgz: no such file"):
        fetch(dataset, home=tmp_path, mirror=tmp_path, offline=True)


def test_a_closed_folder_of_the_mirror_is_a_reason(tmp_path, small, web, monkeypatch):
    dataset, payload = small()
    mirror = mirrored(tmp_path, payload)
    stat = Path.stat

    def closed(path, **options):
        if path.is_relative_to(mirror / "housing"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(Unreachable, match="Permission denied"):
        fetch(dataset, home=tmp_path / "home", mirror=mirror, offline=True)
    dataset = at(dataset, web.serve("/data", payload))
    assert fetch(dataset, home=tmp_path / "home", mirror=mirror, offline=False).origin == "official"


def test_stand_in_only_when_nothing_was_delivered_with_reasons_that_name_no_place_of_this_machine(
    tmp_path, small
):
    dataset, _ = small()
    for mirror in (None, tmp_path / "none", tmp_path):
        raw = fetch_or_stand_in(dataset, home=tmp_path / "home", mirror=mirror, offline=True)
        assert (raw.origin, raw.path, raw.sha256, len(raw.reasons)) == ("stand-in", "", "", 2)
        assert not [reason for reason in raw.reasons if str(tmp_path) in reason]
    with pytest.raises(CorruptSource):
        fetch_or_stand_in(dataset, home=tmp_path, mirror=mirrored(tmp_path, b"junk"), offline=True)


def test_errors_survive_the_way_between_processes():
    fault = pickle.loads(pickle.dumps(Unreachable("no", reasons=("a", "b"), transient=True)))
    assert (str(fault), fault.reasons, fault.transient) == ("no", ("a", "b"), True)
    assert issubclass(Unreachable, DataError)
    assert not DataError("x").transient


def test_mirror_from_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("DPCOST_DATA_MIRROR", raising=False)
    assert mirror_from_environment() is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPCOST_DATA_MIRROR", "m")
    assert mirror_from_environment() == tmp_path / "m"


PAYLOADS = {"bed": b"calls", "bim": b"snps", "fam": b"people"}


def set_of(web=None, *, urls=True):
    def source(part, companions=()):
        url = ""
        if urls:
            url = web.serve(f"/{part}", PAYLOADS[part]) if web else f"http://127.0.0.1:9/{part}"
        sha256 = hashlib.sha256(PAYLOADS[part]).hexdigest()
        return Source(f"snp/x.{part}", url, part, sha256, note="made up", companions=companions)

    first = source("bed", (source("bim"), source("fam")))
    return replace(get_dataset("snp_hapmap3"), sources=(first,))


def mirrored_set(folder, *parts, **changed):
    for part in parts:
        file = folder / "mirror" / "snp" / f"x.{part}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(changed.get(part, PAYLOADS[part]))
    return folder / "mirror"


def contents(raw):
    return {file.layout: Path(file.path).read_bytes() for file in (raw, *raw.companions)}


def test_a_set_comes_from_the_mirror_then_from_the_store(tmp_path):
    mirror = mirrored_set(tmp_path, *PAYLOADS)
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
    raw = fetch(
        set_of(web), home=tmp_path / "home", mirror=mirrored_set(tmp_path, "bed", "fam"), offline=False
    )
    assert raw.origin == "official"
    assert contents(raw) == PAYLOADS
    assert web.asked == ["/bim"]


def test_a_set_is_delivered_whole_or_not_at_all(tmp_path):
    mirror = mirrored_set(tmp_path, "bed", "bim")
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
    assert "thrown away and fetched again" in caplog.text


def test_fetching_again_asks_every_place_but_the_store_which_stays_if_nothing_comes(tmp_path):
    home, mirror = tmp_path / "home", mirrored_set(tmp_path, *PAYLOADS)
    fetch(set_of(), home=home, mirror=mirror, offline=True)
    raw = fetch(set_of(), home=home, mirror=mirror, offline=True, again=True)
    assert raw.origin == "mirror"
    assert contents(raw) == PAYLOADS
    assert all(Path(file.path).is_relative_to(home / "store" / "raw") for file in (raw, *raw.companions))
    with pytest.raises(Unreachable):
        fetch(set_of(), home=home, mirror=None, offline=True, again=True)
    assert contents(raw) == PAYLOADS
    assert [path.name for path in home.iterdir()] == ["store"]


def set_without_checksums(web=None):
    """Return a dataset of three files, of which any content is accepted; only the last one has an address."""
    parts = [Source(f"snp/x.{part}", "", part, note="none is known") for part in PAYLOADS]
    if web:
        parts[-1] = replace(parts[-1], url=f"{web.address}/fam")
    return replace(get_dataset("snp_hapmap3"), sources=(replace(parts[0], companions=(parts[1], parts[2])),))


def test_a_set_of_which_a_file_does_not_come_leaves_the_stored_set_as_it_was(tmp_path):
    home, dataset = tmp_path / "home", set_without_checksums()
    fetch(dataset, home=home, mirror=mirrored_set(tmp_path, *PAYLOADS), offline=True)
    stored = stored_files(home)
    mirror = mirrored_set(tmp_path / "later", "bed", "bim", bed=b"other calls", bim=b"other snps")
    with pytest.raises(Unreachable, match=r"x\.fam: no such file"):
        fetch(dataset, home=home, mirror=mirror, offline=True, again=True)
    assert stored_files(home) == stored
    raw = fetch(dataset, home=home, mirror=mirror, offline=True)
    assert (raw.origin, contents(raw)) == ("store", PAYLOADS)

    mirrored_set(tmp_path / "later", "fam", fam=b"other people")
    raw = fetch(dataset, home=home, mirror=mirror, offline=True, again=True)
    assert contents(raw) == {"bed": b"other calls", "bim": b"other snps", "fam": b"other people"}
    assert stored_files(home) == stored


def test_an_interrupted_set_leaves_the_store_as_it_was(tmp_path, web, monkeypatch):
    import pooch

    class Interrupted(pooch.HTTPDownloader):
        def __call__(self, url, output_file, pooch, check_only=False):
            output_file.write(b"part")
            raise KeyboardInterrupt

    home, dataset = tmp_path / "home", set_without_checksums(web)
    raw = fetch(dataset, home=home, mirror=mirrored_set(tmp_path, *PAYLOADS), offline=True)
    stored = stored_files(home)
    monkeypatch.setattr(pooch, "HTTPDownloader", Interrupted)
    mirror = mirrored_set(tmp_path / "later", "bed", "bim", bed=b"other calls", bim=b"other snps")
    with pytest.raises(KeyboardInterrupt):
        fetch(dataset, home=home, mirror=mirror, offline=False, again=True)
    assert contents(raw) == PAYLOADS
    assert stored_files(home) == stored


def test_parts_of_a_set_are_not_stored_where_another_source_delivers(tmp_path):
    home, mirror = tmp_path / "home", mirrored_set(tmp_path, *PAYLOADS)
    first = set_without_checksums()
    raw = fetch(first, home=home, mirror=mirror, offline=True)
    (mirror / "snp" / "x.fam").unlink()
    mirrored_set(tmp_path, "bed", bed=b"other calls")
    (mirror / "snp" / "y.csv").write_bytes(b"a table")
    second = Source("snp/y.csv", "", "csv", note="none is known")
    both = replace(first, sources=(*first.sources, second))
    assert fetch(both, home=home, mirror=mirror, offline=True, again=True).layout == "csv"
    assert contents(raw) == PAYLOADS
    assert stored_files(home) == [
        "store/raw/snp/x.bed",
        "store/raw/snp/x.bim",
        "store/raw/snp/x.fam",
        "store/raw/snp/y.csv",
    ]


def test_without_a_checksum_visible_faults_are_refused_all_the_same(tmp_path, web):
    source = Source("snp/y.gz", web.serve("/y", b"<html></html>"), "geo_series_matrix", note="none is known")
    dataset = replace(get_dataset("snp_gse106818"), sources=(source,))
    with pytest.raises(CorruptSource, match="an HTML page"):
        fetch(dataset, home=tmp_path, mirror=None, offline=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_another_compressed_text_is_not_called_a_damaged_archive(tmp_path):
    mirror = mirrored_set(tmp_path, *PAYLOADS, bim=gzip.compress(b"other"))
    with pytest.raises(CorruptSource, match=r"x\.bim .*sha256"):
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


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(b"published" * 100)[:-10],
        gzip.compress(b"")[:10] + b"\xff" * 100,
        gzip.compress(b"published")[:-8] + bytes(8),
        b"no gzip",
    ],
    ids=["truncated", "no deflate stream", "wrong checksum", "no gzip"],
)
def test_a_damaged_packed_file_of_the_package_is_refused_and_the_official_address_asked(
    tmp_path, small, web, monkeypatch, caplog, packed
):
    monkeypatch.setattr("data.fetch.raw_files.EMBEDDED", tmp_path)
    (tmp_path / "housing").mkdir()
    (tmp_path / "housing" / "cal_housing.tgz.gz").write_bytes(packed)
    dataset, payload = small()
    source = replace(dataset.sources[0], url=web.serve("/data", payload), embedded=True)
    dataset = replace(dataset, sources=(source,))
    with pytest.raises(CorruptSource, match="truncated or damaged"):
        fetch(dataset, home=tmp_path / "home", mirror=None, offline=True)
    assert stored_files(tmp_path / "home") == []
    with caplog.at_level(logging.WARNING):
        raw = fetch(dataset, home=tmp_path / "home", mirror=None, offline=False)
    assert (raw.origin, Path(raw.path).read_bytes()) == ("official", payload)
    assert "truncated or damaged" in caplog.text


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
