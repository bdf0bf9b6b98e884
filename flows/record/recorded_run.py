"""A flow's run as the journal knows it: one at a time in a home, and told from a run that died."""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect import runtime

from data.store.folders import home
from flows.record import journal
from flows.record.progress import say


def from_server() -> bool:
    """Say whether this run is one of a deployment, and not of the command line."""
    return runtime.deployment.id is not None


@contextmanager
def recorded(study: str, profile: str = "", *, own: bool = False) -> Iterator[None]:
    """Keep the run in the journal, and the home's one place for a run until it ends.

    Parameters
    ----------
    study : str
        The study's name, or the flow's if it is of none.
    profile : str
        How much it computes.
    own : bool
        Whether it reads a table of one's own, so that its results are not for publication.
    """
    flow_run_id, status = str(runtime.flow_run.id), journal.INTERRUPTED
    journal.begin(home(), flow_run_id, study, profile=profile, own_data=own)
    try:
        with journal.exclusive_run(home(), say):
            yield
        status = journal.COMPLETED
    except Exception:
        status = "failed"
        raise
    finally:
        journal.end(home(), flow_run_id, status)
