"""Checks of the files that a command writes for its user.

A command never replaces its inputs, the files that its study or release file names, or files of DPCOST_HOME.
It replaces any other existing file only with ``--force``. All checks precede computation and charges.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import atomic_write, check_replaceable, file_identity, home, read_small

_BEGUN = ".dpcost-run"  # in a folder that a run made for its report
_Identity = tuple[int, int]


def check_outputs(
    files: Iterable[Path | None], *, inputs: Iterable[object] = (), force: bool = False
) -> None:
    """Refuse files that may not be written.

    A folder in ``inputs`` means all its files; addresses and missing files are ignored.
    """
    outputs = [file for file in files if file is not None]
    protected = {identity: file for each in inputs if outputs for identity, file in _identities(each)}
    for i, file in enumerate(outputs):
        _check(file, protected, force=force)
        if _spelled(file) in map(_spelled, outputs[:i]):
            raise StoreError(f"{file} would be written twice; use a different name for each output")


def claim_report(folder: Path, source: Path | None = None) -> None:
    """Refuse a report folder with other files, or of another source; create a missing one, and mark it.

    ``source`` is the user's study or plan. A source that was moved or deleted does not keep its folder.
    """
    mark = folder / _BEGUN
    if folder.is_dir():
        known = {"manifest.json", _BEGUN} & {each.name for each in folder.iterdir()}
        if any(folder.iterdir()) and not known:
            raise StoreError(
                f"--out must not put a report into {folder}, which holds files that no run wrote; choose "
                "another folder, or move them"
            )
    if source and (other := _source_of(mark)) and other != source.resolve():
        raise StoreError(
            f"--out must not put the report of {source} into {folder}, which has that of {other}; choose "
            "another folder, or rename one of the two"
        )
    with suppress(OSError, StoreError):  # writing the report will give the reason
        folder.mkdir(parents=True, exist_ok=True)
        if source or not mark.exists():
            atomic_write(mark, str(source.resolve()).encode() if source else b"", private=True)


def _source_of(mark: Path) -> Path | None:
    """Return the study or plan whose report is in a marked folder, if it still exists."""
    with suppress(OSError, ValueError):
        source = Path(read_small(mark).decode())
        return source if source.is_file() else None
    return None


def files_named_by(file: Path) -> Iterator[Path]:
    """Yield a study or release file, and recursively the files that it names."""
    todo, visited = [file], set[Path]()
    while todo:
        one = todo.pop()
        if one in visited:
            continue
        visited.add(one)
        yield one
        if one.suffix == ".toml":
            with suppress(OSError, ValueError):
                texts = texts_in(tomllib.loads(read_small(one).decode("utf-8-sig")))
                todo += [path for text in texts if text and (path := one.parent / text).exists()]


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts within the values of a TOML file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def _identities(source: object) -> Iterator[tuple[_Identity, Path]]:
    """Yield the identity and the path of a file, or of all files in a folder."""
    path = Path(str(source))
    with suppress(OSError, ValueError):
        for file in path.rglob("*") if path.is_dir() else [path]:
            yield file_identity(file), file


def _check(file: Path, protected: dict[_Identity, Path], *, force: bool) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        if replaced := protected.get(file_identity(file)):
            text = "the file" if replaced.absolute() == file.absolute() else f"the file {replaced}"
            raise StoreError(
                f"cannot write {file}: it is {text} that this command reads; choose another name"
            )
    check_replaceable(file)
    folder = next(each for each in file.absolute().parents if each.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write {file}: {folder} is not a writable folder; choose another one")
    if not file.exists():
        return
    if Path(_spelled(file)).is_relative_to(home()):
        raise StoreError(f"cannot write {file}: DPCOST_HOME keeps a file there; choose another name")
    if not force:
        raise StoreError(f"{file} already exists; choose another name, or add --force to replace it")


def _spelled(file: Path) -> str:
    """Return a file's path with links resolved."""
    return str(file.parent.resolve() / file.name)
