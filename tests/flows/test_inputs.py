"""Whatever is typed, there is an answer or one sentence: no traceback, no internal error, no source."""

import re
import signal
import time

import numpy as np
import pytest


@pytest.mark.slow
def test_ctrl_c_while_the_command_loads_is_no_traceback(project):
    for delay in np.linspace(0.02, 0.6, 15):
        process = project.start("status")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        # What Python says before it gets there, and while it loads the first file there, is its own.
        assert not re.search(r'flows/(?!cli/start\.py", line \d+, in <module>)', err), err
