"""Webhook messages about failed scheduled runs and drifted results.

The address is ``DPCOST_WEBHOOK_URL`` or, if that is not set, Prefect's secret block ``dpcost-webhook``. What
is sent are names and numbers of cells: no result, no message of an error, nothing of the data.
"""

import json
import os
import urllib.error
import urllib.request
from typing import Any

from flows.record.progress import say

VARIABLE = "DPCOST_WEBHOOK_URL"
BLOCK = "dpcost-webhook"
TIMEOUT = 10.0
MAX_CELLS = 20


def tell_failure(flow: Any, flow_run: Any, state: Any) -> None:
    """Notify the webhook that a scheduled run failed or crashed: a hook of Prefect's flows."""
    if flow_run.auto_scheduled:
        _tell("failed", f"{flow_run.name}: the scheduled run {state.name.lower()}", run=_run(flow_run))


def tell_drift(study: str, cells: list[str], flow_run: Any) -> None:
    """Notify the webhook that cells of a study differ from its last run by more than their error bars."""
    count = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
    sentence = f"{study}: {count} differ from the last run by more than the error bars"
    _tell("drift", sentence, study=study, n_cells=len(cells), cells=cells[:MAX_CELLS], run=_run(flow_run))


def _run(flow_run: Any) -> dict[str, str]:
    from prefect.utilities.urls import url_for

    return {"name": flow_run.name, "id": str(flow_run.id), "page": url_for(flow_run) or ""}


def _tell(event: str, sentence: str, **facts: Any) -> None:
    """Post one JSON object, if an address is configured; failures are only logged."""
    address = _address()
    if not address:
        return
    if not address.startswith(("https://", "http://")):
        say(f"note: the webhook was not told: {VARIABLE} must be an address that begins with https://")
        return
    body = json.dumps({"text": sentence, "event": event, **facts}).encode()
    try:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=TIMEOUT).close()
    except (OSError, ValueError) as error:  # the address may hold a secret: it is not shown
        reason = f"status {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        say(f"note: the webhook was not told: {reason}")


def _address() -> str:
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    from prefect.blocks.system import Secret

    try:
        block: Any = Secret.load(BLOCK)
        return str(block.get())
    except Exception:  # there is none, or the server cannot be asked now
        return ""
