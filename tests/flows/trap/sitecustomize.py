"""Imported by every Python that has this folder in PYTHONPATH: notes each name that is looked up and each
address that is connected to, and lets none but the loopback interface through."""

import os
import sys

WATCHED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"}
LOOPBACK = {"127.0.0.1", "localhost", "::1", "", None}


def note(event, arguments):
    if event not in WATCHED:
        return
    target = arguments[0] if event.startswith("socket.get") else arguments[1]
    host = target[0] if isinstance(target, tuple) else target
    host = host.decode() if isinstance(host, bytes) else host
    if isinstance(host, str) and host.startswith(("/", "\0")):  # between processes of this machine
        return
    if host not in LOOPBACK:
        with open(os.environ["TRAP"], "a") as file:
            print(event, host, *sys.argv, file=file)
        raise OSError("caught in the trap")


sys.addaudithook(note)
