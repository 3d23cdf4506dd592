"""One rank of a PyTorch job that uses an emitted file in training; see test_torch.py.

The emitted program is for data=4 on 2 x 4 devices, with model=2 beside it.
"""

import os
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
CPU = torch.device("cpu")


def model() -> nn.Module:
    torch.manual_seed(0)  # odd sizes, so that no bucket is a multiple of anything
    return nn.Sequential(nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 3), nn.Linear(3, 1))


def trained(made: nn.Module, plain: nn.Module, seed: int) -> list[torch.Tensor]:
    """Parameters after some steps on data of this rank's own."""
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        optimizer.zero_grad()
        made(torch.randn(5, 7, generator=draw)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in plain.parameters()]


def assert_close(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def counted(fast) -> list[int]:
    """From now on, the sizes of all tensors that go through the program."""
    sizes: list[int] = []
    name = "_overlapped" if hasattr(fast, "SEGMENTS") else "_run"
    name = "_side_by_side" if hasattr(fast, "STRIPES") else name
    run = getattr(fast.AllReduce, name)

    def noted(self, whole, *more):
        sizes.append(sum(part.numel() for part in whole) if isinstance(whole, list) else len(whole))
        return run(self, whole, *more)

    setattr(fast.AllReduce, name, noted)
    return sizes


def ddp(fast, seed: int, install: bool, group=None) -> list[torch.Tensor]:
    plain = model()
    small = 1e-4  # MB: several buckets
    made = DistributedDataParallel(
        plain, process_group=group or fast.program().group, bucket_cap_mb=small
    )
    if install:
        fast.install_ddp(made)
    return trained(made, plain, seed)


def the_backward_pass_goes_on(fast) -> None:
    """What follows the first bucket is computed while the program waits for other ranks."""
    made = DistributedDataParallel(
        plain := model(), process_group=fast.program().group, bucket_cap_mb=1e-4
    )
    fast.install_ddp(made)
    made(torch.ones(5, 7)).sum().backward()  # buckets are as they stay
    first, last = plain[3].bias, plain[0].weight
    held, computed, run = threading.Event(), threading.Event(), fast.AllReduce.__call__

    def held_up(self, tensor):
        held.set()
        assert computed.wait(60), "the backward pass waits for the first bucket"
        return run(self, tensor)

    fast.AllReduce.__call__ = held_up
    last.register_hook(lambda gradient: computed.set())
    assert first.grad is not None
    made(torch.ones(5, 7)).sum().backward()
    assert held.is_set()
    fast.AllReduce.__call__ = run


def what_fails_in_a_bucket_is_told(fast) -> None:
    made = DistributedDataParallel(model(), process_group=fast.program().group)
    fast.install_ddp(made)
    run = fast.AllReduce.__call__

    def fails(self, tensor):
        raise ValueError("no")

    fast.AllReduce.__call__ = fails
    with pytest.raises(RuntimeError):
        made(torch.ones(5, 7)).sum().backward()
    fast.AllReduce.__call__ = run


def parity_of_ddp(fast) -> None:
    seed, sizes = dist.get_rank(), counted(fast)
    wanted = ddp(fast, seed, install=False)
    assert not sizes
    assert_close(ddp(fast, seed, install=True), wanted)
    assert len(sizes) > STEPS  # several buckets
    sizes.clear()
    assert_close(ddp(fast, seed, install=False, group=fast.synthesized_group()), wanted)
    assert len(sizes) > STEPS


def the_wrong_group_is_refused(fast) -> None:
    mesh = fast.device_mesh("cpu")
    twins = dist.new_subgroups_by_enumeration([[0, 1, 4, 5], [2, 3, 6, 7]])[0]  # of the same size
    for group in (None, twins):
        made = DistributedDataParallel(model(), process_group=group)
        with pytest.raises(RuntimeError, match="process_group=program"):
            fast.install_ddp(made)
    with pytest.raises(RuntimeError, match="shard over the other axes"):
        fast.install_fsdp2(fully_shard(model(), mesh=mesh["data"]))


def parity_of_fsdp2(fast) -> None:
    """Sharded over model, replicated over data: as plain averaging over all eight ranks."""
    mesh = fast.device_mesh("cpu")
    plain = model()
    for parameter in plain.parameters():
        dist.broadcast(parameter.data, 0)
    wanted = trained(plain_ddp := DistributedDataParallel(plain), plain, dist.get_rank())
    del plain_ddp
    sharded = model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fully_shard(sharded[0], mesh=mesh["model"])
        fully_shard(sharded, mesh=mesh["model"])
        fast.install_fsdp2(sharded)
        sizes = counted(fast)
        trained(sharded, sharded, dist.get_rank())
        assert len(sizes) >= STEPS
        found = [parameter.full_tensor() for parameter in sharded.parameters()]
    assert_close(found, wanted)


def the_mesh_is_the_placement(fast) -> None:
    mesh = fast.device_mesh("cpu")
    assert mesh.mesh_dim_names == ("data", "model")
    assert mesh.mesh.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    rank = dist.get_rank()
    assert [mesh.get_local_rank("data"), mesh.get_local_rank("model")] == [rank // 2, rank % 2]
    ranks = dist.get_process_group_ranks(fast.program().group)
    assert ranks == dist.get_process_group_ranks(mesh["data"].get_group())


def tensors_of_all_sorts(fast) -> None:
    rank, mine = dist.get_rank(), [r for r in range(8) if r % 2 == dist.get_rank() % 2]
    for kind in (torch.int8, torch.int32, torch.float16, torch.bfloat16, torch.float64):
        tensor = torch.full((3, 5), rank, dtype=kind)
        assert torch.equal(fast.all_reduce(tensor), torch.full((3, 5), sum(mine), dtype=kind))
    scalar = torch.tensor(float(rank))
    assert fast.all_reduce(scalar).item() == sum(mine)
    turned = torch.full((3, 4), float(rank)).t()
    fast.all_reduce(turned)
    assert torch.equal(turned, torch.full((4, 3), float(sum(mine))))
    empty = torch.empty(0)
    assert fast.all_reduce(empty).numel() == 0
    parameter = nn.Parameter(torch.full((2,), float(rank)))
    fast.all_reduce(parameter)
    assert parameter.tolist() == [sum(mine)] * 2
    group = fast.synthesized_group()
    most = torch.tensor([rank])
    dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
    assert most.item() == max(mine)
    whole = torch.tensor([rank])
    dist.all_reduce(whole, group=group)
    assert whole.item() == sum(mine)
    dist.broadcast(whole, mine[0], group=group)
    dist.barrier(group=group)


def main(folder: Path, rank: int) -> None:
    sys.path.insert(0, str(folder))
    store = (folder / "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=8)
    import collsynth_torch as fast

    uses = (
        tensors_of_all_sorts,
        the_mesh_is_the_placement,
        the_wrong_group_is_refused,
        parity_of_ddp,
        the_backward_pass_goes_on,
        what_fails_in_a_bucket_is_told,
        parity_of_fsdp2,
    )
    for use in uses:
        use(fast)
        print(use.__name__, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
