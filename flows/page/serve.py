"""Serve a page on this machine until Ctrl-C."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from flows.page.app import page_app
from flows.page.files import opened_files
from flows.page.guard import Guarded
from tasks.errors import SpecError


def serve(file: str, folder: Path, port: int, say: Callable[[str], object]) -> None:
    """Serve the page of a table or study file, and say its address."""
    files = opened_files(file, folder)
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind(("127.0.0.1", port))
        except OSError as error:
            raise SpecError(f"--port must be free on this machine, got {port} ({error.strerror})") from None
        port = own.getsockname()[1]
        app = Guarded(page_app(files), port)
        say(f"the page of {files.study.name}: http://127.0.0.1:{port}/?token={app.token}")
        say("only this machine can open it; Ctrl-C closes it, and its files stay")
        with suppress(KeyboardInterrupt):  # the documented end
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[own])
