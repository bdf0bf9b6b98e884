"""Fetch a dataset's raw files into the store: from the mirror, the package or the network (by pooch)."""

import logging
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from pydantic.dataclasses import dataclass

from data.dataset import PACKAGED, Dataset, Source
from data.errors import CorruptSource, Unreachable
from data.formats.archives import open_plain
from data.store.folders import atomic_file, open_regular, sha256_file, store_dir

TIMEOUT_SECONDS = (5.0, 30.0)  # to connect, to wait for the next bytes

EMBEDDED = Path(__file__).parents[1] / "embedded"  # small public files that ship with the package

Origin = Literal["store", "mirror", "embedded", "official", "stand-in"]
_ORDER: tuple[Origin, ...] = ("store", "mirror", "embedded", "official", "stand-in")
Opener = Callable[[], AbstractContextManager[IO[bytes]]]

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
        remedy = "put its files into a folder, and name it in DPCOST_DATA_MIRROR"
        return Unreachable(f"{why}; {remedy}", reasons=(why,))

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
        origin: Origin = "store"
        if again or not _is_stored(target, file):
            origin = _bring(dataset, file, target, mirror, offline=offline, progress=progress)
        sha256 = sha256_file(target)
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


def _is_stored(path: Path, file: Source) -> bool:
    try:
        if not path.exists() or file.sha256 in ("", sha256_file(path)):
            return path.exists()
        reason = "differs"
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    _log.warning("the stored copy %s %s and is fetched again", path, reason)
    return False


def _bring(
    dataset: Dataset, file: Source, target: Path, mirror: Path | None, *, offline: bool, progress: bool
) -> Origin:
    """Write a file from the first source that has it; if none does, report the reason of each."""
    faults: list[Unreachable | CorruptSource] = []
    for origin, name, write in _places(file, mirror, offline=offline, progress=progress):
        try:
            with atomic_file(target) as handle:
                write(handle)
                handle.flush()
                if file.sha256 not in ("", sha256_file(Path(handle.name))):
                    raise CorruptSource(f"{name} is not the published file: its sha256 differs")
        except (Unreachable, CorruptSource) as fault:
            faults.append(fault)
            continue
        for refused in (one for one in faults if isinstance(one, CorruptSource)):
            _log.warning("%s; %s was found elsewhere", refused, dataset.name)
        return origin
    reasons = tuple(map(str, faults))
    remedy = (
        f"put {', '.join(each.file for each in dataset.source.files)} into a folder, name that folder in "
        "DPCOST_DATA_MIRROR and run again"
    )
    message = f"{'; '.join(reasons)}; {remedy}"
    if any(isinstance(fault, CorruptSource) for fault in faults):
        raise CorruptSource(f"dataset {dataset.name!r} was refused: {message}")
    raise Unreachable(
        f"dataset {dataset.name!r} could not be reached: {message}",
        reasons=reasons,
        transient=any(fault.transient for fault in faults),
    )


def _places(
    file: Source, mirror: Path | None, *, offline: bool, progress: bool
) -> Iterator[tuple[Origin, str, Callable[[BinaryIO], None]]]:
    """Yield the sources of a file, each with its name and the function that writes the file."""
    if mirror is None:
        yield "mirror", "", partial(_refuse, "DPCOST_DATA_MIRROR is not set")
    else:
        path = mirror / file.file
        yield (
            "mirror",
            str(path),
            partial(_copy, f"DPCOST_DATA_MIRROR/{file.file}", lambda: open_regular(path)),
        )
    if file.embedded:
        plain = EMBEDDED / file.file
        packed = plain.with_name(f"{plain.name}.gz")
        opened: Opener = partial(plain.open, "rb")
        if not plain.exists():
            opened = partial(open_plain, packed)
        yield "embedded", str(plain), partial(_copy, str(packed), opened)
    if file.url.startswith(PACKAGED):
        package, _, inner = file.url.removeprefix(PACKAGED).partition("/")
        yield (
            "official",
            file.url,
            partial(_copy, file.url, lambda: files(package).joinpath(inner).open("rb")),
        )
    elif not file.url or offline:
        missing = (
            f"{file.url}: not tried, because of --offline" if file.url else "there is no official address"
        )
        yield "official", "", partial(_refuse, missing)
    else:
        yield "official", file.url, partial(_download, file.url, progress=progress)


def _refuse(reason: str, _: BinaryIO) -> None:
    raise Unreachable(reason)


def _copy(name: str, opened: Opener, handle: BinaryIO) -> None:
    try:
        source = opened()
    except ImportError:
        raise Unreachable(f"{name}: the package is not installed") from None
    except OSError as error:
        raise Unreachable(f"{name}: {error.strerror}") from None
    try:
        with source as copy:
            shutil.copyfileobj(copy, handle)
    except (EOFError, zlib.error):
        raise CorruptSource(f"{name} is a truncated or damaged archive") from None


def _download(url: str, handle: BinaryIO, *, progress: bool) -> None:
    """Download a file once; the flow repeats failed downloads."""
    import pooch
    import requests

    download = pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT_SECONDS)
    try:
        download(url, handle, None)
    except requests.RequestException as error:
        status = error.response.status_code if error.response is not None else 0
        may_pass = status >= 500 or status == 429
        may_pass |= isinstance(error, requests.Timeout | requests.exceptions.ChunkedEncodingError)
        reason = f"answered {status}" if status else type(error).__name__
        raise Unreachable(f"{url}: {reason}", transient=may_pass) from None
