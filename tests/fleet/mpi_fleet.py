"""One rank of an MPI job that runs many emitted files in a row; see test_fleet.py."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import payloads
from mpi4py import MPI

KINDS = (np.int64, np.int32, np.float64)


def check(run, job: dict, rank: int, elements: int, kind: type) -> None:
    """One call: bit for bit what plain arithmetic gives, as all sums are exact."""
    given = payloads.given(job, rank, elements).astype(kind)
    kept, found = given.copy(), run(given)
    assert np.array_equal(given, kept), "the input is another now"
    wanted = payloads.wanted(job, rank, elements)
    assert (found is None) is (wanted is None)
    if wanted is not None:
        right = wanted.astype(kind)
        assert np.array_equal(found[: right.size], right), f"{job['program']}: {elements} {kind}"


def main(folder: Path) -> None:
    jobs = json.loads((folder / "jobs.json").read_text())
    rank = MPI.COMM_WORLD.Get_rank()
    for number, job in enumerate(jobs):
        spec = importlib.util.spec_from_file_location(f"emitted{number}", folder / job["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        comm = MPI.COMM_WORLD.Dup()
        run = getattr(module, "".join(map(str.capitalize, job["request"].split("-"))))(comm)
        for elements, kind in payloads.turned(number, job["elements"], KINDS):
            check(run, job, rank, elements, kind)
        report = module.selfcheck(run, job["elements"][-1], np.float32)
        assert report["equal"], f"{job['program']}: {report}"
        assert report["bitwise_equal"], f"{job['program']}: {report}"
        run.free()
        comm.Free()
    if rank == 0:
        print(json.dumps({"done": len(jobs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
