"""Does XLA hold the kernels of a plan? ``python -m results.kernels run`` asks it, on one core.

A step of a small model is written for JAX with no kernels, with those that the joint search of
fusions chose for two devices, and with every operation one by itself, as barriers; compiled and
run by XLA as it is, and by XLA that keeps barriers; a minute or two in all, alone on the machine.
``report`` writes the page of what was measured. ``inside`` is what ``run`` starts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from results import pages, record
from results.kernels.measure import BATCH, CHANGES, FLAG, MODEL, clock, measured

COMMAND = "python -m results.kernels"
DATA = Path(__file__).with_name("kernels.json")
WAYS = {"as it is": "", "barriers kept": FLAG}
ONE_CORE = "--xla_cpu_multi_thread_eigen=false"


def run() -> dict[str, Any]:
    """Each way in a process of its own: XLA reads its flags once."""
    found = {}
    for name, flag in WAYS.items():
        more = {**os.environ, "XLA_FLAGS": f"{ONE_CORE} {flag}", "JAX_PLATFORMS": "cpu"}
        words = [sys.executable, "-m", "results.kernels", "inside"]
        said = subprocess.run(words, capture_output=True, text=True, env=more, check=True)
        found[name] = json.loads(said.stdout.splitlines()[-1])
    return {
        **record.origin(f"{COMMAND} run"),
        "machine": record.machine(),
        "model": MODEL,
        "changes": CHANGES,
        "batch": BATCH,
        "flag": FLAG,
        "ways": found,
        "clock": clock(found["as it is"]["core"]),
    }


def page(data: dict[str, Any]) -> str:
    """README.md with its section about kernels as the data has it."""
    return pages.page("kernels", data=data)


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("what", choices=["run", "report", "inside"])
    asked = parser.parse_args().what
    if asked == "inside":
        print(json.dumps(measured()))
        return
    if asked == "run":
        pages.keep(DATA, run(), page)
    pages.write(page(record.read(DATA)))


if __name__ == "__main__":
    main()
