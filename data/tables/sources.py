"""Where a table lies: in a file, in a folder of Parquet files, at an address of either, or in a database."""

from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from data.errors import DataError
from data.store.folders import file_identity
from data.tables.queries import Query, query_of

Source = Path | str | Query
"""A path, an address that fsspec understands, such as ``s3://bucket/table.parquet``, or a query."""

SUFFIXES = (".csv", ".parquet")
_SUMMARIES = ("_metadata", "_common_metadata", "_SUCCESS")  # which programs write next to the parts
_NULL = "__HIVE_DEFAULT_PARTITION__"


class Part(NamedTuple):
    """A file of a table, and the columns that the names of its folders state, such as ``year=2024``."""

    file: Source
    keys: tuple[tuple[str, str | None], ...] = ()


def source_of(written: str | Path, folder: Path = Path()) -> Source:
    """Return the source that a person wrote; a path starts from a folder."""
    text = str(written)
    if query := query_of(text, folder):
        return query
    return text if is_address(text) else folder / text


def is_address(source: Source) -> bool:
    return not isinstance(source, Query) and "://" in str(source)


def file_of(source: Source) -> Path | None:
    """Return the file or folder in which a table lies; None if it is elsewhere."""
    if isinstance(source, Query):
        return source.file
    return None if is_address(source) else Path(str(source))


def name_of(source: Source) -> str:
    """Return the name of a file, folder or database, without its place."""
    return source.name if isinstance(source, Query) else PurePosixPath(str(source).rstrip("/")).name


def is_folder(source: Source) -> bool:
    """Return whether a source is a folder; an address without the suffix of a file stands for one."""
    if isinstance(source, Query):
        return False
    if is_address(source):
        return PurePosixPath(str(source)).suffix.lower() not in SUFFIXES
    return Path(str(source)).is_dir()


def parts_of(source: Source) -> list[Part]:
    """Return a file, or the Parquet files of a folder by name, without hidden names and summaries.

    Folders inside must be named ``column=value`` (Hive partitions).
    """
    if not is_folder(source):
        return [Part(source)]
    parts = sorted(_parts(source, source), key=lambda part: str(part.file))
    if not parts:
        raise DataError(f"{source} has no .parquet files; check the path")
    inodes: dict[tuple[int, int], Path] = {}
    for path in (Path(str(part.file).removeprefix("file://")) for part in parts):
        if path.exists() and (first := inodes.setdefault(file_identity(path), path)) != path:
            raise DataError(
                f"{source} has one file under two names, {path.name!r} and {first.name!r}, whose rows would "
                "count twice; remove one of the two links"
            )
    return parts


def _parts(folder: Source, top: Source, keys: tuple[tuple[str, str | None], ...] = ()) -> list[Part]:
    parts: list[Part] = []
    for source, is_inner in sorted(_listed(folder), key=lambda each: str(each[0])):
        name = PurePosixPath(str(source)).name
        if name[:1] in "._":
            if name[0] == "_" and name not in _SUMMARIES and (is_inner or _is_parquet(source)):
                raise DataError(
                    f"{top} has {name!r}, and a name with _ in front is no part of a table; rename it, or "
                    "move it away"
                )
        elif is_inner:
            column, mark, value = name.partition("=")
            if not (column and mark):
                raise DataError(
                    f"{top} has folders inside, and which rows are meant is not clear, got {name!r}; keep "
                    "files only, or folders named column=value"
                )
            value = unquote(value)
            parts += _parts(source, top, (*keys, (unquote(column), None if value == _NULL else value)))
        elif _is_parquet(source):
            parts.append(Part(source, keys))
        else:
            raise DataError(
                f"{top} may hold .parquet files only, since each is a part of the table, got {name!r}; move "
                "it away"
            )
    return parts


def _is_parquet(source: Source) -> bool:
    return str(source).lower().endswith(".parquet")


def _listed(folder: Source) -> list[tuple[Source, bool]]:
    """Return what a folder holds, and whether it is a folder."""
    if not is_address(folder):
        return [(path, path.is_dir()) for path in Path(str(folder)).iterdir()]
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(str(folder))
        listed: list[dict[str, Any]] = system.ls(root, detail=True)
    except Exception as error:  # each file system has its own
        raise DataError(
            f"{folder} cannot be listed ({type(error).__name__}); check the address, its package and "
            "credentials"
        ) from None
    return [
        (system.unstrip_protocol(entry["name"]), entry["type"] == "directory")
        for entry in listed
        if entry["name"].rstrip("/") != root.rstrip("/")
    ]
