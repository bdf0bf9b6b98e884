"""Where a table lies: in a file, in a folder of Parquet files, or at an address of either."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from data.errors import DataError
from data.store.folders import file_identity

Source = Path | str
"""A path, or an address that fsspec understands, such as ``s3://bucket/table.parquet``."""

SUFFIXES = (".csv", ".parquet")
_SUMMARIES = ("_metadata", "_common_metadata", "_SUCCESS")  # which programs write next to the parts
_NULL = "__HIVE_DEFAULT_PARTITION__"


class Part(NamedTuple):
    """A file of a table, and the columns that the names of its folders state, such as ``year=2024``."""

    file: Source
    keys: tuple[tuple[str, str | None], ...] = ()


def is_address(source: Source) -> bool:
    return "://" in str(source)


def is_folder(source: Source) -> bool:
    """Return whether a source is a folder; an address without the suffix of a file stands for one."""
    if is_address(source):
        return PurePosixPath(str(source)).suffix.lower() not in SUFFIXES
    return Path(source).is_dir()


def parts_of(source: Source) -> list[Part]:
    """Return a file, or the Parquet files of a folder by name, without hidden names and summaries.

    Folders inside must be named ``column=value`` (Hive partitions).
    """
    if not is_folder(source):
        return [Part(source)]
    parts, files = list[Part](), dict[tuple[int, int], Source]()
    for file, inner in sorted(_files(source), key=lambda each: str(each[0])):
        *folders, name = inner.parts
        if any(each[0] == "." for each in inner.parts) or name in _SUMMARIES:
            continue
        keys = tuple(map(_key, folders))
        path = Path(str(file).removeprefix("file://"))
        same = files.setdefault(file_identity(path), file) if path.exists() else file
        if name[0] == "_" or not name.lower().endswith(".parquet") or None in keys or same != file:
            raise DataError(
                f"{source} may hold .parquet files only, each with other rows, in folders named "
                f"column=value, and no name with _ in front, got {str(inner)!r}; rename it, or move it away"
            )
        parts.append(Part(file, tuple(filter(None, keys))))
    if not parts:
        raise DataError(f"{source} has no .parquet files; check the path")
    return parts


def _key(folder: str) -> tuple[str, str | None] | None:
    """Return the column that the name of a folder states, with its value; None if it states none."""
    column, mark, value = folder.partition("=")
    if not column or not mark or column[0] == "_":
        return None
    return unquote(column), None if value == _NULL else unquote(value)


def _files(folder: Source) -> Iterator[tuple[Source, PurePosixPath]]:
    """Yield the files of a folder at any depth, with their paths inside it."""
    if not is_address(folder):
        for path in Path(folder).rglob("*"):
            if not path.is_dir():
                yield path, PurePosixPath(path.relative_to(folder).as_posix())
        return
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(folder)
        system.ls(root)
        names = system.find(root)
    except Exception as error:  # each file system has its own
        raise DataError(
            f"{folder} cannot be listed ({type(error).__name__}); check the address, its package and "
            "credentials"
        ) from None
    for name in names:
        yield system.unstrip_protocol(name), PurePosixPath(name).relative_to(PurePosixPath(root))
