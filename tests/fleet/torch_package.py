"""One rank of a PyTorch job that uses the package of a plan; see test_package.py."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main(folder: Path, rank: int) -> None:
    sys.path.insert(0, str(folder))
    store = (folder / "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=8)
    import comm

    comm.init()
    assert comm.device_mesh("cpu").mesh_dim_names == ("data", "expert")
    gather, scatter = comm.parameters_gathered, comm.gradients_scattered
    tokens, norms = comm.tokens_to_experts, comm.ENTRIES["norms"]
    # In another order on every second rank of a group that the first two are not over.
    mine = torch.arange(3) + 10 * rank
    group = dist.get_process_group_ranks(gather.program().group)
    found = gather.all_gather(torch.zeros(12, dtype=torch.int64), mine)
    assert torch.equal(found.view(4, 3), torch.stack([torch.arange(3) + 10 * r for r in group]))
    piece = scatter.reduce_scatter(torch.zeros(3, dtype=torch.int64), found)
    place = group.index(rank)
    assert torch.equal(piece, 4 * found[3 * place : 3 * place + 3])
    twins = dist.get_process_group_ranks(tokens.program().group)
    sent = torch.tensor([rank, 100 + rank])
    come = tokens.all_to_all(torch.zeros(2, dtype=torch.int64), sent)
    assert come.tolist() == [100 * twins.index(rank) + other for other in twins]
    assert norms.all_reduce(torch.tensor([rank])).item() == 28
    print("done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
