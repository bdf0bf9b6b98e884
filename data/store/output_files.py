"""The files that a command writes for its user: none takes the place of what the user needs or made.

An input of the command is never replaced, nor is a file that its study or release file names, nor one of the
home. Any other file that is there is replaced only if the same command wrote it as it is now, which the home
remembers, or with ``--force``. All of this is checked before anything is computed or charged.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import check_replaceable, file_identity, home, private_folder, read_small, sha256_file

_WRITTEN = "written.txt"  # of the home, a line for each file: checksum, command and path
_FOLDER = "folder"  # in the place of the checksum
_Identity = tuple[int, int]


@contextmanager
def output_files(
    command: str, files: Iterable[Path | None], *, inputs: Iterable[object] = (), force: bool = False
) -> Iterator[None]:
    """Refuse files that may not be written; remember them once the body has written them.

    Of ``inputs``, folders stand for all files in them; addresses and what is not there count for nothing.
    """
    named = [file for file in files if file is not None]
    if named:
        protected = {identity: found for each in inputs for identity, *found in _identities(each)}
        written = _written()
        for i, file in enumerate(named):
            _check(command, file, protected, written, force=force)
            if _spelled(file) in map(_spelled, named[:i]):
                raise StoreError(f"{file} would be written twice; give each output a name of its own")
    yield
    _remember(_line(command, file) for file in named)


def claim_report(folder: Path) -> None:
    """Refuse a folder for a report that holds other files, unless a run began to write it."""
    line = f"{_FOLDER} run {_spelled(folder)}"
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "manifest.json").is_file():
        if line not in _written():
            raise StoreError(
                f"--out must not put a report into {folder}, which holds files that no run wrote; choose "
                "another folder, or move them"
            )
        return
    if not folder.exists():
        _remember([line])


def files_named_by(file: Path) -> Iterator[Path]:
    """Yield a study or release file, and the files that it and those name."""
    todo, seen = [file], set[Path]()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        yield one
        if one.suffix == ".toml":
            with suppress(OSError, ValueError):
                texts = _texts(tomllib.loads(read_small(one).decode()))
                todo += [path for text in texts if text and (path := one.parent / text).exists()]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _identities(source: object) -> Iterator[tuple[_Identity, Path, bool]]:
    """Yield the identity of a file, or of all files in a folder, the file, and whether it is named itself."""
    path = Path(str(source))
    with suppress(OSError, ValueError):
        for file in path.rglob("*") if path.is_dir() else [path]:
            yield file_identity(file), file, file is path


def _check(
    command: str, file: Path, protected: dict[_Identity, list[Any]], written: set[str], *, force: bool
) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        replaced, is_named = protected.get(file_identity(file), (None, False))
        if replaced and (is_named or _line(command, file) not in written):
            raise StoreError(
                f"cannot write {file}: it is {_shown(replaced, file)} that this command reads; choose "
                "another name"
            )
    check_replaceable(file)
    folder = next(each for each in file.absolute().parents if each.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write {file}: {folder} is no folder that can be written; choose another")
    if not file.exists() or _line(command, file) in written:
        return
    if Path(_spelled(file)).is_relative_to(home()):
        raise StoreError(f"cannot write {file}: DPCOST_HOME keeps a file there; choose another name")
    if not force:
        raise StoreError(
            f"{file} is there, and dpcost {command} did not write it as it is; choose another name, or add "
            "--force to replace it"
        )


def _shown(replaced: Path, file: Path) -> str:
    return "the file" if replaced.absolute() == file.absolute() else f"the file {replaced}"


def _spelled(file: Path) -> str:
    """Return a file's path without links and detours, on one line."""
    return str(file.parent.resolve() / file.name).replace("\n", "\\n")


def _line(command: str, file: Path) -> str:
    return f"{sha256_file(file)} {command} {_spelled(file)}"


def _written() -> set[str]:
    try:
        return set((home() / _WRITTEN).read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    except (OSError, StoreError):
        return set()


def _remember(lines: Iterable[str]) -> None:
    """Add to what the home remembers; without it the next command asks for ``--force``."""
    with suppress(OSError, StoreError):
        new = dict.fromkeys(lines)
        if new and (missing := new.keys() - _written()):
            with open(
                private_folder(home()) / _WRITTEN, "a", encoding="utf-8", errors="surrogateescape"
            ) as f:
                f.write("".join(f"{line}\n" for line in new if line in missing))
