"""Fetch a dataset's raw files into the store: from the mirror, the package or the network (by pooch)."""

import gzip
import logging
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic.dataclasses import dataclass

from data.dataset import PACKAGED, Dataset, Source
from data.datasets import get_dataset
from data.errors import CorruptSource, Unreachable
from data.store.folders import atomic_file, open_regular, sha256_file, store_dir

TIMEOUT_SECONDS = (5.0, 30.0)  # to connect, to wait for the next bytes

EMBEDDED = Path(__file__).parents[1] / "embedded"  # small public files that ship with the package

Origin = Literal["store", "mirror", "embedded", "official", "stand-in"]
_ORDER: tuple[Origin, ...] = ("store", "mirror", "embedded", "official", "stand-in")

# Writes the content of a file, and returns where it was found.
Place = Callable[[Source, BinaryIO], str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawFile:
    """A verified raw file in the store, or a record that there is none."""

    dataset: str
    path: str  # absolute, in the store; "" for a stand-in
    sha256: str
    source_url: str  # the official address, independent of the source
    layout: str  # the name of the parser
    origin: Origin  # where this call found it
    reasons: tuple[str, ...] = ()  # for a stand-in: each source with the reason why it failed
    companions: tuple["RawFile", ...] = ()  # the other files of the set

    @property
    def is_stand_in(self) -> bool:
        return self.origin == "stand-in"

    def absence(self) -> Unreachable:
        """Return an error which says that no source has the file."""
        why = f"{self.dataset} is not available here: {'; '.join(self.reasons)}"
        return Unreachable(f"{why}; {_remedy(get_dataset(self.dataset))}", reasons=(why,))

    def provenance(self, table: Path) -> dict[str, Any]:
        """Return the origin facts for a reference to a table from this file."""
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
    """Return the dataset's verified raw files from the cheapest source.

    The sources are, in order, the store, the mirror, the package and the official address. With ``again``,
    the store is skipped, and its file stays unless another source delivers one.
    """
    files: list[RawFile] = []
    for file in dataset.source.files:
        target = store_dir(home) / "raw" / file.file
        places: dict[Origin, Place] = {"mirror": partial(_from_mirror, mirror)}
        if file.embedded:
            places["embedded"] = _from_package
        places["official"] = partial(_from_address, offline=offline, progress=progress)
        if sha256 := "" if again else _stored(target, file):
            origin: Origin = "store"
        else:
            origin, sha256 = _first_of(places, file, target, dataset), sha256_file(target)
        files.append(RawFile(dataset.name, str(target), sha256, file.url, file.layout, origin))
    farthest = max((each.origin for each in files), key=_ORDER.index)
    first, *others = (replace(each, origin=farthest) for each in files)
    return replace(first, companions=tuple(others))


def fetch_or_stand_in(dataset: Dataset, *, last_try: bool = True, **places: Any) -> RawFile:
    """Return the dataset's raw file, or a `RawFile` of origin ``"stand-in"`` if no source has it.

    ``places`` are the arguments of `fetch`. Wrong bytes are still refused. Before the last try, a transient
    fault is raised.
    """
    try:
        return fetch(dataset, **places)
    except Unreachable as fault:
        if fault.transient and not last_try:
            raise
        return RawFile(dataset.name, "", "", "", "", "stand-in", fault.reasons)


def _stored(path: Path, file: Source) -> str:
    """Return the checksum of the stored file, or "" if it is missing or another file."""
    with suppress(OSError):  # one that cannot be read is fetched again
        if path.exists() and file.sha256 in ("", sha256 := sha256_file(path)):
            return sha256
    if path.exists():
        _log.warning("the stored copy %s is not the published file, and is fetched again", path)
    return ""


def _first_of(places: dict[Origin, Place], file: Source, target: Path, dataset: Dataset) -> Origin:
    """Get a file from the first source that has it; if none does, report the reason of each."""
    faults: list[Unreachable | CorruptSource] = []
    for origin, place in places.items():
        try:
            _bring(place, file, target)
        except (Unreachable, CorruptSource) as fault:
            faults.append(fault)
        else:
            for refused in (one for one in faults if isinstance(one, CorruptSource)):
                _log.warning("%s; %s was found elsewhere", refused, dataset.name)
            return origin
    reasons = tuple(map(str, faults))
    message = f"{'; '.join(reasons)}; {_remedy(dataset)} and run again"
    if any(isinstance(fault, CorruptSource) for fault in faults):
        raise CorruptSource(f"dataset {dataset.name!r} was refused: {message}")
    raise Unreachable(
        f"dataset {dataset.name!r} could not be reached: {message}",
        reasons=reasons,
        transient=any(fault.transient for fault in faults),
    )


def _remedy(dataset: Dataset) -> str:
    files = ", ".join(file.file for file in dataset.source.files)
    return f"put {files} into a folder, and name that folder in DPCOST_DATA_MIRROR"


def _bring(place: Place, file: Source, target: Path) -> None:
    """Write a file atomically; refuse one whose checksum is not that of the published file."""
    with atomic_file(target) as handle:
        where = place(file, handle)
        handle.flush()
        if file.sha256 not in ("", sha256_file(Path(handle.name))):
            raise CorruptSource(f"{where} is not the published file: its sha256 differs")


def _from_mirror(mirror: Path | None, file: Source, handle: BinaryIO) -> str:
    if mirror is None:
        raise Unreachable("DPCOST_DATA_MIRROR is not set")
    try:
        copy = open_regular(mirror / file.file)
    except FileNotFoundError:
        raise Unreachable(f"DPCOST_DATA_MIRROR/{file.file}: no such file") from None
    except OSError as error:
        raise Unreachable(f"DPCOST_DATA_MIRROR/{file.file}: cannot be read ({error.strerror})") from None
    with copy:
        shutil.copyfileobj(copy, handle)
    return str(mirror / file.file)


def _from_package(file: Source, handle: BinaryIO) -> str:
    """Copy a file that ships with the package; unpack it if only its gzip exists."""
    plain = EMBEDDED / file.file
    packed = plain.with_name(f"{plain.name}.gz")
    try:
        with open(plain, "rb") if plain.exists() else gzip.open(packed) as copy:
            shutil.copyfileobj(copy, handle)
    except FileNotFoundError:
        raise Unreachable(f"{packed}: the file is missing from this installation; install it again") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorruptSource(f"{packed} is a truncated or damaged archive") from None
    return str(plain)


def _from_address(file: Source, handle: BinaryIO, *, offline: bool, progress: bool) -> str:
    """Copy a file of an installed package, or download it once; the flow repeats failed downloads."""
    if not file.url:
        raise Unreachable("no official address")
    if file.url.startswith(PACKAGED):
        package, _, path = file.url.removeprefix(PACKAGED).partition("/")
        try:
            copy = files(package).joinpath(path).open("rb")
        except (ImportError, OSError):
            raise Unreachable(f"{file.url}: the installed package has no such file") from None
        with copy:
            shutil.copyfileobj(copy, handle)
        return file.url
    if offline:
        raise Unreachable(f"{file.url}: not tried, because of --offline")
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT_SECONDS)(file.url, handle, None)
    except requests.RequestException as error:
        status = error.response.status_code if error.response is not None else 0
        may_pass = status >= 500 or status == 429
        may_pass |= isinstance(error, requests.Timeout | requests.exceptions.ChunkedEncodingError)
        reason = f"answered {status}" if status else type(error).__name__
        raise Unreachable(f"{file.url}: {reason}", transient=may_pass) from None
    return file.url
