"""One rank of a PyTorch job that runs many emitted files in a row; see test_fleet.py."""

import gc
import importlib.util
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

KINDS = (torch.int64, torch.int32, torch.float32)


def main(folder: Path, rank: int) -> None:
    jobs = json.loads((folder / "jobs.json").read_text())
    for number, job in enumerate(jobs):
        store = (folder / f"store{number}").as_uri()
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=job["world"])
        spec = importlib.util.spec_from_file_location(f"emitted{number}", folder / job["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        mine = next(group for group in job["groups"] if rank in group)
        for elements in job["elements"]:
            place = torch.arange(elements, dtype=torch.int64)
            for kind in KINDS:
                values = [(place * 7919 + r * 104729) % 1009 for r in range(job["world"])]
                wanted = sum(values[r] for r in mine).to(kind)
                found = module.all_reduce(values[rank].to(kind))
                assert torch.equal(found, wanted), f"{job['program']}: {elements} {kind}"
        report = module.selfcheck(job["elements"][-1], torch.float32, torch.device("cpu"))
        assert report["equal"], f"{job['program']}: {report}"
        assert report["bitwise_equal"], f"{job['program']}: {report}"
        dist.destroy_process_group()
        # A module keeps its groups, and those their threads: hundreds after some files.
        del sys.modules[spec.name], module
        gc.collect()
    print(json.dumps({"done": len(jobs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
