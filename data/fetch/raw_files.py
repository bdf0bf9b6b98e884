"""Fetch a dataset's raw files into the store: from the mirror, the package or the official address.

A source may be several files that belong together; they are delivered all or not at all, see
`data.fetch.arrivals`.
"""

import gzip
import logging
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic.dataclasses import dataclass

from data.dataset import PACKAGED, Dataset, Source
from data.errors import CorruptSource, DataError, Unreachable
from data.fetch.arrivals import Arrivals, verified
from data.store.folders import open_regular, store_dir

ATTEMPTS = 3
RETRY_WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = (5.0, 30.0)  # to connect, to wait for the next bytes

EMBEDDED = Path(__file__).parents[1] / "embedded"  # small public files that ship with the package

Origin = Literal["store", "mirror", "embedded", "official", "stand-in"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawFile:
    """A verified raw file in the store, or the fact that there is none."""

    dataset: str
    path: str  # absolute, in the store; "" for a stand-in
    sha256: str
    source_url: str  # official, wherever the file came from
    layout: str  # the name of the parser
    origin: Origin  # where this call found it
    reasons: tuple[str, ...] = ()  # for a stand-in: each place tried and why it did not deliver
    companions: tuple["RawFile", ...] = ()  # the other files of the set

    @property
    def is_stand_in(self) -> bool:
        return self.origin == "stand-in"

    def provenance(self, table: Path) -> dict[str, Any]:
        """Return what a reference to a table made of this file says of its origin."""
        return {
            "name": self.dataset,
            "path": str(table),
            "sha256": "",
            "source_sha256": self.sha256,
            "source_url": self.source_url,
            "layout": self.layout,
            "origin": self.origin,
            "data_source": "stand-in" if self.is_stand_in else "real",
            "reasons": self.reasons,
        }


def fetch(
    dataset: Dataset,
    *,
    home: Path,
    mirror: Path | None,
    offline: bool,
    progress: bool = False,
    again: bool = False,
) -> RawFile:
    """Return the dataset's raw file, verified, looking first where it costs least.

    The store comes first (a damaged copy there is thrown away with a warning), then the mirror, then the
    files that ship with the package, then each official address, which is tried up to three times if the
    fault may pass. Of a set of files, each place is asked for what the ones before it lack; what comes is
    stored once the set is complete. With ``again`` the store is not looked at, and stays as it is unless
    the other places deliver a whole set.
    """
    raw_dir = store_dir(home) / "raw"
    held: dict[str, str] = {}  # checksums of the files that are stored or have arrived
    arrivals = Arrivals()
    places: dict[Origin, Callable[[Source, Path], str | None]] = {
        "store": _stored,
        "mirror": partial(_bring_from_mirror, arrivals=arrivals, mirror=mirror),
        "embedded": partial(_bring_embedded, arrivals=arrivals),
        "official": partial(_bring_official, arrivals=arrivals, offline=offline, progress=progress),
    }
    if again:
        del places["store"]
    faults: list[DataError] = []
    with arrivals:
        for origin, bring in places.items():
            for source in dataset.sources:
                for file in source.files:
                    if file.file not in held and (origin != "embedded" or file.embedded):
                        try:
                            if sha256 := bring(file, raw_dir / file.file):
                                held[file.file] = sha256
                        except (Unreachable, CorruptSource) as fault:
                            faults.append(fault)
                if all(file.file in held for file in source.files):
                    for refused in (one for one in faults if isinstance(one, CorruptSource)):
                        _log.warning("%s; %s was found elsewhere", refused, dataset.name)
                    arrivals.complete.update(raw_dir / file.file for file in source.files)
                    return _raw_file(dataset, source, raw_dir, held, origin)
        raise _error_of_all_places(dataset, faults)


def set_aside(dataset: Dataset, raw: RawFile, *, home: Path) -> tuple[Path, ...]:
    """Move files that differ from the published ones out of the store, and return where they are now.

    Those whose whole checksum is known stay: they are what was published.
    """
    raw_dir, aside = store_dir(home) / "raw", store_dir(home) / "refused"
    known_in_full = {file.file for source in dataset.sources for file in source.files if file.sha256}
    moved = []
    for file in (raw, *raw.companions):
        path = Path(file.path)
        if path.is_relative_to(raw_dir) and path.exists():
            name = path.relative_to(raw_dir)
            if name.as_posix() not in known_in_full:
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                moved.append(path.replace(aside / name))
    return tuple(moved)


def fetch_or_stand_in(dataset: Dataset, *, last_try: bool = True, **places: Any) -> RawFile:
    """Return the dataset's raw file, or a `RawFile` of origin ``"stand-in"`` if no place has it.

    ``places`` are the arguments of `fetch`; wrong bytes are still refused. Unless this is the last try, a
    fault that may pass is raised.
    """
    try:
        return fetch(dataset, **places)
    except Unreachable as fault:
        if fault.transient and not last_try:
            raise
        return RawFile(dataset.name, "", "", "", "", "stand-in", fault.reasons)


def _raw_file(
    dataset: Dataset, source: Source, raw_dir: Path, held: dict[str, str], origin: Origin
) -> RawFile:
    first, *others = (
        RawFile(dataset.name, str(raw_dir / file.file), held[file.file], file.url, file.layout, origin)
        for file in source.files
    )
    return replace(first, companions=tuple(others))


def _error_of_all_places(dataset: Dataset, faults: list[DataError]) -> DataError:
    # The same fact about the mirror would be told once per file.
    reasons = tuple(dict.fromkeys(str(fault) for fault in faults))
    files = " or ".join(", ".join(file.file for file in source.files) for source in dataset.sources)
    remedy = f"put {files} into a folder, name that folder in DPCOST_DATA_MIRROR and run again"
    if any(isinstance(fault, CorruptSource) for fault in faults):
        return CorruptSource(f"dataset {dataset.name!r} was refused: {'; '.join(reasons)}; {remedy}")
    return Unreachable(
        f"dataset {dataset.name!r} could not be reached: {'; '.join(reasons)}; {remedy}",
        reasons=reasons,
        transient=any(fault.transient for fault in faults),
    )


def _stored(source: Source, path: Path) -> str | None:
    """Return the checksum of the stored copy, or None if it is absent or was thrown away."""
    try:
        return verified(path, source, str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("the stored copy %s cannot be read (%s); it is fetched again", path, error.strerror)
    except CorruptSource as fault:
        _log.warning("the stored copy %s; it is thrown away and fetched again", fault)
        try:
            path.unlink()
        except OSError:
            _log.warning("%s could not be removed; the next copy replaces it", path)
    return None


def _bring_from_mirror(source: Source, target: Path, *, arrivals: Arrivals, mirror: Path | None) -> str:
    if mirror is None:
        raise Unreachable("DPCOST_DATA_MIRROR is not set")
    candidate = mirror / source.file
    try:
        if not mirror.is_dir():
            raise Unreachable("DPCOST_DATA_MIRROR is not a folder")
        copy = open_regular(candidate)  # a fault here is the mirror's, one below is the store's
    except FileNotFoundError:
        raise Unreachable(f"DPCOST_DATA_MIRROR/{source.file}: no such file") from None
    except OSError as error:
        raise Unreachable(f"DPCOST_DATA_MIRROR/{source.file}: cannot be read ({error.strerror})") from None
    with copy:
        return arrivals.add(lambda handle: shutil.copyfileobj(copy, handle), source, target, str(candidate))


def _bring_embedded(source: Source, target: Path, *, arrivals: Arrivals) -> str:
    """Copy a file that ships with the package, unpacking it if only its gzip is there."""
    plain = EMBEDDED / source.file
    packed = plain.with_name(f"{plain.name}.gz")
    try:
        copy = open(plain, "rb") if plain.exists() else gzip.open(packed)  # noqa: SIM115
    except OSError:
        raise Unreachable(f"{packed}: this installation lacks the file; install it again") from None
    with copy:
        try:
            return arrivals.add(lambda handle: shutil.copyfileobj(copy, handle), source, target, str(plain))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise CorruptSource(f"{packed} holds a truncated or damaged archive") from None


def _bring_official(
    source: Source, target: Path, *, arrivals: Arrivals, offline: bool, progress: bool
) -> str:
    if not source.url:
        raise Unreachable("no official address; put the files into DPCOST_DATA_MIRROR")
    if source.url.startswith(PACKAGED):
        return arrivals.add(partial(_copy_packaged, source.url), source, target, source.url)
    if offline:
        raise Unreachable(f"{source.url}: not asked, because of --offline")
    download = partial(_download, source.url, progress=progress)
    for attempt in range(1, ATTEMPTS):
        try:
            return arrivals.add(download, source, target, source.url)
        except Unreachable as fault:
            if not fault.transient:
                raise
            _log.info("%s; attempt %d of %d follows", fault, attempt + 1, ATTEMPTS)
            time.sleep(RETRY_WAIT_SECONDS * attempt)
    return arrivals.add(download, source, target, source.url)


def _copy_packaged(url: str, handle: BinaryIO) -> None:
    package, _, path = url.removeprefix(PACKAGED).partition("/")
    try:
        with files(package).joinpath(path).open("rb") as packaged:
            shutil.copyfileobj(packaged, handle)
    except (ImportError, OSError):
        raise Unreachable(f"{url}: the installed package has no such file") from None


def _download(url: str, handle: BinaryIO, *, progress: bool) -> None:
    import pooch
    import requests

    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=TIMEOUT_SECONDS)
    try:
        downloader(url, handle, None)
    except requests.RequestException as error:
        reason, transient = _what_failed(error)
        raise Unreachable(f"{url}: {reason}", transient=transient) from None
    if handle.tell() == 0:
        raise Unreachable(f"{url}: answered with an empty file")


def _what_failed(error: Exception) -> tuple[str, bool]:
    """Return the reason why a download failed, and whether the next one may succeed."""
    import requests
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    if isinstance(error, requests.HTTPError):
        status = error.response.status_code if error.response is not None else 0
        return f"answered {status}", status >= 500 or status == 429
    if isinstance(error, requests.ConnectTimeout):
        return "no connection (nothing answers)", False
    stalled = any(isinstance(each, ReadTimeoutError) for each in error.args)  # in the body
    if stalled or isinstance(error, requests.Timeout):
        return "timed out", True
    was_made = any(isinstance(each, ProtocolError) for each in error.args)
    if was_made or isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off", True
    return "no connection (network down or unknown host)", False
