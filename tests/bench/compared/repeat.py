"""Runs a script of this folder again and again: ``python repeat.py SCRIPT TIMES``, in any environment.

Prints a JSON object a run: the ``answer`` that the script makes, the ends ``low`` and ``high`` of its
intervals where it makes some, and its ``seconds`` of the processor, with imports in the first alone.
"""

import json
import sys
import time
import warnings
from pathlib import Path


def main(script: str, times: int) -> None:
    """Print what each run makes; what the script itself prints is no answer."""
    out, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    code = compile(Path(script).read_bytes(), script, "exec")
    for _ in range(times):
        names: dict = {"__name__": "script"}
        start = time.process_time()
        exec(code, names)
        made = {"seconds": time.process_time() - start}
        made |= {
            key: [float(each) for each in names[key]] for key in ("answer", "low", "high") if key in names
        }
        print(json.dumps(made), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
