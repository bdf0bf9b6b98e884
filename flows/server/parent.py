"""The end of a run's process with the standing server that started it, however that one ended."""

import os
import threading
import time


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="watch of the parent", daemon=True).start()
