"""Fetch a dataset's raw file into the store."""

from data.fetch.raw_files import RawFile, fetch_or_stand_in, mirror_from_environment
from data.fetch.raw_files import fetch as fetch_raw
from data.registry import get_dataset
from data.store.folders import home
from tasks.faults import guarded


@guarded
def fetch(
    dataset: str, offline: bool = False, progress: bool = False, again: bool = False, last_try: bool = True
) -> RawFile:
    """Return the raw file's record: from the store, the mirror or the official address, else a stand-in."""
    entry, mirror = get_dataset(dataset), mirror_from_environment()
    if again:
        return fetch_raw(entry, home=home(), mirror=mirror, offline=offline, progress=progress, again=True)
    return fetch_or_stand_in(
        entry, home=home(), mirror=mirror, offline=offline, progress=progress, last_try=last_try
    )
