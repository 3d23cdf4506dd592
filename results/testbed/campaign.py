"""The test network from the command line: up, down, calibrate, run."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from testbed.cases import cases
from testbed.flows import file_of, measure_flows
from testbed.measure import DATA, measure
from testbed.network import down, missing

_SECONDS = 85.0
_LEAST_SECONDS = 10.0
"""With less time left nothing is begun."""


def run(names: list[str], most_seconds: float) -> int:
    """Go on with what is not done, for some time; 0 when all is done, 3 when not.

    Calibration comes first, then the cases (or those named) in their order.
    """
    end = time.monotonic() + most_seconds
    wanted = [case for case in cases() if not names or case.name in names]
    for system in {case.system.name: case.system for case in wanted}.values():
        if not file_of(DATA, system).exists():
            if time.monotonic() > end - _LEAST_SECONDS:
                return 3
            measure_flows(system, DATA)
            print(f"{system.name}: flows done", flush=True)
    for case in wanted:
        if (DATA / f"{case.name}.json").exists():
            continue
        left = end - time.monotonic()
        if left < _LEAST_SECONDS:
            return 3
        done = measure(case, DATA, most_seconds=left)
        print(f"{case.name}: {'done' if done else 'to be continued'}", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "down", "list"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.what == "list":
        print("\n".join(case.name for case in cases()))
        return 0
    if asked.what == "down":
        print(f"{down()} namespaces taken away")
        return 0
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    return run(asked.names, asked.seconds)


if __name__ == "__main__":
    sys.exit(main())
