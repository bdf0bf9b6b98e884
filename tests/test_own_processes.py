"""No server outlives tests that end while it starts or runs, by Ctrl-C or killed."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from data.store.folders import PROJECT_ROOT
from tests.flows.small_project import until
from tests.own_processes import own_process
from tests.private_postgres import programs

USES = {
    "any": "from tests.own_processes import own_process\n"
    "with own_process([sys.executable, '-c', 'import sys, time; time.sleep(600)', sys.argv[1]]):\n"
    "    time.sleep(600)",
    "PostgreSQL": "from tests.private_postgres import private_postgres\n"
    "with private_postgres(Path(sys.argv[1])):\n"
    "    time.sleep(600)",
}


def servers_of(folder, user):
    """Return the processes that are about a folder, besides the one that uses them, and initdb's."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            about = any(word.startswith(str(folder)) for word in each.cmdline())
            if about and each.pid != user and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return [each for each in found if "initdb" not in each.name()]


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("kind", USES)
def test_a_server_ends_with_what_uses_it(kind, number):
    if kind == "PostgreSQL":
        programs()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        code = f"import sys, time\nfrom pathlib import Path\n{USES[kind]}"
        options = {"cwd": PROJECT_ROOT, "stderr": subprocess.DEVNULL, "env": os.environ}
        with own_process([sys.executable, "-c", code, folder], **options) as user:
            until(lambda: servers_of(folder, user.pid))
            user.send_signal(number)
            user.wait(60)
            until(lambda: not servers_of(folder, user.pid))
