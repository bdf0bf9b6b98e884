"""What a process needs to use a Prefect server: its address, the authentication string and Prefect's
settings.

Prefect reads its settings when it is first imported, so this module imports it only inside functions.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from data.store.folders import private_folder
from flows import NO_ANALYTICS
from flows.server.processes import Say, ServerError
from tasks.faults import SpecError

HOST = "127.0.0.1"
LOST_AFTER = 90.0
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def authentication_file(home: Path) -> Path:
    """Return the file that holds the home's authentication string."""
    return home / "prefect.authentication"


def own_authentication(home: Path) -> str:
    """Return the string that the home's servers ask for: made once, readable by the owner alone."""
    path = authentication_file(home)
    if not path.exists():
        private_folder(home)
        with tempfile.NamedTemporaryFile("w", dir=home) as unfinished:  # nobody else can read it
            unfinished.write(f"dpcost:{secrets.token_urlsafe(24)}")
            unfinished.flush()
            with contextlib.suppress(FileExistsError):
                os.link(unfinished.name, path)
    return path.read_text()


def authentication_for(home: Path, api_url: str) -> str:
    """Return what to authenticate with at a server: the user's choice, else the home's string."""
    chosen = os.environ.get("PREFECT_API_AUTH_STRING", "")
    return chosen or (own_authentication(home) if _on_loopback(api_url) else "")


def require_access(api_url: str, authentication: str) -> None:
    """Refuse a server that does not take the authentication string.

    Raises
    ------
    ServerError
        If so.
    """
    try:
        _get(f"{api_url.rstrip('/')}/admin/version", authentication)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise ServerError(
                f"the Prefect server at {api_url} needs another authentication string; set "
                "PREFECT_API_AUTH_STRING to its own (`make serve` says where it is) or unset PREFECT_API_URL"
            ) from None
    except OSError:  # it answered a moment ago; `watched` notices if it is gone
        pass


def client_settings(home: Path, api_url: str, authentication: str) -> dict[str, str]:
    """Return the environment of a process that runs flows against the server at `api_url`.

    Where results are kept does not depend on the server, so that every server finds the same cache. The
    user's own choice of a logging level holds.
    """
    hosts = [*filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy")]), HOST, "localhost"]
    return {
        "PREFECT_API_URL": api_url,
        **({"PREFECT_API_AUTH_STRING": authentication} if authentication else {}),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        "PREFECT_LOGGING_LEVEL": logging_level("WARNING"),
        # What a server answers while its database starts again.
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504",
        "NO_PROXY": ",".join(dict.fromkeys(hosts)),
        "no_proxy": ",".join(dict.fromkeys(hosts)),
        **NO_ANALYTICS,
    }


def logging_level(default: str) -> str:
    """Return the user's choice of Prefect's logging level, or a default.

    Raises
    ------
    SpecError
        If it is none; Prefect prints many lines about it.
    """
    level = os.environ.get("PREFECT_LOGGING_LEVEL", default)
    if level.upper() not in LEVELS:
        raise SpecError(
            f"PREFECT_LOGGING_LEVEL must be one of {', '.join(LEVELS)}, got {level!r}; or unset it"
        )
    return level


@contextlib.contextmanager
def client_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to this process and its children, then import Prefect.

    Where Prefect was imported before, they apply to this thread alone.

    Raises
    ------
    SpecError
        If Prefect refuses a setting.
    """
    before = {name: os.environ.get(name) for name in settings}
    imported = "prefect" in sys.modules
    os.environ.update(settings)
    try:
        with contextlib.ExitStack() as stack:
            import pydantic

            try:
                import prefect.settings

                known = {
                    getattr(prefect.settings, name): value
                    for name, value in settings.items()
                    if hasattr(prefect.settings, name)
                }
                if imported:
                    stack.enter_context(prefect.settings.temporary_settings(known))
            except pydantic.ValidationError as error:
                first = error.errors()[0]
                raise SpecError(
                    f"a setting of Prefect, {'.'.join(map(str, first['loc']))}, is wrong: {first['msg']}, "
                    f"got {first['input']!r}; mend or unset it among the variables PREFECT_…"
                ) from None
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def answers(api_url: str) -> bool:
    """Say whether a Prefect server is well at this address."""
    try:
        return json.loads(_get(f"{api_url.rstrip('/')}/health")) is True
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def watched(
    what: str, lives: Callable[[], bool], when_lost: Say, after: float = LOST_AFTER, every: float = 5.0
) -> Iterator[None]:
    """Call `when_lost`, once and in another thread, if `lives` has not been true for `after` seconds."""
    over = threading.Event()

    def watch() -> None:
        last_answer = time.monotonic()
        while not over.wait(every):
            if lives():
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer > after and not over.is_set():
                when_lost(f"{what} has not answered for {after:.0f} s")
                return

    threading.Thread(target=watch, name=f"watch of {what}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def wait_until_recorded(
    api_url: str, flow_run_id: UUID | str, n_task_runs: int, timeout: float = 30.0
) -> int:
    """Wait until a flow run's task runs are on record with a final state; return how many are.

    A server that is ended earlier loses those that are still on their way.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.settings import PREFECT_API_URL, temporary_settings

    of_this_run_and_final = {
        "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
        "task_runs": {"state": {"type": {"any_": sorted(TERMINAL_STATES)}}},
    }
    deadline = time.monotonic() + timeout
    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        n_recorded = 0
        while True:
            with contextlib.suppress(httpx.HTTPError):  # a server that just died may come back
                answer = client.request("POST", "/task_runs/count", json=of_this_run_and_final)
                n_recorded = int(answer.json())
            if n_recorded >= n_task_runs or time.monotonic() > deadline:
                return n_recorded
            time.sleep(0.1)


def _on_loopback(api_url: str) -> bool:
    return urlsplit(api_url).hostname in (HOST, "localhost", "::1")


def _get(address: str, authentication: str = "") -> bytes:
    opener = urllib.request.build_opener(
        *([urllib.request.ProxyHandler({})] if _on_loopback(address) else [])
    )
    request = urllib.request.Request(address)
    if authentication:
        request.add_header("Authorization", f"Basic {base64.b64encode(authentication.encode()).decode()}")
    elif key := os.environ.get("PREFECT_API_KEY"):
        request.add_header("Authorization", f"Bearer {key}")
    with opener.open(request, timeout=5) as answer:
        return bytes(answer.read())
