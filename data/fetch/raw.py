"""Fetch a dataset's raw files into the store: from the mirror, the package or the official address.

A source may be several files that belong together: `fetch` returns them only if it has all of them.
"""

import gzip
import logging
import shutil
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic.dataclasses import dataclass

from data.dataset import PACKAGED, Dataset, Source
from data.errors import CorruptSource, DataError, Unreachable
from data.store.folders import atomic_file, open_regular, sha256_file, store_dir

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

    The store comes first (a damaged copy there is fetched again, with a warning), then the mirror, then the
    files that ship with the package, then the official address. With ``again`` the store is not looked at;
    a file in it stays unless another place has one.
    """
    faults: list[DataError] = []
    places: dict[Origin, Callable[[Source, BinaryIO], None]] = {
        "mirror": partial(_copy_from_mirror, mirror),
        "embedded": _copy_from_package,
        "official": partial(_download, offline, progress),
    }
    for source in dataset.sources:
        with suppress(Unreachable, CorruptSource):
            first, *others = (
                _delivered(dataset, file, store_dir(home) / "raw" / file.file, places, again, faults)
                for file in source.files
            )
            origin = max((file.origin for file in (first, *others)), key=("store", *places).index)
            return replace(first, origin=origin, companions=tuple(others))
    raise _error_of_all_places(dataset, faults)


def set_aside(dataset: Dataset, raw: RawFile, *, home: Path) -> tuple[Path, ...]:
    """Move files that differ from the published ones out of the store, and return where they are now.

    Those whose checksum is known stay: they are what was published.
    """
    raw_dir, aside = store_dir(home) / "raw", store_dir(home) / "refused"
    are_known = {file.file for source in dataset.sources for file in source.files if file.sha256}
    moved = []
    for file in (raw, *raw.companions):
        path = Path(file.path)
        if path.is_relative_to(raw_dir) and path.exists():
            name = path.relative_to(raw_dir)
            if name.as_posix() not in are_known:
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


def _delivered(
    dataset: Dataset,
    file: Source,
    target: Path,
    places: Mapping[Origin, Callable[[Source, BinaryIO], None]],
    again: bool,
    faults: list[DataError],
) -> RawFile:
    """Return a file from the store or the first place that has it; add to ``faults`` if none has."""
    found = partial(RawFile, dataset.name, str(target), source_url=file.url, layout=file.layout)
    if not again and (sha256 := _stored(file, target)):
        return found(sha256=sha256, origin="store")
    refused: list[DataError] = []
    for origin, write in places.items():
        if origin == "embedded" and not file.embedded:
            continue
        try:
            with atomic_file(target) as handle:
                write(file, handle)
                handle.flush()
                sha256 = sha256_file(Path(handle.name))
                if file.sha256 not in ("", sha256):
                    raise CorruptSource(
                        f"{file.file}, {origin}, is another file: its sha256 begins {sha256[:8]}, expected "
                        f"{file.sha256[:8]}"
                    )
        except (Unreachable, CorruptSource) as fault:
            refused.append(fault)
            continue
        for wrong in (each for each in refused if isinstance(each, CorruptSource)):
            _log.warning("%s; it was found elsewhere", wrong)
        return found(sha256=sha256, origin=origin)
    faults.extend(refused)
    raise refused[-1]


def _error_of_all_places(dataset: Dataset, faults: list[DataError]) -> DataError:
    # The same fact about the mirror would be told once per file.
    reasons = tuple(dict.fromkeys(str(fault) for fault in faults))
    names = " or ".join(", ".join(file.file for file in source.files) for source in dataset.sources)
    remedy = f"put {names} into a folder, name that folder in DPCOST_DATA_MIRROR and run again"
    if any(isinstance(fault, CorruptSource) for fault in faults):
        return CorruptSource(f"dataset {dataset.name!r} was refused: {'; '.join(reasons)}; {remedy}")
    return Unreachable(
        f"dataset {dataset.name!r} could not be reached: {'; '.join(reasons)}; {remedy}",
        reasons=reasons,
        transient=any(fault.transient for fault in faults),
    )


def _stored(file: Source, path: Path) -> str:
    """Return the checksum of the stored copy; empty if it is absent or damaged."""
    try:
        sha256 = sha256_file(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        _log.warning("the stored copy %s cannot be read (%s); it is fetched again", path, error.strerror)
        return ""
    if file.sha256 in ("", sha256):
        return sha256
    _log.warning("the stored copy %s is damaged; it is fetched again", path)
    return ""


def _copy_from_mirror(mirror: Path | None, file: Source, target: BinaryIO) -> None:
    if mirror is None:
        raise Unreachable("DPCOST_DATA_MIRROR is not set")
    if not mirror.is_dir():
        raise Unreachable("DPCOST_DATA_MIRROR is not a folder")
    try:
        source = open_regular(mirror / file.file)  # a fault here is the mirror's, one below is the store's
    except OSError as error:
        reason = (
            "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        )
        raise Unreachable(f"DPCOST_DATA_MIRROR/{file.file}: {reason}") from None
    with source:
        shutil.copyfileobj(source, target)


def _copy_from_package(file: Source, target: BinaryIO) -> None:
    """Copy a file that ships with the package; unpack it if only its gzip is there."""
    plain = EMBEDDED / file.file
    try:
        with open(plain, "rb") if plain.exists() else gzip.open(f"{plain}.gz") as source:
            content = source.read()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorruptSource(f"{file.file} of this installation is damaged; install it again") from None
    except OSError:
        raise Unreachable(f"{file.file}: this installation lacks the file; install it again") from None
    target.write(content)


def _download(offline: bool, progress: bool, file: Source, target: BinaryIO) -> None:
    import pooch
    import requests

    if not file.url:
        raise Unreachable("no official address; put the files into DPCOST_DATA_MIRROR")
    if file.url.startswith(PACKAGED):
        package, _, path = file.url.removeprefix(PACKAGED).partition("/")
        try:
            target.write(files(package).joinpath(path).read_bytes())
        except (ImportError, OSError):
            raise Unreachable(f"{file.url}: the installed package has no such file") from None
        return
    if offline:
        raise Unreachable(f"{file.url}: not asked, because of --offline")
    try:
        pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT_SECONDS)(file.url, target, None)
    except requests.RequestException as error:
        status = error.response.status_code if error.response is not None else 0
        reason = f"answered {status}" if status else f"no answer ({type(error).__name__})"
        may_pass = status >= 500 or status == 429 or _broke_off(error)
        raise Unreachable(f"{file.url}: {reason}", transient=may_pass) from None


def _broke_off(error: Exception) -> bool:
    """Whether a server answered and then did not go on, which may be otherwise in a moment."""
    from requests import ConnectTimeout, Timeout
    from requests.exceptions import ChunkedEncodingError
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    within = any(isinstance(each, ProtocolError | ReadTimeoutError) for each in error.args)
    timed_out = isinstance(error, Timeout) and not isinstance(error, ConnectTimeout)
    return within or timed_out or isinstance(error, ChunkedEncodingError)
