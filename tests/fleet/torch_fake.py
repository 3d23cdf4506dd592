"""An emitted file on 512 ranks of torch's fake backend: the groups each rank makes and calls."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore


def main(folder: Path, ranks: list[int]) -> None:
    sys.path.insert(0, str(folder))
    seen = {}
    for rank in ranks:
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=512)
        import collsynth_torch as fast

        fast.program.cache_clear()
        fast.all_reduce(torch.ones(1000))
        seen[rank] = [
            (step.collective, dist.get_process_group_ranks(made.group))
            for step, made in fast.program()._steps
            if isinstance(step, fast.Exchange)
        ]
        dist.destroy_process_group()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(rank) for rank in sys.argv[2:]])
