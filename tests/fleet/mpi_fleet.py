"""One rank of an MPI job that runs many emitted files in a row; see test_fleet.py."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI


def main(folder: Path) -> None:
    jobs = json.loads((folder / "jobs.json").read_text())
    rank = MPI.COMM_WORLD.Get_rank()
    for number, job in enumerate(jobs):
        spec = importlib.util.spec_from_file_location(f"emitted{number}", folder / job["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        comm = MPI.COMM_WORLD.Dup()
        run = module.AllReduce(comm)
        mine = next(group for group in job["groups"] if rank in group)
        for elements in job["elements"]:
            place = np.arange(elements, dtype=np.int64)
            for kind in (np.int64, np.int32, np.float64):
                values = [(place * 7919 + r * 104729) % 1009 for r in range(job["world"])]
                wanted = sum(values[r] for r in mine).astype(kind)
                found = run(values[rank].astype(kind))
                assert np.array_equal(found, wanted), f"{job['program']}: {elements} {kind}"
        report = module.selfcheck(run, job["elements"][-1], np.float32)
        assert report["equal"], f"{job['program']}: {report}"
        assert report["bitwise_equal"], f"{job['program']}: {report}"
        run.free()
        comm.Free()
    if rank == 0:
        print(json.dumps({"done": len(jobs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
