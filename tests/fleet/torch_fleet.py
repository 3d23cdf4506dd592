"""One rank of a PyTorch job that runs many emitted files in a row; see test_fleet.py."""

import gc
import importlib.util
import json
import os
import sys
from pathlib import Path

import payloads
import torch
import torch.distributed as dist

KINDS = (torch.int64, torch.int32, torch.float32, torch.bfloat16)
CHECKED = (torch.float32, torch.bfloat16, torch.int64, torch.int8)


def check(module, job: dict, rank: int, elements: int, kind: torch.dtype) -> None:
    """One call: bit for bit what plain arithmetic gives, as all sums are exact."""
    most = 16 if kind is torch.bfloat16 else payloads.MODULUS
    given = torch.from_numpy(payloads.given(job, rank, elements, most)).to(kind)
    call = getattr(module, job["request"].replace("-", "_"))
    wanted = payloads.wanted(job, rank, elements, most)
    if job["request"] in ("all-gather", "reduce-scatter", "all-to-all"):
        kept = given.clone()
        found = torch.full((len(wanted),), 77, dtype=kind)
        assert call(found, given) is found
        assert torch.equal(given, kept), "the input is another now"
    else:
        found = call(given)
    if wanted is not None:
        right = torch.from_numpy(wanted).to(kind)
        assert torch.equal(found, right), f"{job['program']}: {elements} {kind}: {found} {right}"


def main(folder: Path, rank: int) -> None:
    jobs = json.loads((folder / "jobs.json").read_text())
    for number, job in enumerate(jobs):
        store = (folder / f"store{number}").as_uri()
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=job["world"])
        spec = importlib.util.spec_from_file_location(f"emitted{number}", folder / job["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        for elements, kind in payloads.turned(number, job["elements"], KINDS):
            check(module, job, rank, elements, kind)
        kind = CHECKED[number % len(CHECKED)]
        report = module.selfcheck(job["elements"][-1], kind, torch.device("cpu"))
        assert report["equal"], f"{job['program']}: {kind} {report}"
        assert report["bitwise_equal"], f"{job['program']}: {kind} {report}"
        dist.destroy_process_group()
        # A module keeps its groups, and those their threads: hundreds after some files.
        del sys.modules[spec.name], module
        gc.collect()
    print(json.dumps({"done": len(jobs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
