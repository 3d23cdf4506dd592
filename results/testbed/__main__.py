"""The test network from the command line.

``run`` measures what is not measured yet, for a minute and a half at most; ``report`` puts the
simulator beside all that is measured, into testbed.json and the results page; ``again`` repeats
a small part and compares; ``down`` takes away what a crash may have left; ``list`` names the cases.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hierarchies import InputError
from results import pages, record
from results.testbed.accuracy import APART, TOPS
from results.testbed.cases import cases
from results.testbed.flows import file_of, measure_flows
from results.testbed.hosts.network import clear, missing
from results.testbed.judged import KINDS, figures, rounded
from results.testbed.measure import DATA, measure
from results.testbed.repeat import again

COMMAND = "python -m results.testbed"
REPORT = Path(__file__).with_name("testbed.json")
Told = dict[str, Any]
TOP_SHARES, ORDERED_RIGHT, MEAN_ERROR = (0.8, 0.95, 1.0), 0.995, 0.03
"""What is aimed at."""
_SECONDS = 85.0
_LEAST_SECONDS = 10.0
"""With less time left nothing is begun."""


def run(names: list[str], most_seconds: float) -> int:
    """Go on with what is not done, for some time; 0 when all is done, 3 when not.

    The cases, or those named, in their order; before the first of a system its single flows.
    """
    end = time.monotonic() + most_seconds
    wanted = [case for case in cases() if not names or case.name in names]
    for case in wanted:
        if (DATA / f"{case.name}.json").exists():
            continue
        if not file_of(DATA, case.system).exists():
            if time.monotonic() > end - _LEAST_SECONDS:
                return 3
            measure_flows(case.system, DATA)
            print(f"{case.system.name}: flows done", flush=True)
        left = end - time.monotonic()
        if left < _LEAST_SECONDS:
            return 3
        done = measure(case, DATA, most_seconds=left)
        print(f"{case.name}: {'done' if done else 'to be continued'}", flush=True)
    return 0


def page(data: Told) -> pages.Page:
    """README.md with its section about the test network as the data has it."""
    return pages.page(
        "testbed",
        data=data,
        kinds=KINDS,
        tops=TOPS,
        aims=dict(zip(TOPS, TOP_SHARES, strict=True)),
        apart=APART,
        right=ORDERED_RIGHT,
        error=MEAN_ERROR,
    )


def report() -> int:
    """Write all figures and the page; nothing is measured."""
    data = record.origin(f"{COMMAND} report") | rounded(figures(DATA))
    pages.keep(REPORT, data, page)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "report", "again", "down", "list"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.what == "list":
        print("\n".join(case.name for case in cases()))
        return 0
    if asked.what == "down":
        print(f"{clear()} namespaces taken away")
        return 0
    if asked.what == "report":
        return report()
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    return again() if asked.what == "again" else run(asked.names, asked.seconds)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"error: {error}")
