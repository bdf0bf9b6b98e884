"""Where a table lies: in a file, in a folder of Parquet files, or at an address of either."""

from pathlib import Path, PurePosixPath

from data.errors import DataError
from data.store.folders import file_identity

Source = Path | str
"""A path, or an address that fsspec understands, such as ``s3://bucket/table.parquet``."""


_SUMMARIES = ("_metadata", "_common_metadata", "_SUCCESS")  # which programs write next to the parts


def is_address(source: Source) -> bool:
    return "://" in str(source)


def is_folder(source: Source) -> bool:
    """Return whether a source is a folder; an address stands for one."""
    return is_address(source) or Path(source).is_dir()


def files_of(folder: Source) -> list[Source]:
    """Return the Parquet files of a folder by name, without hidden names and summaries."""
    entries: list[tuple[Source, bool]]
    if is_address(folder):
        entries = _at_address(str(folder))
    else:
        entries = [(path, path.is_dir()) for path in Path(folder).iterdir()]
    hidden = [PurePosixPath(source).name for source, inner in entries if inner or _is_parquet(source)]
    if odd := [name for name in hidden if name[:1] == "_" and name not in _SUMMARIES]:
        raise DataError(
            f"{folder} has {odd[0]!r}, and a name with _ in front is no part of a table; rename it, or move "
            "it away"
        )
    visible = [(source, inner) for source, inner in entries if PurePosixPath(source).name[:1] not in "._"]
    if any(inner for _, inner in visible):
        raise DataError(
            f"{folder} has folders inside, and which rows are meant is not clear; keep files only"
        )
    if others := [source for source, _ in visible if not _is_parquet(source)]:
        raise DataError(
            f"{folder} may hold .parquet files only, since each is a part of the table, got "
            f"{PurePosixPath(others[0]).name!r}; move it away"
        )
    if not visible:
        raise DataError(f"{folder} has no .parquet files; check the path")
    inodes: dict[tuple[int, int], Path] = {}
    for path in (Path(str(source).removeprefix("file://")) for source, _ in visible):
        if path.exists() and (first := inodes.setdefault(file_identity(path), path)) != path:
            raise DataError(
                f"{folder} has one file under two names, {path.name!r} and {first.name!r}, whose rows would "
                "count twice; remove one of the two links"
            )
    return sorted((source for source, _ in visible), key=str)


def _is_parquet(source: Source) -> bool:
    return str(source).lower().endswith(".parquet")


def _at_address(folder: str) -> list[tuple[Source, bool]]:
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(folder)
        listed = system.ls(root, detail=True)
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
