"""``python -m flows.serve [--only] [STUDY …]``: Prefect's server, schedules and runs, until Ctrl-C.

The server is a thread of this process. Prefect's runner starts each due run as a separate process, one at a
time. If ``PREFECT_API_URL`` names a server, runs are served to that server and none is started here. systemd
or the container engine restarts a failed process.

The web application of `make serve` has reports next to Prefect's pages. Prefect asks for the authentication
string below ``/api``, in a header that its pages send and that no other site can make a browser send. Reports
ask for the same name and password in the browser's own way, which a browser sends nowhere else."""

import argparse
import asyncio
import base64
import hmac
import json
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.store.folders import PROJECT_ROOT, REPORTS, home
from flows import ENDS_WITH, ServerError
from flows.cli.main import explained
from flows.cli.options import rendered
from flows.local_server import (
    HOST,
    SERVED,
    authentication_file,
    bound_host,
    connected_to,
    drop_other_variables,
    home_tag,
    listening_at,
    loopback,
    own_authentication,
    running_server,
    stated_address,
)
from flows.lock import holder, locked
from flows.progress import say
from tasks.run_options import PROFILES

_FILES = ("/reports",)


# What pages of reports run is served from the code, never from the folder of reports.
_SCRIPTS = tuple(f"/reports/{folder}pages.js" for folder in ("", *(f"{each}/" for each in PROFILES)))


# The description of Prefect's API, and what Prefect would ask the network for.
_NOT_OFFERED = ("/docs", "/redoc", "/openapi.json", "/api/collections")
_REALM = {"www-authenticate": 'Basic realm="reports", charset="UTF-8"'}


# Prefect's pages would load logos and report their use elsewhere.
_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; form-action 'self'"
)


# Reports may be of strangers, on the origin of Prefect's pages: no script runs but those of our pages.
_POLICY_OF_FILES = (
    "default-src 'none'; script-src {scripts}; connect-src 'none'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'"
)
PORT = 4200
INHERITED = ("DPCOST_HOME", SERVED, "DPCOST_REPORTS_URL", "PYTHONPATH", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY")
OTHER_FLOWS_AT = {"ingest": "0 2 * * 1", "scorecard": "0 8 * * 1"}


def with_reports(prefect: ASGIApp, folder: Path, authentication: str, hosts: Sequence[str]) -> ASGIApp:
    """Return Prefect's application with the reports in a folder next to it.

    `authentication` is ``name:password``; `hosts` are the names that the server is reached by.
    """
    files = Starlette(
        routes=[
            Route("/reports", lambda request: RedirectResponse(f"{request.url.path}/")),
            *(Route(path, _script) for path in _SCRIPTS),
            Mount("/reports", StaticFiles(directory=folder, html=True, check_dir=False)),
        ],
        exception_handlers={HTTPException: _no_file, OSError: _no_file, RuntimeError: _no_file},
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await prefect(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = _policy(path, _host(Headers(scope=scope)))
                if _is_below(path, _FILES):
                    headers["cross-origin-resource-policy"] = "same-origin"
                    headers["cache-control"] = "no-store"  # some are of tables of one's own
            await send(message)

        answer = prefect
        if _is_below(path, _NOT_OFFERED):
            answer = PlainTextResponse("not offered here", 404)
        elif _is_below(path, _FILES):
            knows = _knows(Headers(scope=scope), authentication)
            answer = files if knows else PlainTextResponse("this needs the server's password", 401, _REALM)
        await answer(scope, receive, send_with_policy)

    return TrustedHostMiddleware(application, allowed_hosts=list(hosts), www_redirect=False)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _host(headers: Headers) -> str:
    """Return the name and port that a request was sent to; "" unless it is one."""
    name = headers.get("host", "")
    return name if re.fullmatch(r"[\w.:\[\]-]+", name) else ""


def _knows(headers: Headers, authentication: str) -> bool:
    scheme, _, string = headers.get("authorization", "").partition(" ")
    right = base64.b64encode(authentication.encode())
    return scheme.lower() == "basic" and hmac.compare_digest(string.strip().encode(), right)


def _policy(path: str, host: str) -> str:
    """Return which scripts the page at a path may run."""
    if not _is_below(path, _FILES):
        return _POLICY
    # Vega compiles its own expressions.
    return _POLICY_OF_FILES.format(
        scripts=" ".join(["'unsafe-eval'", *(f"{host}{each}" for each in _SCRIPTS)])
    )


async def _script(request: Request) -> Response:
    from reports.render import page_script  # what draws is loaded where something is shown

    return Response(page_script(), media_type="text/javascript")


async def _no_file(request: Request, fault: Exception) -> Response:
    status = fault.status_code if isinstance(fault, HTTPException) else 404
    return PlainTextResponse("there is no such report; the first run writes the index", status)


class NoRepeats(logging.Filter):
    """Passes a message once until another follows, whatever its numbers: Prefect's runner repeats some."""

    last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        is_new, self.last = record.msg != self.last, str(record.msg)
        return is_new


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flows.serve", description="Serve studies until Ctrl-C.")
    parser.add_argument("studies", nargs="*", help="your own study files to serve as well, or names")
    parser.add_argument("--only", action="store_true", help="serve these studies and no other")
    pool = "work pool of the server in PREFECT_API_URL, whose workers run the studies; default: this process"
    parser.add_argument("--pool", help=pool)
    parser.add_argument("--port", type=int, help=f"port; default: {PORT}")
    parser.add_argument("--host", help="network interface; default: the loopback interface")
    others = "host name of the server for other machines; repeatable"
    parser.add_argument("--known-as", action="append", default=[], help=others)
    options = parser.parse_args(arguments)
    os.umask(0o077)
    # A shell starts background jobs with Ctrl-C ignored; this process must still end with it.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        with locked(home(), "serve.lock", _refuse):
            _serve(home(), options)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        print(explained(error)[0], file=sys.stderr)
        return 1
    print("stopped: server, schedules and runs", flush=True)
    return 0


def _serve(home: Path, options: argparse.Namespace) -> None:
    """Start a server, deploy every study, and run due studies until a signal."""
    drop_other_variables()
    elsewhere = _elsewhere(options)
    print("starting the server and the deployments …", flush=True)
    path = [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]  # of the flows, for runs
    temporary = home / "prefect" / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    os.environ |= {
        "DPCOST_HOME": str(home),
        ENDS_WITH: str(os.getpid()),
        "PREFECT_RUNNER_POLL_FREQUENCY": "2",
        SERVED: json.dumps(served_studies(options.studies, only=options.only)),
        "PYTHONPATH": os.pathsep.join(path),
        # A killed runner leaves files in the home; the next runner deletes them.
        "TMPDIR": str(temporary),
    }
    with connected_to(elsewhere, home) if elsewhere else _own_server(home, options) as address:
        from prefect.runner import Runner

        from flows import study as flows
        from flows.unfinished import (
            end_unfinished,
            kept_settings,
            require_own_deployments,
            require_pool,
            skipping_late_runs,
        )

        class InterruptedRunner(Runner):
            """A runner that ends in the same way after every signal."""

            def handle_sigterm(self, *args: object, **kwargs: object) -> None:
                signal.raise_signal(signal.SIGINT)

        # Its warning of a lost connection is a traceback; `connected_to` says the same in a sentence.
        logging.getLogger("prefect.FlowRunCancellingObserver").setLevel(logging.ERROR)
        logging.getLogger("prefect.runner").addFilter(NoRepeats())  # of runs that wait
        tag, pages = home_tag(home), address.removesuffix("/api")
        if elsewhere:
            require_own_deployments(tag, address)
        if options.pool:
            require_pool(options.pool)
        os.environ.setdefault("DPCOST_REPORTS_URL", f"{pages}/reports")  # for runs
        runner: Any = InterruptedRunner(name="dpcost", limit=1, pause_on_shutdown=False)
        planned = deployments(tag, options.studies, only=options.only, pool=options.pool)
        changed = kept_settings(tag, planned, flows)
        served = {each.apply() if options.pool else runner.add_deployment(each) for each in planned}
        end_unfinished(tag, served, changed, commands=bool(holder(home)), workers=bool(options.pool))
        words = {
            "program": shlex.quote(str(Path(sys.executable).with_name("prefect"))),
            "file": shlex.quote(str(authentication_file(home))),
            "log": home / "prefect" / "server.log",
        }
        words["pool"] = options.pool and shlex.quote(options.pool)
        words["deployment"] = shlex.quote(f"study/{planned[0].name}")
        print(rendered("serving.txt.jinja", pages=pages, elsewhere=elsewhere, **words), flush=True)
        with skipping_late_runs(tag):
            if options.pool:
                threading.Event().wait()
            asyncio.run(runner.start())


def _elsewhere(options: argparse.Namespace) -> str:
    """Return the address in ``PREFECT_API_URL`` once a server responds there; refuse options of another."""
    address = os.environ.get("PREFECT_API_URL", "")
    if options.pool and not address:
        raise ServerError(f"--pool {options.pool} needs a server in PREFECT_API_URL, got none; set it")
    for name in ("port", "host"):
        if address and (value := getattr(options, name)) is not None:
            raise ServerError(
                f"--{name} {value} is for a server of this process, but PREFECT_API_URL={address} names "
                f"another; unset PREFECT_API_URL, or leave --{name} out"
            )
    return stated_address()


def _own_server(home: Path, options: argparse.Namespace) -> AbstractContextManager[str]:

    listening = _listen(options.host or loopback(), PORT if options.port is None else options.port)
    hosts = [HOST, "localhost", bound_host(listening), *options.known_as]
    compose = partial(with_reports, folder=REPORTS, authentication=own_authentication(home), hosts=hosts)
    return running_server(home, listening, {}, compose)


def served_studies(named: Sequence[str], *, only: bool) -> list[str]:
    """Return the names of studies that are served, and the paths of study files."""
    from flows.studies.find_study import study_names

    if only and not named:
        raise ServerError("--only must come with studies, got none; write e.g. --only housing costs.toml")
    files = [str(Path(each).resolve()) if each.endswith(".toml") else each for each in named]
    return list(dict.fromkeys([*([] if only else study_names()), *files]))


def deployments(tag: str, named: Sequence[str] = (), *, only: bool = False, pool: str = "") -> list[Any]:
    """Return deployments of the served studies, with their schedules, and of the other flows.

    Each run has the tag; the run of a study also has its name. With ``only``, there is one other flow, rerun.
    Workers of a ``pool`` get what runs of this process inherit.
    """
    from prefect.schedules import Cron
    from prefect.types.entrypoint import EntrypointType
    from prefect.utilities.annotations import freeze

    from flows import study as flows
    from flows.confirm import may_run
    from flows.studies.find_study import find_study, readable_studies

    crons = set[str]()

    def deployment(flow: Any, name: str, cron: str, **about: Any) -> Any:
        cron = _free_minute(cron, crons)
        schedule = Cron(cron, timezone="UTC") if cron else None
        tags, kind = [tag, *about.pop("tags", [])], EntrypointType.MODULE_PATH
        if pool:
            environment = {each: os.environ[each] for each in INHERITED if each in os.environ}
            job = {"env": environment, "working_dir": str(Path.cwd())}
            about |= {"work_pool_name": pool, "job_variables": job}
        return flow.to_deployment(name, schedule=schedule, tags=tags, entrypoint_type=kind, **about)

    studies: dict[str, Any] = {} if only else {study.name: study for study in readable_studies()}
    studies |= {each: find_study(each) for each in (served_studies(named, only=True) if named else ())}
    for file, study in studies.items():
        if study.analyst_table and not may_run(study.analyst_table.source):
            say(f"note: {file} has a query that nobody confirmed; run dpcost check {file} in a terminal")
    of_studies = [
        deployment(
            flows.study,
            study.name,
            study.schedule,
            parameters={"study": freeze(file), "options": {"profile": "standard"}},
            description=f"**{study.title}** {study.question.strip()}",
            tags=[study.name],
        )
        for file, study in studies.items()
    ]
    others: list[Any] = [flows.rerun, *([] if only else [flows.ingest, flows.scorecard, flows.report])]
    return of_studies + [deployment(flow, flow.name, OTHER_FLOWS_AT.get(flow.name, "")) for flow in others]


def _free_minute(cron: str, crons: set[str]) -> str:
    """Return a schedule, with another minute if it is taken: many runs at once lock the database."""
    minute, _, rest = cron.partition(" ")
    starts = [f"{(int(minute) + more) % 60} {rest}" for more in range(60)] if minute.isdigit() else []
    cron = next((each for each in starts if each not in crons), cron)
    crons.add(cron)
    return cron


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listening_at(host, port)
    except (OSError, OverflowError) as error:
        raise ServerError(
            f"port {port} of {host} cannot be used ({error}); stop the program that uses it, or pass another "
            "port, e.g. --port 4201"
        ) from None


def _refuse(holder: str) -> None:
    raise ServerError(
        f"{home()} already has a permanent server (process {holder}); stop it, or set another DPCOST_HOME"
    )


if __name__ == "__main__":
    sys.exit(main())
