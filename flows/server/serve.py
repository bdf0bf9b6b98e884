"""``python -m flows.server.serve [--port 4200]``: server, schedules and runs, until Ctrl-C.

The server is a thread of this process, and Prefect's runner starts each run that is due as a process of its
own, one at a time. Where ``PREFECT_API_URL`` names a server that answers, runs are served to that one. What
dies is started again by systemd or the container engine.
"""

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import socket
import sys
import zoneinfo
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import psutil

from data.store.folders import PROJECT_ROOT, SITE, home
from flows.record.journal import locked
from flows.server import ServerError
from flows.server.prefect_server import (
    HOST,
    authentication_file,
    home_tag,
    prefect_server,
    wrong_setting,
)
from tasks.errors import MENDABLE

GRACE = 8.0  # seconds in which runs are to end
_STOPPED = "stopped: server, schedules and runs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.serve", description=main.__doc__)
    parser.add_argument("--port", type=int, default=4200, help="the port to listen on (default 4200)")
    parser.add_argument("--host", default=HOST, help=f"the interface to listen on (default {HOST})")
    parser.add_argument(
        "--known-as", action="append", default=[], help="a host name that it is reached by; may be repeated"
    )
    options = parser.parse_args(arguments)
    os.umask(0o077)
    if find_spec("tzdata"):  # Prefect lists all time zones for each schedule that it reads
        zoneinfo.reset_tzpath(())
    # A shell starts background jobs with Ctrl-C ignored; this is to end with it all the same. Container
    # engines send SIGTERM.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        with locked(home(), "serve.lock", _refuse):
            _serve(home(), partial(_listen, options), [HOST, "localhost", *options.known_as])
    except KeyboardInterrupt:
        pass
    except Exception as error:
        explained = isinstance(error, (ServerError, OSError, *MENDABLE))
        sentence = wrong_setting(error) or (str(error) if explained else "")
        if not sentence:
            raise
        print(sentence, file=sys.stderr)
        return 1
    print(_STOPPED, flush=True)
    return 0


def _serve(home: Path, listen: Callable[[], socket.socket], hosts: list[str]) -> None:
    """Bring a server, deploy every study, start again what died, and run what is due until a signal."""
    print("starting the server and the deployments …", flush=True)
    path = [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]  # runs find the flows there
    settings = {
        "DPCOST_HOME": str(home),
        "DPCOST_SERVED_BY": str(os.getpid()),
        "PREFECT_RUNNER_POLL_FREQUENCY": "2",
        "PYTHONPATH": os.pathsep.join(path),
        # What a killed runner leaves lies in the home, and goes when the next one starts.
        "TMPDIR": str(_empty_folder(home / "prefect" / "tmp")),
    }
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    os.environ.update(settings)
    left = ["the deployments are being registered"]  # to be done
    told: dict[str, Any] = {"when_lost": leave, "starting": lambda: "".join(left)}
    with prefect_server(home, listen=listen, hosts=hosts, **told) as api_url:
        from prefect.runner import Runner

        class InterruptedRunner(Runner):
            """A runner that ends in the same way whichever signal comes."""

            def handle_sigterm(self, *args: object, **kwargs: object) -> None:
                signal.raise_signal(signal.SIGINT)

        from flows.record.dead_runs import end_dead_runs
        from flows.server.deployments import deployments

        pages = api_url.removesuffix("/api")
        os.environ.setdefault("DPCOST_REPORTS_URL", f"{pages}/reports")  # tells runs where reports are shown
        runner = InterruptedRunner(name="dpcost", limit=1, pause_on_shutdown=False)
        for deployment in deployments(home_tag(home)):
            runner.add_deployment(deployment)
        left.clear()
        end_dead_runs(home_tag(home), deployed=True)
        print(_welcome(pages, home), flush=True)
        asyncio.run(_run(runner))


async def _run(runner: Any) -> None:
    """Run what is due until a signal; kill the runs that take longer to end than a container engine waits."""
    running = asyncio.create_task(runner.start())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        running.cancel()
        await asyncio.wait([running], timeout=GRACE)
        if not running.done():
            for each in psutil.Process().children(recursive=True):
                each.kill()
            print(_STOPPED, flush=True)
            os._exit(0)
        raise


def leave(sentence: str) -> NoReturn:
    """Say why, and end this process at once."""
    try:
        print(f"dpcost: {sentence}; finished blocks are stored", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _listen(options: argparse.Namespace) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        return socket.create_server((options.host, options.port), family=family)
    except (OSError, OverflowError) as error:
        raise ServerError(
            f"port {options.port} of {options.host} cannot be used ({error}); stop what listens there, or "
            "choose another, e.g. --port 4201"
        ) from None


def _refuse(holder: str) -> None:
    raise ServerError(
        f"{home()} has a standing server already (process {holder}); stop it, or set another DPCOST_HOME"
    )


def _empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _welcome(pages: str, home: Path) -> str:
    program = shlex.quote(str(Path(sys.executable).with_name("prefect")))
    file = shlex.quote(str(authentication_file(home)))
    site = f"The documentation is at {pages}/site/." if (SITE / "index.html").exists() else ""
    return f"""\
Prefect is at {pages} (log: {home / "prefect" / "server.log"}), the reports at {pages}/reports/.
Both ask for a password: the line in {file}. {site}
Ctrl-C stops everything. Start a run now:
  PREFECT_API_URL={pages}/api PREFECT_API_AUTH_STRING="$(cat {file})" \\
    {program} deployment run study/housing --watch"""


if __name__ == "__main__":
    sys.exit(main())
