"""One rank of a PyTorch job that carries redistributions out; see test_requests.py.

Every case has a file emitted for its one request, what each rank holds before and is to hold
afterwards, and how buffers are rearranged around the call.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def rearranged(tensor: torch.Tensor, how: list[list[int]]) -> torch.Tensor:
    shape, order, result = how
    return tensor.reshape(shape).permute(order).reshape(result)


def main(folder: Path, rank: int) -> None:
    cases = json.loads((folder / "cases.json").read_text())
    world = int(os.environ["WORLD_SIZE"])
    for number, case in enumerate(cases):
        store = (folder / f"store{number}").as_uri()
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
        spec = importlib.util.spec_from_file_location(f"emitted{number}", folder / case["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        given = torch.from_numpy(np.load(folder / f"before{number}.npy")[rank])
        wanted = torch.from_numpy(np.load(folder / f"after{number}.npy")[rank])
        pieces = rearranged(given, case["given"]).contiguous()
        call = getattr(module, case["call"])
        if case["call"] == "all_reduce":
            found = call(pieces)
        else:
            found = call(torch.empty(wanted.numel(), dtype=given.dtype), pieces.reshape(-1))
        found = rearranged(found, case["got"])
        assert torch.equal(found, wanted), f"{case['move']}, {case['file']}: rank {rank}"
        dist.destroy_process_group()
    print(json.dumps({"done": len(cases)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
